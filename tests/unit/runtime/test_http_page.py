"""The example of the page about run listeners works as it stands there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import msgspec
import pytest

from tests.support.paths import DOCS
from tests.support.waiting import wait_until
from xwheel.clock import ManualClock
from xwheel.config import Config, build_config
from xwheel.model import RunState
from xwheel.plugin import RunChange
from xwheel.scheduler.listeners import ListenerQueue
from xwheel.storage.database.changes import MESSAGE_LENGTH

PAGE = (DOCS / "howto" / "listeners.md").read_text()


def test_the_example_counts_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "end_counter_example.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    example = importlib.import_module("end_counter_example")
    (listener,) = example.xwheel_register_run_listeners(build_config({}))
    queue = ListenerQueue(listener.name, listener, ManualClock(), 1000)
    states = [RunState.PLANNED, RunState.DISPATCHING, RunState.SUCCEEDED, RunState.FAILED, RunState.SUCCEEDED]
    queue.put([RunChange(1, 2, 3, state, 4) for state in states])
    wait_until(lambda: not queue.is_busy())
    assert listener.ends == {"succeeded": 2, "failed": 1}


def test_the_page_names_every_field_state_and_limit() -> None:
    assert set(re.findall(r"`(\w+)`", PAGE)) >= {field.name for field in msgspec.structs.fields(RunChange)}
    assert set(re.findall(r"`(\w+)`", PAGE)) >= {str(state) for state in RunState}
    queue = Config.model_fields["plugins"].annotation.model_fields["listener_queue"].default  # type: ignore[union-attr]
    assert f"({queue:,})" in PAGE
    assert f"first {MESSAGE_LENGTH:,} characters" in PAGE
