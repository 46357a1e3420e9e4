"""Environments of packages: real ones, built without a network from tiny wheels."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from archives import sdist
from wheels import make_archive, make_wheel, sha256_of
from xwheel_devtools.testing import WebServer, wait_until

from xwheel_job_package.environments import READY, Environment, Environments
from xwheel_job_package.failures import Cancel, PackageRunError
from xwheel_job_package.node_options import NodeOptions

DAY_S = 86_400


class Site:
    """The environments of a folder."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.made = Environments(folder, NodeOptions(**options), os.environ)
        self.text: list[str] = []
        self.fetched = 0

    def open(self, package: Path, cancel: Cancel | None = None) -> Environment:
        def fetch() -> Path:
            self.fetched += 1
            return package

        return self.made.open(sha256_of(package), package.name, fetch, cancel or Cancel(), self.text.append)

    def refusal(self, package: Path, cancel: Cancel | None = None) -> PackageRunError:
        with pytest.raises(PackageRunError) as caught:
            self.open(package, cancel)
        return caught.value

    def homes(self) -> list[Path]:
        return [path for path in (self.folder / "env").iterdir() if path.is_dir()]


def python_says(environment: Environment, code: str) -> str:
    command = [str(environment.python), "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wheel(tmp_path_factory.mktemp("plain"), "plain", "1.0", {"plain.py": "X = 1\n"})


@contextmanager
def hanging(folder: Path) -> Iterator[Path]:
    """Give a Python that never ends, and start a child that does not either."""
    program = folder / "python-that-hangs"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *print*) exec {sys.executable} "$@";; esac\nsleep 63 & echo $!\nwait\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    yield program


def test_a_package_with_what_it_bundles_is_installed_without_any_network(tmp_path: Path) -> None:
    """ENV-7: with index none only the package, its own wheels and wheelhouses count, and nothing is asked for."""
    house, inside = tmp_path / "house", tmp_path / "inside"
    house.mkdir()
    inside.mkdir()
    make_wheel(house, "housed", "2.0", {"housed.py": "X = 'housed'\n"})
    bundled = make_wheel(inside, "bundled", "1.5", {"bundled.py": "X = 'bundled'\n"})
    files = {"acme.py": "import bundled, housed\n", f"wheels/{bundled.name}": bundled.read_bytes()}
    package = make_wheel(tmp_path, "acme", "1.0", files, requires=["bundled>=1", "housed"])
    with WebServer() as index, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_INDEX_URL", index.url)
        patch.setenv("HTTP_PROXY", index.url)
        site = Site(tmp_path / "site", wheelhouses=(str(house),))
        with_it = site.open(package)
        assert index.requests == []
    assert python_says(with_it, "import acme; print(acme.bundled.X, acme.housed.X)") == "bundled housed"
    assert "building an environment for acme-1.0-py3-none-any.whl\n" in site.text
    with_it.release()


def test_a_dependency_that_is_nowhere_fails_and_the_next_start_builds_anew(tmp_path: Path) -> None:
    """ENV-4: env_build_failed with the installer's last lines, which are kept; no half-built environment is left."""
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": ""}, requires=["nowhere-to-be-found==9"])
    house = tmp_path / "house"
    house.mkdir()
    site = Site(tmp_path / "site", wheelhouses=(str(house),))
    error = site.refusal(package)
    assert (error.reason, error.is_permanent) == ("env_build_failed", True)
    assert "No matching distribution found for nowhere-to-be-found==9" in str(error)
    assert site.homes() == []
    lines = site.made.last_lines(site.made.key(sha256_of(package), package.name))
    assert any("No matching distribution found" in line for line in lines)
    assert len(lines) <= 200
    make_wheel(house, "nowhere_to_be_found", "9", {"n.py": ""})
    site.open(package).release()
    assert site.made.last_lines(site.made.key(sha256_of(package), package.name)) == []


def test_a_building_that_hangs_is_killed_with_all_it_started(tmp_path: Path, plain: Path) -> None:
    """ENV-5: at the time limit the whole process group goes; the failure is transient."""
    with hanging(tmp_path) as python:
        site = Site(tmp_path / "site", python=str(python), env_build_timeout_s=2.5)
        error = site.refusal(plain)
    assert (error.reason, error.is_permanent) == ("env_build_failed", False)
    assert "longer than 2.5 s" in str(error)
    child = int(site.text[-1])
    wait_until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text())
    assert site.homes() == []


def test_a_kill_ends_a_building(tmp_path: Path, plain: Path) -> None:
    """OPS-5: a killed run does not go on installing, and another run may build."""
    cancel = Cancel()
    with hanging(tmp_path) as python:
        site = Site(tmp_path / "site", python=str(python))
        timer = threading.Timer(0.3, cancel.set)
        timer.start()
        assert site.refusal(plain, cancel).reason == "killed"
        timer.join()
    assert site.homes() == []


def test_many_starts_at_once_build_once(tmp_path: Path, plain: Path) -> None:
    """ENV-6: four runs at once, one building; a failure, too, is that of all who waited for it."""
    site = Site(tmp_path / "site")
    bad = make_wheel(tmp_path, "bad", "1.0", {"bad.py": ""}, requires=["nowhere-to-be-found"])
    found: list[object] = []

    def start(package: Path) -> None:
        try:
            found.append(site.open(package))
        except PackageRunError as error:
            found.append(error)

    for package in (plain, bad):
        threads = [threading.Thread(target=start, args=(package,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert site.fetched == 2
    assert [isinstance(item, Environment) for item in found] == [True] * 4 + [False] * 4
    assert len({id(item) for item in found[4:]}) == 1


def test_a_run_that_waited_for_a_building_does_not_wait_for_the_end_of_its_use(tmp_path: Path, plain: Path) -> None:
    """ENV-6: the one who built it may use it for days; the others get it at once."""
    site = Site(tmp_path / "site")
    found: list[Environment] = []
    later = threading.Thread(target=lambda: found.append(site.open(plain)))

    def fetch() -> Path:
        later.start()  # it finds the lock taken, and no environment
        return plain

    environment = site.made.open(sha256_of(plain), plain.name, fetch, Cancel(), site.text.append)
    later.join(60)
    assert len(found) == 1
    environment.release()


def test_a_source_distribution_is_not_built_unless_that_is_allowed(tmp_path: Path) -> None:
    """ENV-7: building runs code of the package."""
    package = tmp_path / "acme-1.0.tar.gz"
    package.write_bytes(b"x")
    error = Site(tmp_path / "site").refusal(package)
    assert (error.reason, error.is_permanent) == ("sdist_not_allowed", True)


def test_what_is_not_used_for_days_is_collected_and_what_is_used_never(tmp_path: Path, plain: Path) -> None:
    """ENV-8: after env_keep_days without a run, never while a process has it; what a crash left goes, too."""
    site = Site(tmp_path / "site")
    environment = site.open(plain)
    used_s = (site.homes()[0] / READY).stat().st_mtime
    (tmp_path / "site" / "env" / "half-built").mkdir()
    assert site.made.collect(used_s + 6 * DAY_S) == 1
    assert site.made.collect(used_s + 8 * DAY_S) == 0
    environment.release()
    assert site.made.collect(used_s + 8 * DAY_S) == 1
    assert list((tmp_path / "site" / "env").iterdir()) == []
    site.open(plain).release()
    assert site.fetched == 2


def test_a_plain_archive_is_unpacked_with_its_requirements(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "bundled", "1.5", {"bundled.py": "X = 'bundled'\n"})
    manifest = 'name = "acme"\nversion = "1"\ndependencies = ["bundled"]\nbean_factory = "acme.box:give"\n'
    files = {"acme/__init__.py": "import bundled\n", "xwheel.toml": manifest}
    package = make_archive(tmp_path, "acme-1", {**files, f"wheels/{wheel.name}": wheel.read_bytes()})
    environment = Site(tmp_path / "site").open(package)
    assert environment.contents.factory == "acme.box:give"
    assert python_says(environment, "import acme; print(acme.bundled.X)") == "bundled"
    environment.release()


@pytest.mark.parametrize("member", ["../out.py", "/out.py", "a\\..\\..\\out.py"])
def test_a_member_that_would_leave_the_environment_is_refused(tmp_path: Path, member: str) -> None:
    """PKG-6: the store checked it; a node does not lean on that."""
    package = make_archive(tmp_path, "acme-1", {member: "x"})
    site = Site(tmp_path / "site")
    assert site.refusal(package).reason == "unsafe_member"
    assert not list(tmp_path.rglob("out.py"))


STAND_IN = """#!/bin/sh
echo "asked: $*"
echo "UV_DEFAULT_INDEX is ${{UV_DEFAULT_INDEX-not set}}"
while [ $# -gt 1 ]; do
  [ "$1" = --output-file ] && echo "acme @ {wheel}" > "$2"
  shift
done
"""


def test_uv_gets_the_same_bounds(tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENV-7: a stand-in for uv says what it was asked."""
    uv = tmp_path / "uv"
    uv.write_text(STAND_IN.format(wheel=(tmp_path / "acme-1.0-py3-none-any.whl").as_uri()))
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": ""}, requires=["plain"])
    site = Site(tmp_path / "site", installer="uv", wheelhouses=(str(plain.parent),))
    assert site.refusal(package).reason == "env_build_failed"
    asked = [line for line in site.text if line.startswith("asked: ")]
    assert [line.split()[1:3] for line in asked] == [["pip", "compile"], ["pip", "install"]]
    bounds = {"--offline", "--no-config", "--no-build", "--no-index"}
    assert all(bounds <= set(line.split()) for line in asked)
    assert {"--no-deps", "--require-hashes"} <= set(asked[1].split())
    assert "UV_DEFAULT_INDEX is not set" in "".join(site.text)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_either_installer_builds_without_an_index(
    tmp_path: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENV-4, ENV-7: the real programs, with a dependency out of a wheelhouse, and with one that is nowhere."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    house = tmp_path / "house"
    house.mkdir()
    make_wheel(house, "calendars", "2.0", {"calendars.py": "X = 2\n"})
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": "from calendars import X\n"}, requires=["calendars"])
    site = Site(tmp_path / "site", installer=installer, wheelhouses=(str(house),))
    environment = site.open(package)
    assert python_says(environment, "import acme; print(acme.X)") == "2"
    environment.release()
    lost = make_wheel(tmp_path, "lost", "1.0", {"lost.py": ""}, requires=["not-there-at-all"])
    error = site.refusal(lost)
    assert (error.reason, error.is_permanent) == ("env_build_failed", True)
    assert "not-there-at-all" in str(error)


BACKEND = """
import base64, hashlib, zipfile

def record(archive, name):
    digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},\\n"

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "acme-1.0-py3-none-any.whl"
    about = "acme-1.0.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as archive:
        archive.writestr("acme.py", "X = 'built'")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\\nName: acme\\nVersion: 1.0\\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        lines = [record(archive, item) for item in archive.namelist()]
        archive.writestr(f"{about}/RECORD", "".join(lines) + f"{about}/RECORD,,\\n")
    return name
"""


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_source_distribution_is_built_where_that_is_allowed(
    tmp_path: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENV-7: by what the package names, here a file of its own, as there is no index to take anything from."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project += '[project]\nname = "acme"\nversion = "1.0"\n'
    about = "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
    files = {"pyproject.toml": project, "backend.py": BACKEND, "PKG-INFO": about}
    package = sdist(tmp_path / "acme-1.0.tar.gz", {f"acme-1.0/{name}": text for name, text in files.items()})
    assert Site(tmp_path / "one", installer=installer).refusal(package).reason == "sdist_not_allowed"
    environment = Site(tmp_path / "two", installer=installer, allow_sdist_build=True).open(package)
    assert python_says(environment, "import acme; print(acme.X)") == "built"
    environment.release()
