"""Looking at where another thread is, which Python does not make safe by itself."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from xwheel.executor.running.interrupts import functions_of


class Waiting:
    """A thread that waits in a function of a function."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.is_deep = threading.Event()
        self.thread = threading.Thread(target=self._outer, daemon=True)
        self.thread.start()
        assert self.is_deep.wait(30)
        assert self.thread.ident is not None
        self.thread_id = self.thread.ident

    def _outer(self) -> None:
        self._inner()

    def _inner(self) -> None:
        self.is_deep.set()
        self.is_over.wait(30)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    waiting = Waiting()
    yield waiting
    waiting.is_over.set()
    waiting.thread.join(30)


def test_the_functions_of_a_thread_come_with_the_innermost_first(waiting: Waiting) -> None:
    names = [function.co_name for function in functions_of(waiting.thread_id)]
    assert names[:1] == ["wait"]  # of the condition inside the event
    assert names[names.index("_inner") + 1] == "_outer"
    assert functions_of(-1) == []


class Watched:
    """Stands for a frame, and notes whether a collection of garbage could begin where Python makes the next one."""

    f_code = functions_of.__code__

    def __init__(self, depth: int, collects: list[bool]) -> None:
        self.depth = depth
        self.collects = collects

    @property
    def f_back(self) -> Watched | None:
        self.collects.append(gc.isenabled())
        return Watched(self.depth - 1, self.collects) if self.depth else None


def test_no_collection_of_garbage_begins_while_the_frames_of_a_thread_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until Python 3.12 one would let the other thread go on, and its frames end while they are made."""
    collects: list[bool] = []

    def current_frames() -> dict[int, Watched]:
        collects.append(gc.isenabled())
        return {1: Watched(2, collects)}

    monkeypatch.setattr(sys, "_current_frames", current_frames)
    assert gc.isenabled()
    assert len(functions_of(1)) == 3
    assert collects == [False] * 4


@pytest.mark.parametrize("collects", [True, False])
def test_a_look_leaves_the_collector_as_it_was(waiting: Waiting, collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        functions_of(waiting.thread_id)
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()


def test_a_copy_that_is_forked_during_a_look_collects_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    is_looking, is_over = threading.Event(), threading.Event()

    def look_slowly() -> dict[int, FrameType]:
        is_looking.set()
        is_over.wait(0.2)
        return {}

    monkeypatch.setattr(sys, "_current_frames", look_slowly)
    assert gc.isenabled()
    looker = threading.Thread(target=functions_of, args=[0], daemon=True)
    looker.start()
    assert is_looking.wait(30)
    pid = os.fork()
    if pid == 0:
        os._exit(int(gc.isenabled()))
    is_over.set()
    looker.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
