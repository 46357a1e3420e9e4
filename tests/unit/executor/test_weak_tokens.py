"""The token of an XXL-JOB admin may be a weak one; an executor takes it only if it is told to."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from xwheel.errors import ConfigError
from xwheel.executor import Executor
from xwheel.private_files import write_text

WEAK = ("default_token", "short", "aaaaaaaaaaaaaaaaaaaa")
GOOD = "f3a9c1d8e07b4652"
WARNING = "executor.access_token is weak"


def make(token: str, **more: bool) -> Executor:
    return Executor(app_name="demo", admin_addresses=["http://127.0.0.1:1"], access_token=token, **more)


@pytest.mark.parametrize("token", WEAK)
def test_p6_a_weak_token_is_refused_with_the_setting_that_takes_it(token: str) -> None:
    with pytest.raises(ConfigError, match=r"executor\.accept_weak_token takes that of an XXL-JOB admin"):
        make(token)


@pytest.mark.parametrize("token", WEAK)
def test_p6_with_the_setting_it_is_taken_and_each_executor_warns(token: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        make(token, accept_weak_token=True)
    found = [record for record in caplog.records if record.getMessage().startswith(WARNING)]
    assert [record.levelno for record in found] == [logging.WARNING] * 2
    assert token not in caplog.text


def test_p6_a_good_token_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    make(GOOD, accept_weak_token=True)
    assert WARNING not in caplog.text


@pytest.mark.parametrize("token", ["", "two words", "größer", "line\nbreak"])
def test_p6_no_setting_takes_what_no_header_can_carry_or_no_token_at_all(token: str) -> None:
    with pytest.raises(ConfigError, match=r"executor\.access_token"):
        make(token, accept_weak_token=True)


def from_file(path: Path, token: str | None = None) -> Executor:
    return Executor(
        app_name="demo",
        admin_addresses=["http://127.0.0.1:1"],
        access_token=token,
        access_token_file=path,
        data_dir=path.parent / "data",
    )


def test_u8_the_token_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_text(path, f"{GOOD}\n")
    made = from_file(path)
    assert made._token == GOOD
    write_text(path, "never read\n")
    assert from_file(path, GOOD)._token == GOOD


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot read"), ("", "is empty"), ("\n", "is empty"), ("default_token", "at least 16")],
)
def test_u8_a_file_that_does_not_do_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        write_text(path, content)
    with pytest.raises(ConfigError, match=rf"executor\.access_token_file.*{words}"):
        from_file(path)
