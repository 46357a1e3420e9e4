"""``xwheel sync`` and what shows and releases what code declares, on a running node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.test_cli_apply import Shell, xwheel
from xwheel.executor import Executor, job

__all__ = ["xwheel"]  # the fixture of the neighbour

APP = "tests.support.declared_app"
SYNC = ("sync", APP, "--group", "shop", "--release", "1.0")


@job("bare")
def bare() -> None: ...


@job("clean", every="1h")
def clean() -> None: ...


@job("typo", every="1h", tymezone="UTC")
def typo() -> None: ...


executor = Executor(
    handlers=[clean, bare],
    app_name="shop",
    admin_addresses=["http://127.0.0.1:1"],
    access_token="Vb7qLw20-token-of-an-executor",
)


@pytest.fixture
def shop(xwheel: Shell) -> Shell:
    xwheel.node()
    assert xwheel("group", "create", "shop")[0] == 0
    return xwheel


def test_a_sync_says_what_differs_and_does_it(shop: Shell) -> None:
    status, out, _ = shop(*SYNC, "--dry-run")
    assert (status, out.splitlines()[0], out.splitlines()[-1]) == (0, "+ create shop/report", "1 differences")
    assert '    timezone: "Asia/Shanghai"' in out
    assert shop(*SYNC, "--check")[0] == 5
    assert json.loads(shop("job", "list", "--json")[1]) == []
    assert shop(*SYNC)[1].splitlines()[-1] == "1 changes are made"
    assert shop(*SYNC, "--check")[:2] == (0, "nothing differs\n")
    status, out, _ = shop(*SYNC, "--json")
    assert (status, json.loads(out)["applied"], json.loads(out)["steps"]) == (0, True, [])


def test_people_see_and_release_what_code_says(shop: Shell) -> None:
    shop(*SYNC)
    out = shop("job", "show", "shop/report")[1]
    assert f"{APP}:report, release 1.0" in out
    listed = shop("group", "declarations")[1]
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [["shop", "1.0"]]
    assert json.loads(shop("group", "declarations", "--json")[1])[0]["builds"] == []
    status, _, err = shop("job", "edit", "report", "--set", "timezone=UTC")
    assert (status, "xwheel job release" in err) == (1, True)
    assert shop("job", "release", "report", "--field", "timezone")[0] == 0
    assert shop("job", "edit", "report", "--set", "timezone=UTC")[0] == 0
    assert shop(*SYNC, "--check")[0] == 0
    assert shop("job", "release", "report", "--field", "timezone", "--undo")[0] == 0
    status, out, _ = shop(*SYNC, "--check")
    assert (status, '    timezone: "UTC" -> "Asia/Shanghai"' in out) == (5, True)
    assert shop("job", "delete", "report")[0] == 1
    assert shop("job", "release", "report")[0] == 0
    assert shop("job", "delete", "report")[0] == 0


def test_files_change_nothing_that_code_owns(shop: Shell, tmp_path: Path) -> None:
    shop(*SYNC)
    file = tmp_path / "jobs.yaml"
    assert shop("job", "export", "--group", "shop", "--output", str(file))[0] == 0
    assert shop("job", "apply", "-f", str(file), "--check")[0] == 0
    file.write_text(file.read_text().replace("0 0 2 * * ?", "0 0 3 * * ?"))
    status, _, err = shop("job", "apply", "-f", str(file))
    assert (status, "schedule_conf: release 1.0 " in err) == (1, True), err
    assert shop(*SYNC, "--check")[0] == 0


def test_an_executor_names_its_jobs(shop: Shell) -> None:
    status, out, err = shop("sync", f"{__name__}:executor", "--group", "shop", "--release", "1.0")
    assert (status, out.splitlines()[0]) == (0, "+ create shop/clean"), err


def test_what_is_wrong_is_said_and_nothing_is_changed(
    shop: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, status, said in (
        (("sync", APP, "--release", "1"), 2, "--group is missing"),
        (("sync", APP, "--group", "shop"), 2, "--release is missing"),
        (("sync", f"{__name__}:bare", "--group", "shop", "--release", "1"), 2, "no @job there declares a job"),
        (("sync", "no.such.module", "--group", "shop", "--release", "1"), 2, "cannot import"),
        (("sync", APP, "--group", "shop", "--release", "main"), 2, "must be a version that rises"),
        (("sync", APP, "--group", "none", "--release", "1"), 1, "group none does not exist"),
        (
            ("sync", f"{__name__}:typo", "--group", "shop", "--release", "1"),
            2,
            f"job 'typo' ({__name__}:typo): tymezone: is no field of jobs; did you mean timezone?",
        ),
    ):
        found, _, err = shop(*words)
        assert (found, said in err) == (status, True), (words, err)
        assert json.loads(shop("job", "list", "--json")[1]) == [], words
