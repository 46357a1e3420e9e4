"""What an installer is told: first which wheels a package needs, then to install exactly these, each by its hash.

pip and uv resolve what packages need against folders of wheels and an index, if there is one. What comes of it is a
list of wheels with hashes, which is checked and then installed without another question to anyone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from packaging.utils import canonicalize_name, canonicalize_version

from xwheel_job_package import pip_guard
from xwheel_job_package.failures import permanent
from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.report import PackageError
from xwheel_job_package.wheels import STRONG, check_build_requirements, check_wheel, read_wheel

MOST_KNOWN: Final = 10_000
"""Files of wheelhouses whose metadata is remembered."""

_SETTINGS: Final = ("PIP_", "UV_", "_PIP_")
_LOCKED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})(?:\s|$)")


@dataclass(slots=True)
class Resolved:
    """What is to be installed.

    Attributes:
        lines: Of a list of requirements: each a file or a version, with the hashes that it may have.
        projects: Name and version of each.
        is_local: Each is a file that is here and was checked.
        is_named: Lines of files begin with a name: uv wants that, and pip takes it for an address.
    """

    lines: list[str] = field(default_factory=list)
    projects: set[tuple[str, str]] = field(default_factory=set)
    is_local: bool = True
    is_named: bool = False

    def add_file(self, wheel: Path, sha256: str = "") -> None:
        """Add a wheel once its files were compared with its record.

        Raises:
            PackageRunError: It is none, or has another hash.
        """
        found = hash_of(wheel)
        if sha256 and found != sha256:
            raise permanent("env_build_failed", f"{wheel.name} has the hash {found}, not {sha256}")
        try:
            facts = check_wheel(wheel, wheel.name)
        except PackageError as error:
            raise permanent(error.reason, str(error).removeprefix(f"{error.reason}: ")) from None
        self.projects.add((facts.project, canonicalize_version(facts.version)))
        self.lines.append(f"{self.place(facts.project, wheel)} --hash=sha256:{found}")

    def place(self, project: str, wheel: Path) -> str:
        """Return how a list of requirements names a file."""
        return f"{project} @ {wheel.as_uri()}" if self.is_named else wheel.as_uri()


class Installer:
    """The commands of pip, or of uv.

    Args:
        options: The node's options.
        cache: The installer's own folder.
        variables: The environment of its processes.
        guard: The file that keeps pip from following addresses.
        pip: Where pip is; found if it is not given.
    """

    def __init__(
        self,
        options: NodeOptions,
        cache: Path,
        variables: Mapping[str, str],
        *,
        guard: Path = Path(pip_guard.__file__),
        pip: Path | None = None,
    ) -> None:
        self._options = options
        self._cache = cache / options.installer
        self._guard = guard
        self._pip = pip
        self._variables = dict(variables)

    @property
    def is_uv(self) -> bool:
        """Whether it is uv."""
        return self._options.installer == "uv"

    def variables(self, work: Path) -> dict[str, str]:
        """Return the environment of its processes; settings of this machine count only where the option says so."""
        known = self._variables
        if self._options.index != "default":
            known = {name: text for name, text in known.items() if not name.startswith(_SETTINGS)}
            known["PIP_CONFIG_FILE"] = os.devnull
        return {**known, "TMPDIR": str(work), pip_guard.ROOT: str(self._pip or "")}

    def build(self, python: Path, source: Path, links: Path, into: Path) -> list[str]:
        """Return the command that builds the wheel of a source distribution, and nothing else."""
        if self.is_uv:
            command = [*self._uv("build"), "--no-sources", "--wheel", "--python", str(python), "--out-dir", str(into)]
            return [*command, *self._places(links), str(source)]
        command = [*self._run_pip(python, "wheel"), "--no-deps", "--wheel-dir", str(into)]
        return [*command, *self._places(links), "--", str(source)]

    def resolve(self, python: Path, wanted: Path, links: Path, into: Path) -> list[str]:
        """Return the command that puts all wheels into a folder; of uv, a list with their hashes.

        Args:
            python: Of the environment.
            wanted: A list of requirements.
            links: A folder of wheels.
            into: The folder.
        """
        if self.is_uv:
            command = [*self._uv("pip", "compile"), "--no-sources", "--python", str(python), "--generate-hashes"]
            command += ["--no-header", "--no-annotate", "--quiet", "--output-file", str(into / "lock.txt")]
            return [*command, *self._sources(), *self._places(links), "--", str(wanted)]
        command = [*self._run_pip(python, "wheel"), "--wheel-dir", str(into)]
        return [*command, *self._sources(), *self._places(links), "--requirement", str(wanted)]

    def install(self, python: Path, resolved: Path, links: Path, *, is_local: bool) -> list[str]:
        """Return the command that installs a list of wheels, each by its hash, and nothing else."""
        exact = ["--no-deps", "--require-hashes", "--requirement", str(resolved)]
        if self.is_uv:
            # copies, since what a job writes into a linked file would be in the cache and in other environments
            command = [*self._uv("pip", "install", is_offline=is_local), "--link-mode", "copy"]
            command += ["--python", str(python), *exact]
            return [*command, *self._sources(), *(["--no-index"] if is_local else self._places(links))]
        command = [*self._run_pip(python, "install"), "--no-warn-script-location", "--only-binary", ":all:"]
        return [*command, "--no-index", *exact]

    def read(self, into: Path, links: Path, package: Path | None) -> Resolved:
        """Return what is to be installed after :meth:`resolve`, checked.

        Raises:
            PackageRunError: Something is no wheel, or not from where it may be.
        """
        return (
            self._read_lock(into / "lock.txt", links, package) if self.is_uv else self._read_files(into, links, package)
        )

    def _read_files(self, into: Path, links: Path, package: Path | None) -> Resolved:
        found = Resolved()
        for path in sorted(into.iterdir()):
            if path.suffix != ".whl":
                raise permanent("env_build_failed", f"{path.name} is no wheel, and only wheels are installed")
            is_package = package is not None and package.name == path.name
            known = package if package is not None and is_package else links / path.name
            if known.exists() and (is_package or self._options.index == "none"):
                found.add_file(path, hash_of(known))
            elif self._options.index == "none" and not self._options.allow_sdist_build:
                raise permanent("env_build_failed", f"{path.name} is from no place that is allowed here")
            else:
                found.add_file(path)
        return found

    def _read_lock(self, lock: Path, links: Path, package: Path | None) -> Resolved:
        found = Resolved(is_named=True)
        house = {} if self._options.index != "none" else _by_version(links)
        for entry in lock.read_text("utf-8").replace("\\\n", " ").splitlines():
            if not entry.strip() or entry.lstrip().startswith("#"):
                continue
            hashes = _HASH.findall(entry)
            if package is not None and entry.split(" --hash")[0].rstrip().endswith(package.as_uri()):
                found.add_file(package, hashes[0] if hashes else "")
                continue
            named = _LOCKED.match(entry)
            if named is None or not hashes:
                raise permanent("env_build_failed", f"{entry[:200]!r} is no version with its hashes")
            project, version = canonicalize_name(named[1]), canonicalize_version(named[2].rstrip(";"))
            wheels = [path for path in house.get((project, version), ()) if hash_of(path) in hashes]
            if wheels:
                found.add_file(wheels[0])
                continue
            if self._options.index == "none" and not self._options.allow_sdist_build:
                raise permanent("env_build_failed", f"{project} {version} is from no place that is allowed here")
            found.is_local = False
            found.projects.add((project, version))
            found.lines.append(
                f"{project}=={named[2].rstrip(';')} {' '.join(f'--hash=sha256:{item}' for item in hashes)}"
            )
        return found

    def _run_pip(self, python: Path, command: str) -> list[str]:
        self._pip = self._pip or find_pip()
        words = [str(python), "-I", str(self._guard)]
        words += ["--isolated"] if self._options.index != "default" else []
        words += [command, "--disable-pip-version-check", "--no-input", "--no-color", "--progress-bar", "off"]
        return [*words, "--cache-dir", str(self._cache)]

    def _uv(self, *command: str, is_offline: bool = False) -> list[str]:
        words = ["uv", *command, "--no-progress", "--cache-dir", str(self._cache), "--no-python-downloads"]
        if is_offline or self._options.index == "none":
            words += ["--offline"]
        return words + (["--no-config"] if self._options.index != "default" else [])

    def _sources(self) -> list[str]:
        if self._options.allow_sdist_build:
            return []
        return ["--no-build"] if self.is_uv else ["--only-binary", ":all:"]

    def _places(self, links: Path) -> list[str]:
        index = self._options.index
        words = ["--no-index"] if index == "none" else []
        if index not in ("none", "default"):
            words = ["--index-url", index]
        return [*words, "--find-links", str(links)]


def find_pip() -> Path:
    """Return the folder in which this process's Python has pip.

    Raises:
        PackageRunError: It has none.
    """
    spec = find_spec("pip")
    if spec is None or spec.origin is None:
        text = "this executor's Python has no pip: install it there, or set the option installer to uv"
        raise permanent("env_build_failed", text)
    return Path(spec.origin).parents[1]


def check_projects(site: Path, resolved: Resolved) -> None:
    """Refuse an environment in which something else is than what was to be installed.

    Raises:
        PackageRunError: A project is missing, or there is one too many, or its files have no hash.
    """
    found = set()
    for item in importlib.metadata.distributions(path=[str(site)]):
        found.add((canonicalize_name(item.metadata["Name"]), canonicalize_version(item.version)))
        if not resolved.is_local:
            _check_files(site, item)
    if found != resolved.projects:
        other = sorted(f"{name} {version}" for name, version in found ^ resolved.projects)
        raise permanent("env_build_failed", f"what is installed is not what was resolved: {', '.join(other[:10])}")


def _check_files(site: Path, item: importlib.metadata.Distribution) -> None:
    """Compare what a project installed with its record, where its wheel was not here before."""
    for file in item.files or ():
        if file.hash is None or file.hash.mode not in STRONG:
            continue  # what the installer wrote itself: its record, and compiled modules
        path = Path(str(file.locate()))
        if path.is_relative_to(site) and hash_of(path, file.hash.mode) != _hex(file.hash.value):
            raise permanent("bad_wheel_record", f"{item.metadata['Name']}: {str(file)!a} has other content")


def _hex(text: str) -> str:
    import base64

    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()


def _by_version(links: Path) -> dict[tuple[str, str], list[Path]]:
    found: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(links.glob("*.whl")):
        try:
            facts = read_wheel(path, path.name)
        except PackageError:
            continue
        found.setdefault((facts.project, canonicalize_version(facts.version)), []).append(path)
    return found


def hash_of(path: Path, kind: str = "sha256") -> str:
    """Return the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def new_file(path: Path, account: tuple[int, int] | None) -> IO[bytes]:
    """Return a new file for an account's processes; one that is there, a link too, is an ``OSError``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if account is not None:
        os.fchown(descriptor, *account)
    return os.fdopen(descriptor, "wb")


def list_links(
    houses: Sequence[Path], links: Path, *, with_sources: bool, account: tuple[int, int] | None = None
) -> list[str]:
    """Fill a folder with links to the wheels of other folders, and return what had to be left out, in words.

    Only that folder is given to an installer, which would follow addresses in pages that lie among wheels.

    Args:
        houses: The folders; what is in one of the first counts.
        links: The folder, empty.
        with_sources: Whether source distributions may be used, too.
        account: Who must be able to read them, if it is another account: gets copies of what it cannot read.
    """
    said = []
    endings = (".whl", ".tar.gz") if with_sources else (".whl",)
    for house in houses:
        try:
            names = sorted(entry.name for entry in os.scandir(house) if entry.is_file())
        except OSError as error:
            said.append(f"the wheels of {house} cannot be used: {error}")
            continue
        for name in names:
            if not name.endswith(endings) or os.path.lexists(links / name):
                continue
            try:
                about = (house / name).stat()
            except OSError:
                continue  # deleted meanwhile
            if reason := refusal_of(house / name, about.st_mtime_ns, about.st_size):
                said.append(f"left out: {reason}")
                continue
            path = (house / name).resolve()
            if account is None or _is_open(path):
                (links / name).symlink_to(path)
            else:
                with path.open("rb") as source, new_file(links / name, account) as copy:
                    shutil.copyfileobj(source, copy)
    return said


@lru_cache(maxsize=MOST_KNOWN)
def refusal_of(path: Path, changed_ns: int, size: int) -> str:
    """Return why a file of a wheelhouse is left out, or nothing.

    Args:
        path: A wheel or a source distribution.
        changed_ns: When it was changed, and
        size: how large it is: the answer for a file that is as it was is known.
    """
    del changed_ns, size
    try:
        if path.suffix == ".whl":
            read_wheel(path, path.name)
        else:
            check_build_requirements(path)
    except PackageError as error:
        return str(error)
    return ""


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o004) and all(item.stat().st_mode & 0o001 for item in path.parents)
