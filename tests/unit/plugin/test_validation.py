"""R4: what plugins raise and say is read without harm, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest

from xwheel.errors import ExecutorError, PluginError
from xwheel.plugin.group_calls import GroupCalls
from xwheel.plugin.hookspecs import check_object
from xwheel.plugin.resources import Resources
from xwheel.plugin.validation import error_words, guarded


class MuteError(Exception):
    def __str__(self) -> str:
        raise GeneratorExit


def test_r4_words_of_an_error_are_short_and_always_there() -> None:
    assert error_words(MuteError()) == "MuteError: (nothing that can be read)"
    assert error_words(ExecutorError("our own")) == "our own"
    assert error_words(ValueError("a\x00b\udc80")) == "ValueError: ab?"
    assert len(error_words(ValueError("x" * 10_000))) == 500


def test_r4_only_what_a_contract_allows_passes_as_it_is() -> None:
    def raising(error: BaseException) -> Any:
        raise error

    with pytest.raises(ExecutorError, match="^no$"):
        guarded("glue type X", lambda: raising(ExecutorError("no")), allowed=ExecutorError)
    for error in (SystemExit(1), KeyboardInterrupt(), GeneratorExit(), KeyError("a")):
        with pytest.raises(PluginError, match=f"^glue type X failed: {type(error).__name__}"):
            guarded("glue type X", lambda e=error: raising(e), allowed=ExecutorError)  # type: ignore[misc]


class ToyCalls:
    name = "toys"
    title = "toy calls"

    def calls(self, site: Any) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("title", [None, 7, "", " ", "toy\ncalls"])
def test_group_calls_say_what_they_are(title: Any) -> None:
    check_object(GroupCalls, ToyCalls())
    calls = ToyCalls()
    calls.title = title
    with pytest.raises(PluginError, match="title must be"):
        check_object(GroupCalls, calls)


class ToyResources:
    name = "toys"

    def resources(self, site: Any) -> list[Any]:
        return []


def test_who_keeps_mails_can_be_asked_as_the_contract_says() -> None:
    class Keeper(ToyResources):
        def keep_mails(self, job_id: int, addresses: str) -> str:
            return ""

    class Other(ToyResources):
        def keep_mails(self, job_id: int) -> str:
            return ""

    check_object(Resources, ToyResources())
    check_object(Resources, Keeper())
    with pytest.raises(PluginError, match=r"cannot be called as keep_mails\(job_id, addresses\)"):
        check_object(Resources, Other())
