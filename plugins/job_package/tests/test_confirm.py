"""Imports of uploaded packages, in real processes of another account."""

from __future__ import annotations

import os
import pwd
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from wheels import make_archive, make_wheel, sha256_of
from xwheel.plugin import ConfigError
from xwheel_devtools.testing import NodeSite

from xwheel_job_package import confirm, environments, workers
from xwheel_job_package.archive import Limits, open_package
from xwheel_job_package.confirm import ImportScan
from xwheel_job_package.report import PackageError, ScanReport
from xwheel_job_package.scan import scan
from xwheel_job_package.store_options import StoreOptions

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("REQUIRE_SERVERS"), reason="imports as another account need root"
)

HEAD = "from xwheel_package import schedule\n"
JOB = '\n@schedule(cron="0 0 1 * * ?")\ndef NAME(): pass\n'


def readable_python() -> str:
    """Return a Python that every account can read; this one may be in a folder that is root's alone."""
    places = [Path(sys.base_prefix), Path(sys.prefix)]
    is_open = all(folder.stat().st_mode & 0o001 for own in places for folder in (own, *own.parents))
    return "" if is_open else "/usr/bin/python3"


def options(**more: Any) -> StoreOptions:
    return StoreOptions(scan_confirm="console", scan_python=readable_python(), **more)


def report_of(path: Path, **more: Any) -> ScanReport:
    """Scan a package twice, as an upload does."""
    archive = open_package(path, path.name, Limits(), project="acme", version="1.0")
    found = scan(archive)
    return ImportScan(options(**more)).confirm(archive, path, sha256_of(path), found)


def packed(folder: Path, files: Mapping[str, str], **more: Any) -> Path:
    return make_wheel(folder, "acme", "1.0", files, **more)


def named(name: str) -> str:
    return JOB.replace("NAME", name)


def commands_with(mark: str) -> list[str]:
    """Return the command lines of living processes that have a text in them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if mark in text:
            found.append(text)
    return found


def test_an_import_confirms_the_jobs_and_tells_what_the_source_does_not(tmp_path: Path) -> None:
    """SCN-10: a value that only the import knows is filled in; what the source says stays."""
    path = packed(
        tmp_path,
        {
            "acme/__init__.py": "",
            "acme/settings.py": 'NIGHTLY = {"cron": "0 30 2 * * ?", "misfire": "DoNothing"}\n',
            "acme/jobs.py": HEAD
            + "from acme.settings import NIGHTLY\n"
            + '\n@schedule(cron=NIGHTLY["cron"])\ndef one(): pass\n'
            + "\n@schedule(**NIGHTLY)\ndef two(): pass\n"
            + '\nclass Shop:\n    @schedule(cron=NIGHTLY["cron"], misfire="IgnoreMisfires")\n'
            + "    def three(self): pass\n"
            + named("four"),
        },
    )
    archive = open_package(path, path.name, Limits())
    assert [job.unresolved for job in scan(archive).jobs] != [(), (), (), ()]
    report = report_of(path)
    assert (report.confirmed, report.unconfirmed, report.problems) == (True, "", [])
    assert [(job.group, job.name, job.cron, job.misfire, job.unresolved) for job in report.jobs] == [
        ("acme.jobs", "four", "0 0 1 * * ?", "None", ()),
        ("acme.jobs", "one", "0 30 2 * * ?", "None", ()),
        ("acme.jobs", "two", "0 30 2 * * ?", "DoNothing", ()),
        ("acme.jobs.Shop", "three", "0 30 2 * * ?", "IgnoreMisfires", ()),
    ]


def test_a_value_that_the_import_tells_is_checked_as_all_are(tmp_path: Path) -> None:
    report = report_of(packed(tmp_path, {"acme.py": HEAD + 'X = "61 * * * * ?"\n@schedule(cron=X)\ndef a(): pass\n'}))
    assert [(item.reason, item.line) for item in report.problems] == [("bad_cron", 4)]


LOOPS = 'import subprocess\nsubprocess.Popen(["setsid", "sleep", "600.MARK"])\nwhile True: pass\n'
LARGE = 'import subprocess\nsubprocess.Popen(["setsid", "sleep", "600.MARK"])\nX = bytearray(4 << 30)\n'


@pytest.mark.parametrize(("code", "reason"), [(LOOPS, "scan_timeout"), (LARGE, "scan_memory")])
def test_a_module_that_takes_too_much_is_killed_with_all_that_it_started(
    tmp_path: Path, code: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCN-2: no process survives, not even one that left its session; nothing is left in the folder for such scans."""
    mark = str(secrets.randbelow(10**9))
    path = packed(tmp_path, {"acme.py": HEAD + code.replace("MARK", mark) + named("job")})
    made: list[Path] = []

    def make_folder(**more: Any) -> str:
        made.append(Path(make(**more)))
        return str(made[-1])

    make = tempfile.mkdtemp
    monkeypatch.setattr(confirm.tempfile, "mkdtemp", make_folder)
    began = time.monotonic()
    with pytest.raises(PackageError) as caught:
        report_of(path, scan_timeout_s=4 if reason == "scan_timeout" else 60)
    assert (caught.value.reason, caught.value.file) == (reason, "acme.py")
    assert reason == "scan_memory" or time.monotonic() - began >= 4
    assert commands_with(mark) == []
    assert [folder.exists() for folder in made] == [False]


SEES = """
import json, os, resource, sys
most = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in ("CPU", "AS", "FSIZE", "NOFILE")}
try:
    os.listdir(SECRET)
    reads = True
except OSError:
    reads = False
seen = [os.getuid(), os.getgroups(), os.getsid(0) != SESSION, sorted(os.environ), sys.flags.isolated, reads,
        most, os.read(0, 1) == b""]
@schedule(cron=json.dumps(seen))
def job(): pass
"""


def test_what_an_import_may_do(tmp_path: Path) -> None:
    """SCN-2: limits, a session of its own, an empty environment, no standard input; SCN-1: another account."""
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    os.environ["PASSWORD_OF_THE_DATABASE"] = "x"
    try:
        code = SEES.replace("SECRET", repr(str(secret))).replace("SESSION", str(os.getsid(0)))
        report = report_of(packed(tmp_path, {"acme.py": HEAD + code}))
    finally:
        del os.environ["PASSWORD_OF_THE_DATABASE"]
    (job,) = report.jobs
    user, groups, own_session, variables, isolated, reads, most, ended = msgspec.json.decode(job.cron)
    assert (user, groups) == (pwd.getpwnam("nobody").pw_uid, [])
    assert (own_session, isolated, reads, ended) == (True, 1, False, True)
    assert variables == ["HOME", "LC_CTYPE", "PATH", "TMPDIR"]
    assert most == {"CPU": 21, "AS": 1 << 30, "FSIZE": 16 << 20, "NOFILE": 256}
    assert "acme" not in sys.modules


def test_nothing_of_a_scan_runs_as_the_schedulers_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S13: the environment is made, resolved and installed as the account, and what is imported runs so."""
    started: list[tuple[str, object]] = []

    def start(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        started.append((" ".join(command), more.get("user")))
        return popen(command, **more)

    popen = subprocess.Popen
    for module in (environments, workers):
        monkeypatch.setattr(module.subprocess, "Popen", start)
    inside = make_wheel(tmp_path, "inside", "1.0", {"inside.py": 'A = "0 0 3 * * ?"\n'})
    code = HEAD + "from inside import A\n@schedule(A)\ndef job(): pass\n"
    files = {"acme.py": code, f"wheels/{inside.name}": inside.read_bytes()}
    report = report_of(packed(tmp_path, files, requires=["inside"]))
    assert (report.confirmed, [job.cron for job in report.jobs]) == (True, ["0 0 3 * * ?"])
    # what the settings name is asked which version it is
    ours = [item for item in started if environments.ABOUT not in item[0]]
    assert [user for _, user in ours] == [pwd.getpwnam("nobody").pw_uid] * 4
    for words, (command, _) in zip(("-m venv", " wheel ", " install ", "runner.py"), ours, strict=True):
        assert words in command


BROKEN = {
    "acme/__init__.py": "",
    "acme/missing.py": HEAD + "import not_there_at_all\n" + named("one"),
    "acme/ends.py": HEAD + "import os\nos._exit(3)\n" + named("two"),
    "acme/leaves.py": HEAD + "raise SystemExit(4)\n" + named("three"),
    "acme/prints.py": HEAD + "print('x' * 1_000_000)\n" + named("four"),
    "acme/zlast.py": HEAD + named("five") + "del five\n" + named("six"),
}


def test_modules_that_fail_are_named_and_the_others_are_there(tmp_path: Path) -> None:
    """SCN-5: module and exception; modules after one whose process ended are imported, too."""
    report = report_of(packed(tmp_path, BROKEN))
    assert not report.confirmed
    assert [(job.group, job.name) for job in report.jobs] == [("acme.prints", "four"), ("acme.zlast", "six")]
    said = {item.file: item.text for item in report.problems if item.reason == "import_failed"}
    assert set(said) == {"acme/missing.py", "acme/ends.py", "acme/leaves.py"}
    assert "module acme.missing cannot be imported: " in said["acme/missing.py"]
    assert "ModuleNotFoundError: No module named 'not_there_at_all'" in said["acme/missing.py"]
    assert "the process ended with exit status 3 while it was imported" in said["acme/ends.py"]
    assert "SystemExit" in said["acme/leaves.py"] or "sys.exit(4)" in said["acme/leaves.py"]
    assert [item.text for item in report.problems if item.reason == "no_such_job"] == [
        "acme.zlast.five is not there once the module is imported"
    ]


def test_a_package_whose_environment_cannot_be_built_is_not_confirmed(tmp_path: Path) -> None:
    """The upload goes on; the failure shows where the environment is needed, ENV-4."""
    path = packed(tmp_path, {"acme.py": HEAD + named("job")}, requires=["not-there-at-all>=1"])
    report = report_of(path)
    assert (report.confirmed, report.problems, len(report.jobs)) == (False, [], 1)
    assert report.unconfirmed.startswith("env_build_failed: it cannot be installed")


def test_a_dependency_comes_from_a_wheelhouse(tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    make_wheel(house, "calendars", "2.0", {"calendars.py": 'EVENING = "0 0 20 * * ?"\n'})
    code = HEAD + "from calendars import EVENING\n@schedule(EVENING)\ndef job(): pass\n"
    path = packed(tmp_path, {"acme.py": code}, requires=["calendars"])
    (job,) = report_of(path, scan_wheelhouses=(str(house),)).jobs
    assert job.cron == "0 0 20 * * ?"


def test_a_plain_archive_is_imported_as_a_wheel_is(tmp_path: Path) -> None:
    path = make_archive(
        tmp_path, "acme-1.0.zip", {"acme.py": HEAD + 'A = "0 0 3 * * ?"\n@schedule(A)\ndef b(): pass\n'}
    )
    (job,) = report_of(path).jobs
    assert job.cron == "0 0 3 * * ?"


def test_many_jobs_of_a_module(tmp_path: Path) -> None:
    lines = [HEAD, f'X = "0 0 1 * * ?" + " " * {500 - 11}']
    lines += [f"@schedule(cron=X)\ndef job{number:03}(): pass" for number in range(100)]
    report = report_of(packed(tmp_path, {"acme.py": "\n".join(lines)}))
    assert report.confirmed
    assert len({job.name for job in report.jobs if job.cron.startswith("0 0 1 * * ?")}) == 100


def test_what_nobody_may_run_as_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"scan_user: there is no account 'no-such-account'"):
        ImportScan(options(scan_user="no-such-account"))
    with pytest.raises(ConfigError, match=r"scan_user: 'root' is root"):
        ImportScan(options(scan_user="root"))
    monkeypatch.setattr(confirm.os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match=r"scan_confirm: console needs a scheduler that runs as root"):
        ImportScan(options())


@pytest.mark.parametrize("strict", [True, False])
def test_an_upload_is_refused_or_lists_the_rest(tmp_path: Path, strict: bool) -> None:
    """SCN-5, SCN-10: at the store; ``strict_scan`` decides."""
    store = options(directory=str(tmp_path / "store"), strict_scan=strict).model_dump(exclude_defaults=True)
    files = {**BROKEN, "acme/late.py": HEAD + 'X = "0 0 4 * * ?"\n@schedule(X)\ndef late(): pass\n'}
    path = packed(tmp_path, files)
    with NodeSite(tmp_path / "node", "job_package", options={"job_package": {"store": store}}, executors=0) as node:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        answer = requests.post(
            f"{node.url}/api/v1/packages",
            params={"file": path.name},
            data=path.read_bytes(),
            headers={"Authorization": f"Bearer {node.token}"},
            timeout=120,
        )
        found = answer.json()
        if strict:
            assert (answer.status_code, found["reason"]) == (422, "import_failed")
            assert {item["reason"] for item in found["facts"]["problems"]} == {"import_failed", "no_such_job"}
            assert node.call("GET", "packages")["items"] == []
            return
        assert answer.status_code == 201, answer.text
        assert found["report"]["confirmed"] is False
        assert found["report"]["unresolved"] == []
        crons = {item["name"]: item["cron"] for item in found["jobs"]}
        assert crons == {"late": "0 0 4 * * ?", "four": "0 0 1 * * ?", "six": "0 0 1 * * ?"}


def test_an_import_that_changes_its_environment_is_not_confirmed(tmp_path: Path) -> None:
    """The account has the environment: what it deletes there is no error of the scheduler's."""
    gone = "import os, pathlib, sys\n(pathlib.Path(sys.prefix) / '.ready').unlink()\nos._exit(3)\n"
    files = {"acme/__init__.py": "", "acme/a.py": HEAD + gone + named("one"), "acme/b.py": HEAD + named("two")}
    report = report_of(packed(tmp_path, files))
    assert (report.confirmed, report.unconfirmed.partition(":")[0]) == (False, "env_build_failed")
