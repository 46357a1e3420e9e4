"""``xwheel cron``: next fires, plain words, and one line for whatever cannot be understood."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from xwheel_commands import cron

from tests.support.rows import NOW
from tests.unit.cli.test_log_lines import completions
from tests.unit.test_extras import assert_hint
from xwheel.cli import main


class Shell:
    """Runs the command in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        self._monkeypatch.setattr(sys, "argv", ["xwheel", "cron", *words])
        with pytest.raises(SystemExit) as caught:
            main.main()
        out, err = self._capsys.readouterr()
        return int(caught.value.code or 0), out, err


@pytest.fixture
def xwheel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setattr(cron, "wall_ms", lambda: NOW + 250)
    return Shell(monkeypatch, capsys)


def lines(result: tuple[int, str, str]) -> list[str]:
    status, out, err = result
    assert (status, err) == (0, "")
    return out.splitlines()


def test_next_prints_five_local_times_from_now_on(xwheel: Shell) -> None:
    assert lines(xwheel("next", "0 0 8 * * ?", "--tz", "Asia/Shanghai")) == [
        f"2026-01-0{day}T08:00:00+08:00" for day in range(2, 7)
    ]


def test_u26_next_takes_five_fields_as_job_create_does_and_a_start_and_a_number(xwheel: Shell) -> None:
    words = ("next", "30 9 * * 1-5", "-n", "2", "--tz", "Europe/Berlin", "--from")
    assert lines(xwheel(*words, "2026-03-27T09:30")) == ["2026-03-30T09:30:00+02:00", "2026-03-31T09:30:00+02:00"]
    assert lines(xwheel(*words, "2026-03-27T08:29:59Z"))[0] == "2026-03-27T09:30:00+01:00"
    assert lines(xwheel(*words, str(NOW))) == ["2026-01-01T09:30:00+01:00", "2026-01-02T09:30:00+01:00"]


def test_next_as_json(xwheel: Shell) -> None:
    ((text),) = ["\n".join(lines(xwheel("next", "0 0 12 1 1 ? 2027-2030/3", "--json")))]
    assert json.loads(text) == {
        "expression": "0 0 12 1 1 ? 2027-2030/3",
        "dialect": "quartz",
        "timezone": "UTC",
        "items": [
            {"due_ms": 1_798_804_800_000, "local": "2027-01-01T12:00:00+00:00"},
            {"due_ms": 1_893_499_200_000, "local": "2030-01-01T12:00:00+00:00"},
        ],
    }


def test_next_says_when_there_is_no_more(xwheel: Shell) -> None:
    assert lines(xwheel("next", "0 0 0 1 1 ? 2027")) == ["2027-01-01T00:00:00+00:00", "no further fire"]
    assert lines(xwheel("next", "0 0 0 30 2 ?")) == ["no fire"]
    assert lines(xwheel("next", "0 0 0 * * ?", "--from", "9999-12-31T23:59:59")) == ["no fire"]


def test_explain_speaks_english_and_chinese(xwheel: Shell) -> None:
    english, chinese = "At 09:00, Monday through Friday", "在 09:00, 星期一 到 星期五"
    quartz = ("explain", "0 0 9 ? * MON-FRI")
    assert lines(xwheel(*quartz)) == [english, chinese]
    assert lines(xwheel(*quartz, "--lang", "en")) == [english]
    assert lines(xwheel(*quartz, "--lang", "zh")) == [chinese]
    assert lines(xwheel("explain", "0 9 * * 1-5", "--lang", "both")) == [english, chinese]


def test_explain_as_json(xwheel: Shell) -> None:
    text = "\n".join(lines(xwheel("explain", "0 0 9 ? * 2-6", "--json", "--tz", "Asia/Tokyo", "--lang", "en")))
    assert json.loads(text) == {
        "expression": "0 0 9 ? * 2-6",
        "dialect": "quartz",
        "timezone": "Asia/Tokyo",
        "en": "At 09:00, Monday through Friday",
    }


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("next", ""), "expression"),
        (("next", "0 0 25 * * ?"), "hour"),
        (("next", "0 0 0 * * ? *\nx"), "expression"),
        (("next", "*" * 10_000), "expression"),
        (("next", "0 0 9 * * ?", "--dialect", "unix"), "expression"),
        (("next", "0 9 * *"), "expression"),
        (("next", "0 9 * * *", "--dialect", "quartz"), "expression"),
        (("explain", "0 0 9 * * ?", "--dialect", "unix"), "expression"),
        (("next", "0 0 9 * * ?", "--dialect", "java"), "dialect"),
        (("next", "0 0 9 * * ?", "--tz", "Mars/Olympus"), "timezone"),
        (("next", "0 0 9 * * ?", "--tz", ""), "timezone"),
        (("next", "0 0 9 * * ?", "--from", "yesterday"), "--from"),
        (("next", "0 0 9 * * ?", "--from", ""), "--from"),
        (("next", "0 0 9 * * ?", "--from", "9" * 30), "--from"),
        (("next", "0 0 9 * * ?", "--from", "9" * 5000), "--from"),
        (("next", "0 0 9 * * ?", "-n", "0"), "-n"),
        (("next", "0 0 9 * * ?", "-n", "1001"), "-n"),
        (("explain", "0 0 9 32 * ?"), "day_of_month"),
        (("explain", "0 0 9 * * ?", "--tz", "Mars/Olympus"), "timezone"),
        (("explain", "0 0 9 * * ?", "--lang", "fr"), "--lang"),
    ],
    ids=str,
)
def test_what_cannot_be_understood_is_one_line_that_names_the_field(
    xwheel: Shell, words: tuple[str, ...], field: str
) -> None:
    status, out, err = xwheel(*words)
    assert (status, out) == (main.EXIT_CONFIG, "")
    assert err.startswith(f"xwheel: {field}: ")
    assert err.count("\n") == 1
    assert len(err) < 300


@pytest.mark.processes
def test_the_installed_command_has_the_group() -> None:
    words = [sys.executable, "-m", "xwheel", "cron", "next", "0 0 0 * * ? 2098", "--from", "2030-01-01"]
    done = subprocess.run([*words, "-n", "1"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "2098-01-01T00:00:00+00:00\n"
    assert done.stderr == ""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("line", "wanted"), [("xwheel cron ex", {"explain"}), ("xwheel cron next --dia", {"--dialect"})]
)
def test_u6_the_shell_completes_commands_and_options(line: str, wanted: set[str]) -> None:
    assert completions(line) == wanted


@pytest.mark.processes
def test_words_need_a_library() -> None:
    assert_hint(
        "cron explain @daily",
        "cron_descriptor",
        "cli",
        "describing a cron expression needs cron_descriptor, which is not installed",
    )
