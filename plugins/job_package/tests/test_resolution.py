"""S13: what is installed is a list of wheels by their hashes, and no connection is made that a setting forbids."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from archives import JOB, sdist, wheel, zipped
from test_environments import BACKEND, Site, python_says
from wheels import make_wheel, sha256_of
from xwheel_devtools.testing import WebRequest, WebServer, web_reply

from xwheel_job_package.archive import open_package
from xwheel_job_package.installation import Installer
from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.report import PackageError

DIRECT = (
    "evil @ http://127.0.0.1:PORT/evil-1.0.tar.gz",
    "evil @ file:///tmp/evil-1.0-py3-none-any.whl",
    "evil @ git+http://127.0.0.1:PORT/evil.git",
    'evil[x] @ http://127.0.0.1:PORT/evil-1.0-py3-none-any.whl ; extra == "never"',
)
INSTALLERS = pytest.mark.parametrize("installer", ["pip", "uv"])
Make = Callable[[Path, str], Path]


@pytest.fixture(autouse=True)
def _uv_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer(web_reply(404)) as server:
        yield server


def in_metadata(folder: Path, wanted: str) -> Path:
    return wheel(folder, {"acme.py": JOB}, name="acme", version="1.0", metadata=f"Requires-Dist: {wanted}\n")


def in_bundled(folder: Path, wanted: str) -> Path:
    return _bundling(folder, make_wheel(folder, "dep", "1.0", {"dep.py": ""}, requires=[wanted]))


def _bundling(folder: Path, bundled: Path, name: str = "") -> Path:
    files = {"acme.py": JOB, f"wheels/{name or bundled.name}": bundled.read_bytes()}
    return make_wheel(folder, "acme", "1.0", files, requires=["dep"])


def in_manifest(folder: Path, wanted: str) -> Path:
    listed = wanted.replace('"', "'")
    return zipped(
        folder / "acme-1.0.zip",
        {"acme.py": JOB, "xwheel.toml": f'name = "acme"\nversion = "1.0"\ndependencies = ["{listed}"]\n'},
    )


def in_bundled_of_a_zip(folder: Path, wanted: str) -> Path:
    bundled = make_wheel(folder, "dep", "1.0", {"dep.py": ""}, requires=[wanted])
    path = zipped(
        folder / "acme-1.0.zip",
        {"acme.py": JOB, "xwheel.toml": 'name = "acme"\nversion = "1.0"\ndependencies = ["dep"]\n'},
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(bundled, f"wheels/{bundled.name}")
    return path


def of_source(folder: Path, about: str = "", project: str = "") -> Path:
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n{about}",
        "pyproject.toml": project or '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": BACKEND,
        "acme.py": JOB,
    }
    return sdist(folder / "acme-1.0.tar.gz", {f"acme-1.0/{name}": text for name, text in files.items()})


def in_source(folder: Path, wanted: str) -> Path:
    return of_source(folder, f"Requires-Dist: {wanted}\n")


def in_build(folder: Path, wanted: str) -> Path:
    listed = wanted.replace('"', "'")
    return of_source(folder, project=f'[build-system]\nrequires = ["{listed}"]\nbuild-backend = "backend"\n')


PLACES: tuple[Make, ...] = (in_metadata, in_bundled, in_manifest, in_bundled_of_a_zip, in_source, in_build)


@pytest.mark.parametrize("wanted", DIRECT)
@pytest.mark.parametrize("make", PLACES)
def test_a_requirement_that_names_a_place_is_refused_at_the_upload_and_on_the_node(
    tmp_path: Path, web: WebServer, make: Make, wanted: str
) -> None:
    path = make(tmp_path, wanted.replace("PORT", str(web.port)))
    with pytest.raises(PackageError) as caught:
        open_package(path, path.name)
    assert caught.value.reason == "direct_reference"
    assert "the requirement evil names a place" in caught.value.text
    assert "bring its wheel in the folder wheels" in caught.value.text
    refusal = Site(tmp_path / "site", allow_sdist_build=True).refusal(path)
    assert (refusal.reason, refusal.is_permanent) == ("direct_reference", True)
    assert web.requests == []


@INSTALLERS
def test_what_a_wheelhouse_names_by_its_address_is_not_fetched(tmp_path: Path, web: WebServer, installer: str) -> None:
    """A wheel, a source distribution and a page of links, as pip and uv would follow them."""
    house = tmp_path / "house"
    house.mkdir()
    address = f"http://127.0.0.1:{web.port}"
    make_wheel(house, "dep", "1.0", {"dep.py": ""}, requires=[f"evil @ {address}/evil-1.0.tar.gz"])
    in_build(house, f"evil @ {address}/evil-1.0.tar.gz").rename(house / "dep-0.9.tar.gz")
    (house / "links.html").write_text(f'<a href="{address}/dep-1.1-py3-none-any.whl">dep</a>')
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": JOB}, requires=["dep"])
    for allowed in (False, True):
        site = Site(
            tmp_path / f"site{allowed}", installer=installer, wheelhouses=(str(house),), allow_sdist_build=allowed
        )
        assert site.refusal(package).reason == "env_build_failed"
        assert any("left out: direct_reference: dep-1.0-py3-none-any.whl: METADATA" in line for line in site.text)
    assert web.requests == []


@INSTALLERS
def test_settings_of_the_machine_add_no_index(
    tmp_path: Path, web: WebServer, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``none`` as with an index of one's own: variables, and files of the account."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, web.url)
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, web.url)
    settings = tmp_path / "home" / ".config"
    (settings / "pip").mkdir(parents=True)
    (settings / "uv").mkdir()
    (settings / "pip" / "pip.conf").write_text(
        f"[global]\nindex-url = {web.url}\nextra-index-url = {web.url}\nfind-links = {web.url}\n"
    )
    (settings / "uv" / "uv.toml").write_text(f'index-url = "{web.url}"\nfind-links = ["{web.url}"]\n')
    monkeypatch.setenv("HOME", str(settings.parent))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(settings))
    for name in ("PIP_CONFIG_FILE", "UV_CONFIG_FILE"):
        monkeypatch.setenv(name, str(settings / name[:2].lower().replace("pi", "pip") / f"{name[:2].lower()}"))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings / "pip" / "pip.conf"))
    monkeypatch.setenv("UV_CONFIG_FILE", str(settings / "uv" / "uv.toml"))
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": JOB}, requires=["dep"])
    assert Site(tmp_path / "none", installer=installer).refusal(package).reason == "env_build_failed"
    with Index(make_wheel(tmp_path, "dep", "1.0", {"dep.py": "X = 'ours'\n"})) as index:
        environment = Site(tmp_path / "own", installer=installer, index=index.url).open(package)
        assert python_says(environment, "import dep; print(dep.X)") == "ours"
        environment.release()
        assert index.web.requests
    assert web.requests == []


@INSTALLERS
@pytest.mark.parametrize("index", ["none", "https://packages.example/simple"])
def test_each_command_names_the_index_that_the_node_allows(tmp_path: Path, installer: str, index: str) -> None:
    """Of pip nothing else shows: it goes straight to the public index, and asks no proxy of the machine."""
    options = NodeOptions(index=index, installer=installer, allow_sdist_build=True)
    made = Installer(options, tmp_path, {})
    looking = [made.build(tmp_path, tmp_path, tmp_path, tmp_path), made.resolve(tmp_path, tmp_path, tmp_path, tmp_path)]
    installing = made.install(tmp_path, tmp_path, tmp_path, is_local=True)
    for command in looking:
        assert ("--no-index" in command, index in command) == (index == "none", index != "none"), command
    assert "--no-index" in installing


class Index:
    """An index of packages with one wheel, which it may say another hash of."""

    def __init__(self, found: Path, sha256: str = "") -> None:
        self._found = found
        self._sha256 = sha256 or sha256_of(found)
        self.web = WebServer(self._answer)
        self.url = f"{self.web.url}/simple"

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.web.close()

    def _answer(self, handler: Any, request: WebRequest) -> None:
        project, name = self._found.name.partition("-")[0], self._found.name
        if request.path == f"/simple/{project}/":
            link = f'<a href="/files/{name}#sha256={self._sha256}">{name}</a>'
            web_reply(200, link.encode(), {"Content-Type": "text/html"})(handler, request)
        elif request.path == f"/files/{name}":
            web_reply(200, self._found.read_bytes())(handler, request)
        else:
            web_reply(404)(handler, request)


@INSTALLERS
def test_an_index_that_serves_another_hash_is_refused(tmp_path: Path, installer: str) -> None:
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": JOB}, requires=["dep"])
    with Index(make_wheel(tmp_path, "dep", "1.0", {"dep.py": ""}), "0" * 64) as index:
        site = Site(tmp_path / "site", installer=installer, index=index.url)
        assert site.refusal(package).reason == "env_build_failed"
    assert "hash" in "".join(site.text).lower()
    assert site.homes() == []


@INSTALLERS
def test_a_wheel_of_an_index_leads_nowhere_else(tmp_path: Path, web: WebServer, installer: str) -> None:
    """Only the index is asked, whatever its wheels want."""
    package = make_wheel(tmp_path, "acme", "1.0", {"acme.py": JOB}, requires=["dep"])
    wanted = f"evil @ {web.url}/evil-1.0.tar.gz"
    with Index(make_wheel(tmp_path, "dep", "1.0", {"dep.py": ""}, requires=[wanted])) as index:
        site = Site(tmp_path / "site", installer=installer, index=index.url)
        assert site.refusal(package).reason == "env_build_failed"
        assert index.web.requests
    assert web.requests == []


def other_name(folder: Path) -> tuple[Path, str]:
    return make_wheel(folder, "other", "1.0", {"dep.py": ""}), "dep-1.0-py3-none-any.whl"


def other_version(folder: Path) -> tuple[Path, str]:
    return make_wheel(folder, "dep", "2.0", {"dep.py": ""}), "dep-1.0-py3-none-any.whl"


def _again(path: Path, change: Callable[[dict[str, bytes]], None]) -> tuple[Path, str]:
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path, path.name


def other_content(folder: Path) -> tuple[Path, str]:
    return _again(make_wheel(folder, "dep", "1.0", {"dep.py": ""}), lambda files: files.update({"dep.py": b"x"}))


def unlisted(folder: Path) -> tuple[Path, str]:
    return _again(make_wheel(folder, "dep", "1.0", {"dep.py": ""}), lambda files: files.update({"more.pth": b""}))


def no_hash(folder: Path) -> tuple[Path, str]:
    return _again(
        make_wheel(folder, "dep", "1.0", {"dep.py": ""}),
        lambda files: files.update({"dep-1.0.dist-info/RECORD": b"dep.py,,\n"}),
    )


def missing(folder: Path) -> tuple[Path, str]:
    return _again(make_wheel(folder, "dep", "1.0", {"dep.py": ""}), lambda files: files.pop("dep.py") and None)


def metadata_of_another(folder: Path) -> tuple[Path, str]:
    text = b"Metadata-Version: 2.1\nName: other\nVersion: 1.0\n"
    return _again(
        make_wheel(folder, "dep", "1.0", {"dep.py": ""}),
        lambda files: files.update({"dep-1.0.dist-info/METADATA": text}),
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (other_name, "bad_wheel"),
        (other_version, "bad_wheel"),
        (metadata_of_another, "bad_wheel"),
        (other_content, "bad_wheel_record"),
        (unlisted, "bad_wheel_record"),
        (no_hash, "bad_wheel_record"),
        (missing, "bad_wheel_record"),
    ],
)
def test_a_wheel_that_does_not_agree_with_itself_is_refused(
    tmp_path: Path, make: Callable[[Path], tuple[Path, str]], reason: str
) -> None:
    """One that a package brings, at the upload and on the node; one of a wheelhouse on the node."""
    path, name = make(tmp_path)
    package = _bundling(tmp_path, path, name)
    with pytest.raises(PackageError) as caught:
        open_package(package, package.name)
    assert caught.value.reason == reason
    assert Site(tmp_path / "one").refusal(package).reason == reason
    house = tmp_path / "house"
    house.mkdir()
    path.rename(house / name)
    plain = make_wheel(tmp_path, "plain", "1.0", {"plain.py": JOB}, requires=["dep"])
    site = Site(tmp_path / "two", wheelhouses=(str(house),))
    assert site.refusal(plain).reason in (reason, "env_build_failed")
    assert site.homes() == []


@INSTALLERS
def test_uv_and_pip_install_a_wheelhouses_wheel_only_as_it_is_recorded(tmp_path: Path, installer: str) -> None:
    house = tmp_path / "house"
    house.mkdir()
    other_content(house)
    plain = make_wheel(tmp_path, "plain", "1.0", {"plain.py": JOB}, requires=["dep"])
    site = Site(tmp_path / "two", installer=installer, wheelhouses=(str(house),))
    assert site.refusal(plain).reason == "bad_wheel_record"


@pytest.mark.parametrize("text", ["\n--extra-index-url http://127.0.0.1:PORT\n", "\r--pre", "\x0b", "\u2028"])
def test_a_requirement_is_one_line_of_an_installers_list(tmp_path: Path, web: WebServer, text: str) -> None:
    """What stands in quotes of a marker may have any character."""
    said = text.replace("PORT", str(web.port)).encode("unicode_escape").decode().replace("\\x", "\\u00")
    listed = f"dep; os_name != 'a{said}'"
    path = zipped(
        tmp_path / "acme-1.0.zip",
        {"acme.py": JOB, "xwheel.toml": f'name = "acme"\nversion = "1.0"\ndependencies = ["{listed}"]\n'},
    )
    with pytest.raises(PackageError) as caught:
        open_package(path, path.name)
    assert (caught.value.reason, "requirement" in caught.value.text) == ("bad_archive", True)
    assert Site(tmp_path / "site").refusal(path).reason == "bad_archive"
    assert web.requests == []


def test_a_build_that_makes_another_project_is_refused(tmp_path: Path) -> None:
    data = sdist(
        tmp_path / "other-1.0.tar.gz",
        {
            "other-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n",
            "other-1.0/pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
            "other-1.0/b.py": BACKEND,
        },
    )
    refusal = Site(tmp_path / "site", allow_sdist_build=True).refusal(data)
    assert refusal.reason == "env_build_failed"
