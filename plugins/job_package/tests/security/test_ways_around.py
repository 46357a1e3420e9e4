"""Ways around what an environment may be made of: what builders read, what environments share, what stays.

Each worked once, but for ``tool.uv.sources``, which a version of uv may come to follow for what is built of an archive.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest
from archives import sdist
from test_environments import BACKEND, Site, python_says
from test_resolution import INSTALLERS, Index
from wheels import make_archive, make_wheel, sha256_of
from xwheel_devtools.testing import WebServer, web_reply

from xwheel_job_package.download import PackageCache
from xwheel_job_package.failures import Cancel

JOB = "from xwheel_package import schedule\n\n@schedule()\ndef job():\n    return 'mine'\n"
EVIL = JOB.replace("mine", "evil")


@pytest.fixture(autouse=True)
def _uv_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def test_a_builds_sources_of_uv_lead_nowhere(tmp_path: Path) -> None:
    """``tool.uv.sources`` says in a table of its own where a requirement is, which is none of what was checked."""
    evil = make_wheel(tmp_path, "needed", "1.0", {"needed.py": ""})
    with WebServer(web_reply(200, evil.read_bytes())) as web:
        project = (
            '[build-system]\nrequires = ["needed"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            '[project]\nname = "acme"\nversion = "1.0"\ndependencies = ["needed"]\n'
            f'[tool.uv.sources]\nneeded = {{ url = "{web.url}/{evil.name}" }}\n'
        )
        files = {
            "PKG-INFO": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
            "pyproject.toml": project,
            "backend.py": BACKEND,
            "acme.py": JOB,
        }
        path = sdist(tmp_path / "acme-1.0.tar.gz", {f"acme-1.0/{name}": text for name, text in files.items()})
        with Index(make_wheel(tmp_path, "other", "1.0", {"other.py": ""})) as index:
            site = Site(tmp_path / "site", installer="uv", index=index.url, allow_sdist_build=True)
            assert site.refusal(path).reason == "env_build_failed"
        assert web.requests == []


def test_environments_share_no_file_that_a_job_could_change(tmp_path: Path) -> None:
    """uv links files of its cache into environments: what one of them writes would be in all others."""
    dep = make_wheel(tmp_path, "dep", "1.0", {"dep.py": "X = 'dep'\n"})
    first = make_wheel(tmp_path, "first", "1.0", {"first.py": JOB}, requires=["dep"])
    manifest = 'name = "second"\nversion = "1.0"\ndependencies = ["dep"]\n'
    second = make_archive(tmp_path, "second-1.0", {"dep.py": "X = 'evil'\n", "second.py": JOB, "xwheel.toml": manifest})
    third = make_wheel(tmp_path, "third", "1.0", {"third.py": JOB}, requires=["dep"])
    with Index(dep) as index:
        site = Site(tmp_path / "site", installer="uv", index=index.url)
        made = [site.open(path) for path in (first, second, third)]
    assert [python_says(one, "import dep; print(dep.X)") for one in made] == ["dep", "evil", "dep"]
    for one in made:
        assert {path.stat().st_nlink for path in one.site.rglob("*.py")} == {1}
        one.release()


@INSTALLERS
def test_a_dependencys_compiled_module_takes_no_jobs_place(tmp_path: Path, installer: str) -> None:
    """A compiled file that says of itself that its source is not to be compared is imported in place of the source."""
    (tmp_path / "jobs.py").write_text(EVIL)
    compiled = tmp_path / "jobs.pyc"
    py_compile.compile(
        str(tmp_path / "jobs.py"),
        str(compiled),
        dfile="acme/jobs.py",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    place = importlib.util.cache_from_source("acme/jobs.py")
    evil = make_wheel(tmp_path, "evil", "1.0", {place: compiled.read_bytes(), "evil.py": ""})
    manifest = 'name = "acme"\nversion = "1.0"\ndependencies = ["evil"]\n'
    files = {"acme/__init__.py": "", "acme/jobs.py": JOB}
    wheel = make_wheel(tmp_path, "acme", "1.0", {**files, f"wheels/{evil.name}": evil.read_bytes()}, requires=["evil"])
    packed = {**files, "xwheel.toml": manifest, f"wheels/{evil.name}": evil.read_bytes()}
    archive = make_archive(tmp_path, "acme-1.0", packed)
    site = Site(tmp_path / "site", installer=installer)
    for package in (wheel, archive):
        environment = site.open(package)
        code = "import sys, types; m = types.ModuleType('xwheel_package'); m.schedule = lambda: lambda f: f"
        code += "; sys.modules['xwheel_package'] = m; import acme.jobs; print(acme.jobs.job())"
        assert python_says(environment, code) == "mine", package.name
        environment.release()


def test_an_environment_of_other_settings_is_none(tmp_path: Path) -> None:
    """Settings that became stricter count for what was built before, too."""
    wheel = make_wheel(tmp_path, "acme", "1.0", {"acme.py": JOB}, requires=["dep"])
    with Index(make_wheel(tmp_path, "dep", "1.0", {"dep.py": ""})) as index:
        Site(tmp_path / "site", index=index.url).open(wheel).release()
    assert Site(tmp_path / "site").refusal(wheel).reason == "env_build_failed"
    settings = ({}, {"allow_sdist_build": True}, {"wheelhouses": (str(tmp_path),)}, {"index": "default"})
    assert len({Site(tmp_path / "site", **one).made.key("0" * 64, wheel.name) for one in settings}) == 4


def test_a_file_is_hashed_before_each_building(tmp_path: Path) -> None:
    """What was right when it was fetched may have been changed since, by a job of the same account."""
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": JOB})
    data, sha256 = package.read_bytes(), sha256_of(package)
    with WebServer(web_reply(200, data)) as store:
        cache = PackageCache(tmp_path / "files", [store.url], "token")
        path = cache.get(1, sha256, package.name, Cancel())
        path.write_bytes(make_wheel(tmp_path, "acme", "1.0", {"acme.py": EVIL}).read_bytes())
        assert cache.get(1, sha256, package.name, Cancel()).read_bytes() == data


@pytest.mark.parametrize("name", ["wanted.txt", "resolved.txt"])
def test_what_is_written_for_an_installer_follows_no_link(tmp_path: Path, name: str) -> None:
    """The account that builds has the folder: a link there would let the scheduler's account write elsewhere."""
    target = tmp_path / "target"
    target.write_text("kept")
    made = Site(tmp_path / "site").made
    (tmp_path / name).symlink_to(target)
    with pytest.raises(FileExistsError):
        made._write(tmp_path / name, ["evil"])
    assert target.read_text() == "kept"
