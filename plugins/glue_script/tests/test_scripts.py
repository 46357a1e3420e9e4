"""Scripts: files, arguments, exit codes, allowed types, accounts, and how they end."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ALL
from xwheel_devtools.testing import SAMPLE_MS, ExecutorSite, wait_until

SUFFIXES = {
    "GLUE_SHELL": ".sh",
    "GLUE_PYTHON": ".py",
    "GLUE_PYTHON2": ".py",
    "GLUE_NODEJS": ".js",
    "GLUE_PHP": ".php",
    "GLUE_POWERSHELL": ".ps1",
}
REAL = {
    "GLUE_SHELL": ("bash", 'echo "$1 $2 $3"; exit 4'),
    "GLUE_PYTHON": ("python3", "import sys; print(*sys.argv[1:]); sys.exit(4)"),
    "GLUE_NODEJS": ("node", "console.log(process.argv.slice(2).join(' ')); process.exit(4)"),
    "GLUE_PHP": ("php", "<?php echo implode(' ', array_slice($argv, 1)), PHP_EOL; exit(4);"),
}
MakeSite = Callable[..., ExecutorSite]


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


@pytest.mark.parametrize("name", [name for name, (program, _) in REAL.items() if shutil.which(program)])
def test_an_interpreter_gets_parameter_shard_and_total(site: ExecutorSite, name: str) -> None:
    fields = {"param": "α b", "shard_index": 2, "shard_total": 3}
    assert site.run(REAL[name][1], glue_type=name, **fields) == (500, "script exit value(4) is failed: α b 2 3")
    assert site.log().endswith("α b 2 3\n")


@pytest.mark.parametrize("name", ALL)
def test_each_type_has_its_file_and_command(make_site: MakeSite, tmp_path: Path, name: str) -> None:
    """A program that prints its arguments takes the place of the interpreters: Debian has no python2 and no pwsh."""
    stand_in = tmp_path / "stand-in"
    stand_in.write_text('#!/bin/sh\nprintf "<%s>" "$@"\ncat "$1"\n')
    stand_in.chmod(0o755)
    site = make_site({"interpreters": {name: str(stand_in)}})
    assert site.run("the source", 7, glue_type=name, param="p") == (200, "")
    file = site.folder / "gluesource" / f"7_{SAMPLE_MS}{SUFFIXES[name]}"
    assert site.log(7) == f"<{file}><p><0><1>the source\n"
    assert file.read_text() == "the source"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ALL)
def test_nothing_runs_that_is_not_allowed(make_site: MakeSite, tmp_path: Path, name: str) -> None:
    site = make_site(allowed=[])
    refused = site.start("echo", glue_type=name)
    assert refused.code == 500
    assert f"glue type {name} is not allowed on this executor" in refused.message
    assert not (site.folder / "gluesource").exists()


def test_one_allowed_type_allows_no_other(make_site: MakeSite) -> None:
    site = make_site(allowed=["GLUE_SHELL"])
    assert site.start("print(1)", 1, glue_type="GLUE_PYTHON").code == 500
    assert site.run("true", 2) == (200, "")


def test_a_missing_interpreter_is_named(make_site: MakeSite) -> None:
    site = make_site({"interpreters": {"GLUE_PHP": "no-such-php"}})
    code, message = site.run("<?php", glue_type="GLUE_PHP")
    assert code == 500
    assert message.startswith("GLUE_PHP: there is no program 'no-such-php' here: install it, or name another")


def test_a_job_without_a_source_is_refused(site: ExecutorSite) -> None:
    assert "job 1 has no GLUE_SHELL source" in site.start(" \n").message


def test_a_new_version_is_a_new_file_and_windows_line_ends_do_no_harm(site: ExecutorSite) -> None:
    assert site.run("echo one\r\nexit 0\r\n", 1, job_id=5) == (200, "")
    assert site.run("echo two", 2, job_id=5, glue_updated_ms=SAMPLE_MS + 1) == (200, "")
    assert site.run("echo same key", 3, job_id=5, glue_updated_ms=SAMPLE_MS + 1) == (200, "")
    assert [site.log(run_id) for run_id in (1, 2, 3)] == ["one\n", "two\n", "same key\n"]
    old = site.folder / "gluesource" / f"5_{SAMPLE_MS}.sh"
    os.utime(old, (1, 1))
    assert site.run("echo four", 4, job_id=5, glue_updated_ms=SAMPLE_MS + 2) == (200, "")
    left = sorted(path.name for path in old.parent.iterdir())
    assert left == [f"5_{SAMPLE_MS + 1}.sh", f"5_{SAMPLE_MS + 2}.sh"]


@pytest.mark.parametrize("name", [name for name, (program, _) in REAL.items() if shutil.which(program)])
def test_r41_a_byte_order_mark_is_no_part_of_a_script(site: ExecutorSite, name: str) -> None:
    first = "#!/usr/bin/env node\n" if name == "GLUE_NODEJS" else ""
    said = site.run(f"\ufeff{first}{REAL[name][1]}", glue_type=name, param="a")
    assert said == (500, "script exit value(4) is failed: a 0 1")


@pytest.mark.parametrize("param", ["$(touch pwned)", "a; touch pwned", "'\"`touch pwned`", "-c", "--", "", "\n\t é🙂"])
def test_a_parameter_is_one_argument(site: ExecutorSite, tmp_path: Path, param: str) -> None:
    source = f"cd '{tmp_path}'; printf '%s' \"$#|$1|\""
    assert site.run(source, param=param) == (200, "")
    assert site.log() == f"3|{param}|\n"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(("param", "words"), [("a\0b", "NUL character"), ("x" * 131_072, "131072 bytes")])
def test_a_parameter_that_no_program_takes_is_refused(site: ExecutorSite, param: str, words: str) -> None:
    code, message = site.run("true", param=param)
    assert (code, words in message) == (500, True)


def test_settings_of_the_executor_are_not_in_the_environment(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XWHEEL_EXECUTOR__LABELS", '{"secret": "canary"}')
    site = make_site()
    assert site.run("env") == (200, "")
    assert "canary" not in site.log()
    assert "PATH=" in site.log()


@pytest.mark.parametrize("ending", ["kill", "timeout"])
def test_no_process_of_a_script_is_left(site: ExecutorSite, tmp_path: Path, ending: str) -> None:
    child = tmp_path / "child.sh"
    child.write_text("trap '' TERM HUP INT; echo $$ >> pids; while :; do sleep 0.1; done\n")
    source = f"""
        cd '{tmp_path}'; trap '' TERM
        bash child.sh & (setsid bash child.sh &) ; (nohup setsid sh -c 'bash child.sh & bash child.sh' & )
        until [ "$(wc -l < pids 2>/dev/null)" = 4 ]; do sleep 0.05; done
        echo ready; while :; do sleep 0.1; done
    """
    site.start(source, timeout_s=0 if ending == "kill" else 15)
    wait_until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 4)
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    if ending == "kill":
        site.kill()
    code, _ = site.outcome()
    assert code == (500 if ending == "kill" else 502)
    assert [pid for pid in pids if is_alive(pid)] == []


def test_what_a_script_leaves_running_ends_with_it(site: ExecutorSite, tmp_path: Path) -> None:
    source = f"""
        cd '{tmp_path}'
        (setsid sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 0.1; done' > /dev/null 2>&1 &)
        until [ -s pids ]; do sleep 0.05; done
        echo ended
    """
    assert site.run(source) == (200, "")
    assert site.log() == "ended\n"
    assert not is_alive(int((tmp_path / "pids").read_text()))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("GLUE_SHELL", r"printf 'a\377\376b\n'; printf '\303' >&2; sleep 0.1; printf '\251\nend\n'"),
        (
            "GLUE_PYTHON",
            r"import sys; w = sys.stdout.buffer.write; w(b'a\xff\xfeb\n\xc3'); sys.stdout.flush(); w(b'\xa9\nend\n')",
        ),
    ],
)
def test_bytes_that_are_not_utf8_are_replaced_and_split_letters_are_whole(
    site: ExecutorSite, name: str, source: str
) -> None:
    assert site.run(source, glue_type=name) == (200, "")
    assert site.log() == "a\ufffd\ufffdb\né\nend\n"


def test_term_lets_a_script_tidy_up(site: ExecutorSite, tmp_path: Path) -> None:
    site.start(f"trap 'echo tidy > \"{tmp_path}/tidy\"; exit 0' TERM; echo up > '{tmp_path}/up'; sleep 600 & wait")
    wait_until((tmp_path / "up").exists)
    site.kill()
    assert site.outcome()[0] == 500
    assert (tmp_path / "tidy").read_text() == "tidy\n"


def test_limits_hold(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site({"limits": {"memory_mb": 200, "open_files": 40, "file_mb": 1}})
    code = "ulimit -v; ulimit -n; ulimit -f; ulimit -c; head -c 3000000 /dev/zero > big"
    assert site.run(f"cd '{tmp_path}'; {code}")[0] == 500
    assert site.log().split()[:4] == [str(200 * 1024), "40", "1024", "0"]
    assert (tmp_path / "big").stat().st_size == 1024 * 1024
    code, message = site.run("x = 'x' * 400_000_000", 2, glue_type="GLUE_PYTHON")
    assert code == 500
    assert message.startswith("script exit value(1) is failed: ")
    assert message.endswith(" / MemoryError")
    assert "MemoryError" in site.log(2)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def more_groups() -> Iterator[None]:
    """Give this process a group that must not be passed on, if it may have one."""
    before = os.getgroups()
    if os.geteuid() == 0:
        os.setgroups([*before, 4])
    yield
    if os.geteuid() == 0:
        os.setgroups(before)


@pytest.mark.usefixtures("more_groups")
def test_another_account_has_no_right_of_the_executors(make_site: MakeSite, open_folder: Path) -> None:
    """Only root may take another account; for other accounts the run is refused."""
    site = make_site({"run_as": "nobody", "directory": str(open_folder)})
    code, message = site.run("grep -E '^(Uid|Gid|Groups):' /proc/self/status; cat \"$0\" > /dev/null; sleep 0")
    if os.geteuid() != 0:
        assert (code, "only root may run scripts as 'nobody'" in message) == (500, True)
        return
    assert (code, message) == (200, "")
    nobody = pwd.getpwnam("nobody")
    uid, gid, groups = (line.split()[1:] for line in site.log().splitlines())
    assert set(uid) == {str(nobody.pw_uid)}
    assert set(gid) == {str(nobody.pw_gid)}
    assert set(groups) <= {str(item) for item in os.getgrouplist("nobody", nobody.pw_gid)}


def test_an_account_that_is_not_there_is_named(make_site: MakeSite) -> None:
    site = make_site({"run_as": "no-such-account"})
    assert site.run("true") == (500, "plugins.options.glue_script.run_as: there is no account 'no-such-account'")
