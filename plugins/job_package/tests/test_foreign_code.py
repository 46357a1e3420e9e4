"""S12: an executor runs marked functions of a signed package's own files, whatever a source says, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from conftest import Place
from wheels import make_archive, make_wheel

from xwheel_job_package.archive import Limits
from xwheel_job_package.contents import check_installed, read_contents
from xwheel_job_package.failures import PackageRunError
from xwheel_job_package.reference import PackageReference
from xwheel_job_package.signatures import new_key, sign

HEAD = "from xwheel_package import disabled, schedule\n"
CODE = (
    HEAD
    + """
import functools, logging.config, os, subprocess
from acme import helpers

@schedule()
def hello(parameter=None):
    return "hello"

@disabled
@schedule()
def asleep():
    return "asleep"

def plain(parameter):
    return "plain"

alias = hello
shell = os.system

def logged(function):
    @functools.wraps(function)
    def call():
        return f"logged {function()}"
    return call

@logged
@schedule()
def wrapped():
    return "wrapped"

class Base:
    @schedule()
    def work(self):
        return type(self).__name__

    @schedule()
    @staticmethod
    def fixed():
        return "fixed"

    @classmethod
    @schedule()
    def named(cls):
        return cls.__name__

class Child(Base):
    pass
"""
)
HELPERS = "def dangerous(parameter):\n    return 'dangerous'\n"
FILES = {
    "acme/__init__.py": "",
    "acme/jobs.py": CODE,
    "acme/helpers.py": HELPERS,
    "acme/again.py": "from acme.jobs import hello  # xwheel_package\n",
}
OLD = HEAD + "@schedule()\ndef retired():\n    return 'retired'\n"


class Signed(NamedTuple):
    """A node that trusts one key, and two versions of a package signed with it."""

    place: Place
    reference: PackageReference
    older: PackageReference

    def attack(self, **changes: Any) -> tuple[int, str]:
        return self.place.run(msgspec.structs.replace(self.reference, **changes))


@pytest.fixture(scope="module")
def signer() -> tuple[str, str]:
    return new_key()


@pytest.fixture(scope="module")
def signed(
    make_place: Callable[..., Place], signer: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Signed:
    private, public = signer
    folder = tmp_path_factory.mktemp("signed")
    place = make_place({"trusted_keys": [public]}, shares=False)
    found = []
    for version, files in (("2.0", FILES), ("1.0", {**FILES, "acme/jobs.py": OLD})):
        known = place.store.add(make_wheel(folder, "acme", version, files))
        signature = sign(private, "acme", version, known.sha256)
        found.append(msgspec.structs.replace(known, signature=signature))
    return Signed(place, *found)


SHELL = '{"version": 1, "handlers": {"h": {"class": "subprocess.Popen", "args": ["touch", "MARK"]}}}'


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("logging.config", "dictConfig"),  # another module, of the standard library
        ("os", "system"),
        ("subprocess", "Popen"),
        ("acme.jobs.os", "system"),  # by what a module of the package imported
        ("acme.jobs", "shell"),
        ("acme.jobs", "alias"),
        ("acme.jobs.helpers", "dangerous"),
        ("acme.helpers", "dangerous"),
        ("acme.again", "hello"),  # re-exported
        ("acme.jobs", "plain"),  # not marked
        ("acme.jobs", "asleep"),  # disabled
        ("acme.jobs", "logged"),
        ("acme.jobs.hello", "__call__"),  # attributes of marked functions
        ("acme.jobs.hello", "__globals__"),
        ("acme.jobs.wrapped", "__wrapped__"),
        ("acme.jobs.Child", "work"),  # inherited
        ("acme.jobs.Base", "__init__"),
        ("acme.jobs", "Base"),
        ("acme.jobs.Base.work", "__call__"),
        ("xwheel_package", "schedule"),  # what the node has
        ("pip", "main"),
        ("xwheel_job_package.command", "app"),
        ("acme.jobs", "retired"),  # of the older version
        ("acme.jobs", "__builtins__"),
        ("acme", "jobs"),
        ("ACME.jobs", "hello"),
    ],
)
def test_nothing_but_a_marked_function_of_its_own_files_is_called(
    signed: Signed, tmp_path: Path, group: str, name: str
) -> None:
    """By the call of a scheduler with the executor's token, and an honestly signed package."""
    mark = tmp_path / "mark"
    code, text = signed.place.run(
        msgspec.structs.replace(signed.reference, group=group, name=name), param=SHELL.replace("MARK", str(mark))
    )
    assert (code, text.partition(":")[0]) == (500, "no_such_job")
    assert f"the package has no {group}.{name}: only functions of its own" in text
    assert not mark.exists()


@pytest.mark.parametrize(
    ("group", "name"),
    [(".acme.jobs", "hello"), ("acme..jobs", "hello"), ("acme.jobs", "Base.work"), ("acme.jobs:", "x"), ("", "x")],
)
def test_a_path_that_is_no_name_is_not_even_taken(signed: Signed, group: str, name: str) -> None:
    reference = msgspec.structs.replace(signed.reference, group=group, name=name)
    answer = signed.place.site.start(reference.source(), 7_000_000)
    assert not answer.ok
    assert "the source is no reference to a package" in answer.message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"container": "Container"}, "bad_reference: container: the source says 'Container'"),
        ({"call": "static"}, "bad_reference: call: the source says 'static', the package 'function'"),
        ({"file": "acme-2.0.zip"}, "bad_filename: it is a wheel of acme"),
        ({"file": "acme-2.0.tar.gz"}, "sdist_not_allowed: "),
        ({"file": "acme-2.0-py2.py3-none-any.whl"}, "bad_archive: acme-2.0.dist-info/WHEEL: "),
        ({"file": "other-2.0-py3-none-any.whl"}, "bad_archive: "),
        ({"file": "acme-1.0-py3-none-any.whl"}, "bad_archive: "),
        ({"version": "1.0"}, "bad_signature: "),
        ({"package": "other"}, "bad_signature: "),
        ({"sha256": "0" * 64}, "bad_signature: "),
        ({"signature": ""}, "unsigned_package: "),
    ],
)
def test_what_a_source_says_of_its_package_is_what_the_file_says(
    signed: Signed, changes: dict[str, Any], reason: str
) -> None:
    code, text = signed.attack(**changes)
    assert (code, text.startswith(reason)) == (500, True), text


def test_the_older_versions_jobs_are_the_older_versions(signed: Signed) -> None:
    assert signed.place.run(msgspec.structs.replace(signed.older, name="retired")) == (200, "retired")
    mixed = msgspec.structs.replace(signed.older, name="retired", package_id=signed.reference.package_id)
    assert signed.place.run(mixed) == (200, "retired")  # by its hash: the id says only where it would be fetched
    assert signed.attack(name="retired", signature=signed.older.signature)[1].startswith("bad_signature: ")


@pytest.mark.parametrize(
    ("group", "name", "call", "result"),
    [
        ("acme.jobs", "hello", "function", "hello"),
        ("acme.jobs", "wrapped", "function", "logged wrapped"),
        ("acme.jobs.Base", "work", "method", "Base"),
        ("acme.jobs.Base", "fixed", "static", "fixed"),
        ("acme.jobs.Base", "named", "class", "Base"),
    ],
)
def test_what_is_marked_runs(signed: Signed, group: str, name: str, call: str, result: str) -> None:
    assert signed.attack(group=group, name=name, call=call) == (200, result)


ODD = {
    # the module is another one once it is imported
    "logging/config.py": HEAD + "@schedule()\ndef dictConfig(parameter): return 'mine'\n",
    "odd/__init__.py": "",
    # marked in the source, and something else afterwards
    "odd/rebound.py": HEAD + "import os\n@schedule()\ndef job(p): return 1\njob = os.system\n",
    "odd/borrowed.py": HEAD + "@schedule()\ndef job(): return 1\nimport other\njob = other.marked\n",
    "odd/swapped.py": HEAD
    + "class Jobs:\n    @schedule()\n    def job(self): return 1\nimport other\nJobs = other.Jobs\n",
    "odd/hidden.py": HEAD + "def hides(f): return lambda: f()\n@hides\n@schedule()\ndef job(): return 1\n",
    "odd/moved.py": HEAD + "import sys, other\n@schedule()\ndef job(): return 1\nsys.modules[__name__] = other\n",
    "odd/gone.py": HEAD + "@schedule()\ndef job(): return 1\ndel job\n",
}
OTHER = (
    HEAD
    + """
@schedule()
def marked():
    return "foreign"
job = marked
class Jobs:
    @schedule()
    def job(self):
        return 2
"""
)


@pytest.fixture(scope="module")
def odd(place: Place, tmp_path_factory: pytest.TempPathFactory) -> PackageReference:
    folder = tmp_path_factory.mktemp("odd")
    other = make_wheel(folder, "other", "1.0", {"other.py": OTHER})
    files = {**ODD, f"wheels/{other.name}": other.read_bytes()}
    return place.store.add(make_wheel(folder, "odd", "1.0", files, requires=["other"]))


@pytest.mark.parametrize(
    ("group", "name", "reason"),
    [
        ("logging.config", "dictConfig", "foreign_code: module 'logging.config' is "),
        ("odd.rebound", "job", "no_such_job: odd.rebound.job is not marked once the module is imported"),
        ("odd.borrowed", "job", "foreign_code: odd.borrowed.job is not code of the package's own file"),
        ("odd.swapped.Jobs", "job", "foreign_code: odd.swapped.Jobs is not the class"),
        ("odd.hidden", "job", "no_such_job: odd.hidden.job is not marked once the module is imported"),
        ("odd.moved", "job", "foreign_code: module 'odd.moved' is "),
        ("odd.gone", "job", "no_such_job: odd.gone.job is not there once the module is imported"),
    ],
)
def test_what_the_import_made_of_a_job_is_compared_with_its_file(
    place: Place, odd: PackageReference, group: str, name: str, reason: str
) -> None:
    call = "method" if group.endswith("Jobs") else "function"
    code, text = place.run(msgspec.structs.replace(odd, group=group, name=name, call=call))
    assert (code, text.startswith(reason)) == (500, True), text


def test_a_dependency_that_brings_a_file_of_the_package_is_refused(place: Place, tmp_path: Path) -> None:
    """Whichever of them an installer writes last: the job's file is the package's, or there is no environment."""
    evil = make_wheel(tmp_path, "zz_evil", "1.0", {"acme/jobs.py": CODE.replace('"hello"', '"evil"')})
    files = {**FILES, f"wheels/{evil.name}": evil.read_bytes()}
    reference = place.store.add(make_wheel(tmp_path, "acme", "3.0", files, requires=["zz-evil"]))
    code, said = place.run(reference)  # pip writes dependencies first, uv several at once
    refused = code == 500 and said.startswith("foreign_code: acme/jobs.py is not the package's own file")
    assert refused or (code, said) == (200, "hello")
    path = tmp_path / "acme-3.0-py3-none-any.whl"
    contents = read_contents(path, path.name, reference.sha256, Limits())
    for member, text in FILES.items():
        (tmp_path / "site" / member).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / member).write_text(text)
    check_installed(contents, tmp_path / "site", None)
    (tmp_path / "site" / "acme" / "jobs.py").write_text(CODE.replace('"hello"', '"evil"'))
    with pytest.raises(PackageRunError, match="^foreign_code: acme/jobs.py is not the package's own file"):
        check_installed(contents, tmp_path / "site", None)


def test_an_archive_is_read_as_the_kind_that_its_name_says(
    make_place: Callable[..., Place], signer: tuple[str, str], tmp_path: Path
) -> None:
    """A plain archive says by its name alone which project it is, and the signature says the same."""
    private, public = signer
    place = make_place({"trusted_keys": [public]}, shares=False)
    known = place.store.add(make_archive(tmp_path, "acme-1.0", {"acme/jobs.py": CODE, "acme/helpers.py": ""}))
    honest = msgspec.structs.replace(known, signature=sign(private, "acme", "1.0", known.sha256))
    assert place.run(honest) == (200, "hello")
    manifest = '[package]\nname = "Acme.Jobs"\nversion = "1.0.0"\n'
    files = {"acme/jobs.py": CODE, "acme/helpers.py": "", "xwheel.toml": manifest}
    spelled = place.store.add(make_archive(tmp_path, "acme_jobs-1.0.0", files), package="acme-jobs")
    signature = sign(private, "acme-jobs", "1.0.0", spelled.sha256)
    assert place.run(msgspec.structs.replace(spelled, signature=signature)) == (200, "hello")
    for file in ("other-1.0.zip", "acme-2.0.zip"):
        code, text = place.run(msgspec.structs.replace(honest, file=file))
        assert (code, text.partition(":")[0]) == (500, "bad_reference")
