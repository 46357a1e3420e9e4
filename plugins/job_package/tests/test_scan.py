"""What the static scan finds in a package, and that it runs nothing of it."""

from __future__ import annotations

import _pydecimal
import argparse
import inspect
import sys
import tarfile
import typing
from pathlib import Path
from types import SimpleNamespace

import pytest
from archives import sdist, wheel, zipped

import xwheel_package
from xwheel_job_package import bounded
from xwheel_job_package.archive import Limits, open_package
from xwheel_job_package.report import ScanReport
from xwheel_job_package.scan import scan


def scanned(folder: Path, files: dict[str, str], *packages: str) -> ScanReport:
    limits = Limits(ratio=10**6)  # what is dense packs well
    return scan(open_package(wheel(folder, files), "acme_jobs-1.2.0-py3-none-any.whl", limits), packages)


def one(folder: Path, source: str) -> ScanReport:
    return scanned(folder, {"acme.py": source})


def test_nothing_of_a_package_runs(tmp_path: Path) -> None:
    """SCN-1: a module that would end the process."""
    source = "import os\nfrom xwheel_package import schedule\nos._exit(3)\n@schedule()\ndef a(): ...\n"
    assert [job.name for job in one(tmp_path, source).jobs] == ["a"]
    assert "acme" not in sys.modules


@pytest.mark.parametrize(
    "source",
    [
        "from xwheel_package import schedule, disabled\n@schedule()\n@disabled\ndef a(): ...\n",
        "import xwheel_package as x\n@x.disabled\nclass C:\n    @x.schedule()\n    def a(self): ...\n",
    ],
)
def test_what_is_disabled_is_counted(tmp_path: Path, source: str) -> None:
    """SCN-3: a function that is disabled, or whose class is."""
    found = one(tmp_path, source)
    assert (found.jobs, found.disabled) == ([], 1)


def test_what_the_scan_knows_can_be_imported() -> None:
    """SCN-3: the decorators mark, and change nothing else."""

    @xwheel_package.disabled
    @xwheel_package.schedule("0 0 1 * * ?")
    def job() -> int:
        return 5

    @xwheel_package.disabled
    class Jobs:
        @xwheel_package.schedule()
        def job(self) -> None: ...

    assert job() == 5
    assert [hasattr(marked, "__xwheel_disabled__") for marked in (job, Jobs, Jobs.job)] == [True, True, False]


def test_a_parameter_that_is_no_number_is_named() -> None:
    """BEAN-5: a clear error."""
    given = xwheel_package.JobParameter({"rows": "many", "days": "7"})
    assert given.integer("days") == 7
    with pytest.raises(ValueError, match="parameter 'rows' must be a whole number, not 'many'"):
        given.integer("rows")


def test_two_required_parameters_are_a_problem_of_that_job_alone(tmp_path: Path) -> None:
    """SCN-4: file and line, and the others are still listed."""
    source = (
        "from xwheel_package import schedule\n\n"
        "@schedule()\ndef a(x, y): ...\n"
        "@schedule()\ndef b(x, y=1, *z, k=2): ...\n"
        "@schedule()\ndef c(*, k): ...\n"
    )
    found = one(tmp_path, source)
    assert [(job.name, job.takes_parameter) for job in found.jobs] == [("b", True)]
    assert [(item.reason, item.file, item.line) for item in found.problems] == [
        ("bad_signature", "acme.py", 4),
        ("bad_signature", "acme.py", 8),
    ]


def test_cron_and_policy_are_the_decorators(tmp_path: Path) -> None:
    """SCN-6: what becomes the job's defaults."""
    source = (
        "from xwheel_package import schedule\n"
        '@schedule(cron="0/15 * * * * ?", misfire="DoNothing", time_zone="Asia/Shanghai")\ndef a(): ...\n'
        "@schedule()\ndef b(): ...\n"
    )
    first, second = one(tmp_path, source).jobs
    assert (first.cron, first.misfire, first.time_zone) == ("0/15 * * * * ?", "DoNothing", "Asia/Shanghai")
    assert (second.cron, second.misfire) == ("", "None")


@pytest.mark.parametrize(
    ("arguments", "reason", "words"),
    [
        ('cron="61 * * * * ?"', "bad_cron", "second"),
        ('"* * * * *"', "bad_cron", "expression"),
        ('misfire="Never"', "bad_decorator", "DoNothing"),
        ('time_zone="Mars/Base"', "bad_decorator", "Mars/Base"),
        ("crom='x'", "bad_decorator", "crom"),
        ("'0 0 1 * * ?', 'DoNothing'", "bad_decorator", "a second value"),
    ],
)
def test_arguments_that_cannot_be_used(tmp_path: Path, arguments: str, reason: str, words: str) -> None:
    """SCN-7: module, function and the field at fault; MIS-6: a Unix expression is refused."""
    found = one(tmp_path, f"from xwheel_package import schedule\n@schedule({arguments})\ndef nightly(): ...\n")
    (problem,) = found.problems
    assert (problem.reason, problem.file, problem.line) == (reason, "acme.py", 3)
    assert "acme.nightly" in problem.text
    assert words in problem.text


@pytest.mark.parametrize("marks", ["@schedule('0 0 1 * * ?')\n@schedule('0 0 2 * * ?')", "@schedule"])
def test_a_function_is_marked_once_and_with_brackets(tmp_path: Path, marks: str) -> None:
    found = one(tmp_path, f"from xwheel_package import schedule\n{marks}\ndef nightly(): ...\n")
    (problem,) = found.problems
    assert (problem.reason, list(found.jobs)) == ("bad_decorator", [])
    assert "acme.nightly: @schedule(...) is written once, with brackets" in problem.text


def test_only_packages_that_are_asked_for(tmp_path: Path) -> None:
    """SCN-8: a name is not a prefix."""
    job = "from xwheel_package import schedule\n@schedule()\ndef a(): ...\n"
    files = {"acme/jobs/__init__.py": job, "acme/jobs/x.py": job, "acme/jobsold.py": job, "acme/__init__.py": job}
    assert [job.group for job in scanned(tmp_path, files, "acme.jobs").jobs] == ["acme.jobs", "acme.jobs.x"]
    assert len(scanned(tmp_path, files).jobs) == 4


def test_each_kind_of_function(tmp_path: Path) -> None:
    """SCN-9: functions and methods, and what each group is."""
    source = (
        "import xwheel_package\n"
        "@xwheel_package.schedule()\nasync def a(): ...\n"
        "class C:\n"
        "    @xwheel_package.schedule()\n    def b(self): ...\n"
        "    @staticmethod\n    @xwheel_package.schedule()\n    def c(): ...\n"
        "    @classmethod\n    @xwheel_package.schedule()\n    def d(cls, p): ...\n"
        "    @xwheel_package.schedule()\n    async def e(self): ...\n"
        "    class In:\n        @xwheel_package.schedule()\n        def f(self): ...\n"
    )
    found = [(job.group, job.name, job.call, job.takes_parameter) for job in one(tmp_path, source).jobs]
    assert found == [
        ("acme", "a", "async", False),
        ("acme.C", "b", "method", False),
        ("acme.C", "c", "static", False),
        ("acme.C", "d", "class", True),
        ("acme.C", "e", "async", False),
        ("acme.C.In", "f", "method", False),
    ]


def test_one_name_twice(tmp_path: Path) -> None:
    """SCN-9: group and name are there once."""
    twice = "    @s()\n    def a(): ...\n"
    source = f"from xwheel_package import schedule as s\ntry:\n{twice}except E:\n{twice}"
    found = one(tmp_path, source)
    assert [(item.reason, item.line) for item in found.problems] == [("duplicate_job", 4), ("duplicate_job", 7)]


def test_what_only_an_import_knows(tmp_path: Path) -> None:
    """SCN-10: dynamic arguments are marked."""
    source = (
        "from xwheel_package import *\n"
        "@schedule(cron=SETTINGS['c'], misfire='DoNothing')\ndef a(): ...\n"
        "@schedule(**X)\ndef b(): ...\n"
    )
    first, second = one(tmp_path, source).jobs
    assert (first.unresolved, first.misfire) == (("cron",), "DoNothing")
    assert second.unresolved == ("cron", "misfire", "time_zone")


@pytest.mark.parametrize("source", ["def x(:\n", "\0", "(" * 5000 + ")" * 5000, "\ufeff# coding: nonsense\n"])
def test_modules_that_are_no_python(tmp_path: Path, source: str) -> None:
    found = scanned(
        tmp_path,
        {
            "bad.py": f"{source}# xwheel_package\n",
            "good.py": "from xwheel_package import schedule\n@schedule()\ndef a(): ...\n",
        },
    )
    assert [item.reason for item in found.problems] == ["syntax_error"]
    assert [job.group for job in found.jobs] == ["good"]


def test_functions_of_others_are_no_jobs(tmp_path: Path) -> None:
    source = (
        "from other import schedule\nfrom .xwheel_package import schedule\n"
        "@schedule()\ndef a(): ...\n@x.y.schedule()\ndef b(): ...\n"
    )
    assert one(tmp_path, source) == ScanReport(jobs=[], problems=[])


def test_modules_are_found_where_they_are_installed(tmp_path: Path) -> None:
    job = "from xwheel_package import schedule\n@schedule()\ndef a(): ...\n"
    files = {"acme_jobs-1.2.0.data/purelib/pure.py": job, "acme_jobs-1.2.0.data/scripts/no.py": job, "a-b/no.py": job}
    assert [found.group for found in scanned(tmp_path, files).jobs] == ["pure"]
    source = {
        "x-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n",
        "x-1.0/src/x/__init__.py": job,
        "x-1.0/setup.py": job,
    }
    assert [
        found.group for found in scan(open_package(sdist(tmp_path / "x-1.0.tar.gz", source), "x-1.0.tar.gz")).jobs
    ] == ["x"]
    plain = zipped(tmp_path / "x.zip", {"deep/er.py": job})
    found = scan(open_package(plain, "x.zip", project="x", version="1"))
    assert [item.group for item in found.jobs] == ["deep.er"]


@pytest.mark.parametrize(
    "source", ["-" * 300_000 + "1", "a," * 110_000, "[1]," * 60_000, "x = 1\n" * 100_000, "é " * 210_000]
)
def test_a_dense_module_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """S18: of 4 MB the parser made 2.2 GB in 12 s; how many words and signs there are is counted before."""
    monkeypatch.setattr(bounded, "ast", SimpleNamespace())  # it is not even asked
    found = one(tmp_path, f"from xwheel_package import schedule\n{source}\n")
    assert [(item.reason, item.file) for item in found.problems] == [("too_large", "acme.py")]
    assert "200000 words and signs" in found.problems[0].text


def test_modules_are_bounded_together(tmp_path: Path) -> None:
    """S18: many of them, each just small enough."""
    source = "from xwheel_package import schedule\n" + "x = 1\n" * 60_000
    found = scanned(tmp_path, {f"m{number}.py": source for number in range(4)})
    assert [(item.reason, item.file) for item in found.problems] == [("too_large", "m2.py"), ("too_large", "m3.py")]


def test_large_modules_of_people_pass(tmp_path: Path) -> None:
    """The largest modules of the standard library that are no tables of data."""
    for module in (_pydecimal, typing, argparse, inspect, tarfile):
        source = Path(str(module.__file__)).read_text("utf-8")
        assert one(tmp_path, f"{source}\nfrom xwheel_package import schedule\n").problems == []
