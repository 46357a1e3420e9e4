"""What a node may run of a package: derived from the bytes of its file, which were compared with their hash before."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from xwheel_job_package import archive as archives
from xwheel_job_package.archive import Archive, Limits, parse_file_name
from xwheel_job_package.failures import permanent
from xwheel_job_package.reference import PackageReference
from xwheel_job_package.report import Call, Container, FoundJob, Kind, PackageError
from xwheel_job_package.scan import modules_of, scan
from xwheel_job_package.wheels import WheelFacts, check_wheel

FORM: Final = 2
"""What :class:`PackageContents` is written as; an environment that was built with another one is built again."""


class PackageJob(msgspec.Struct, frozen=True, kw_only=True):
    """A marked function of a package, and where its code is.

    Attributes:
        group: Module, or module and class.
        name: Name of the function.
        call: What kind of thing is called.
        module: The module alone.
        path: Its file below the folder of installed packages.
        sha256: Hash of that file; empty where a build makes it.
    """

    group: str
    name: str
    call: Call
    module: str
    path: str
    sha256: str = ""

    def order(self, site: str) -> dict[str, object]:
        """Return what the process that runs it is given; ``site`` is the folder of installed packages."""
        owner = self.group.removeprefix(self.module).split(".")[1:]
        return {"module": self.module, "owner": owner, "name": self.name, "file": f"{site}/{self.path}"}


class PackageContents(msgspec.Struct, frozen=True, kw_only=True):
    """What the file of a package says of itself.

    Attributes:
        sha256: Of the file.
        file: Its name.
        project: Normalised name.
        version: In its shortest spelling.
        kind: What the file is.
        container: Whether it brings a bean factory.
        factory: That bean factory; empty for none.
        dependencies: Requirements, none of which names a place.
        jobs: Its marked functions that are not disabled.
    """

    sha256: str
    file: str
    project: str
    version: str
    kind: Kind
    container: Container
    factory: str
    dependencies: tuple[str, ...]
    jobs: tuple[PackageJob, ...]
    form: int = FORM

    def find(self, reference: PackageReference) -> PackageJob:
        """Return the job that a source names.

        Raises:
            PackageRunError: ``no_such_job``, or ``bad_reference`` with the field that the file says otherwise.
        """
        said = {
            "package": self.project,
            "version": self.version,
            "file": self.file,
            "sha256": self.sha256,
            "container": self.container,
        }
        _compare(reference, said)
        job = self.job(reference.group, reference.name)
        _compare(reference, {"call": job.call})
        return job

    def job(self, group: str, name: str) -> PackageJob:
        """Return a job by its group and name.

        Raises:
            PackageRunError: ``no_such_job``.
        """
        for job in self.jobs:
            if (job.group, job.name) == (group, name):
                return job
        raise permanent(
            "no_such_job",
            f"the package has no {group}.{name}: only functions of its own that are marked with @schedule are run",
        )


def _compare(reference: PackageReference, said: Mapping[str, str]) -> None:
    for name, wanted in said.items():
        if (given := getattr(reference, name)) != wanted:
            raise permanent("bad_reference", f"{name}: the source says {given!r}, the package {wanted!r}")


def read_contents(path: Path, name: str, sha256: str, limits: Limits) -> PackageContents:
    """Return what a package's file says.

    Args:
        path: The file.
        name: What jobs call it; a plain archive may say only by that which version it is.
        sha256: Its hash, which was compared.
        limits: How much it may hold.

    Raises:
        PackageRunError: It is no package of that name, with the reason of :class:`PackageError`.
    """
    project, version = "", ""
    try:
        if parse_file_name(name).kind == "zip":
            project, _, version = name.removesuffix(".zip").partition("-")
        archive = archives.open_package(path, name, limits, project=project, version=version)
    except PackageError as error:
        raise permanent(error.reason, str(error).removeprefix(f"{error.reason}: ")) from None
    info = archive.info
    if info.file != name:
        raise permanent("bad_reference", f"file: the source says {name!r}, the package is {info.file!r}")
    return PackageContents(
        sha256=sha256,
        file=info.file,
        project=info.project,
        version=info.version,
        kind=info.kind,
        container=info.container,
        factory=info.factory,
        dependencies=info.dependencies,
        jobs=jobs_of(archive),
    )


def jobs_of(archive: Archive) -> tuple[PackageJob, ...]:
    """Return all marked functions of a package; which of them became jobs at the upload is the scheduler's business."""
    modules = {path: module for module, path in modules_of(archive).items()}
    found: dict[tuple[str, str], PackageJob] = {}
    for job in scan(archive, everywhere=True).jobs:
        found[job.group, job.name] = job_of(archive, modules, job)
    return tuple(found.values())


def job_of(archive: Archive, modules: Mapping[str, str], job: FoundJob) -> PackageJob:
    """Return a job with where its code will be; ``modules`` are the archive's, by their paths."""
    module = modules[job.file]
    is_package = job.file.rpartition("/")[2] == "__init__.py"
    is_built = archive.info.kind == "sdist"
    return PackageJob(
        group=job.group,
        name=job.name,
        call=job.call,
        module=module,
        path=module.replace(".", "/") + ("/__init__.py" if is_package else ".py"),
        sha256="" if is_built else archive.members[job.file].digest.hex(),
    )


def check_installed(contents: PackageContents, site: Path, wheel: Mapping[str, bytes] | None) -> PackageContents:
    """Return what can be run in an environment: jobs whose code is in the package's own files as these were installed.

    What is compiled of such a file is deleted: Python makes it again of the file.

    Args:
        contents: What the package's file says.
        site: The folder of installed packages.
        wheel: Digests of the files of the wheel that was built of a source distribution; None for other kinds.

    Raises:
        PackageRunError: ``foreign_code``: such a file has other content, as where a dependency brings one like it.
    """
    jobs = []
    for job in contents.jobs:
        if wheel is not None:
            if job.path not in wheel:
                continue  # it is not installed, as tests are not
            job = msgspec.structs.replace(job, sha256=wheel[job.path].hex())  # noqa: PLW2901
        path = site / job.path
        if not path.is_file() or _hash_of(path) != job.sha256:
            raise permanent(
                "foreign_code",
                f"{job.path} is not the package's own file after the installation: does a dependency have one like it?",
            )
        # a compiled module may say that its source is not to be compared, and be a dependency's
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
        jobs.append(job)
    return msgspec.structs.replace(contents, jobs=tuple(jobs))


def check_built(wheel: Path) -> WheelFacts:
    """Return what a wheel says that was built here.

    Raises:
        PackageRunError: It does not agree with itself, or needs something by its address.
    """
    try:
        return check_wheel(wheel, wheel.name)
    except PackageError as error:
        raise permanent(error.reason, str(error).removeprefix(f"{error.reason}: ")) from None


def installed_digests(wheel: Path) -> dict[str, bytes]:
    """Return the digests of a wheel's modules by their paths below the folder of installed packages."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = name.split("/")
            if parts[0].endswith(".data") and parts[1:2] in (["purelib"], ["platlib"]):
                parts = parts[2:]
            if name.endswith(".py"):
                found["/".join(parts)] = hashlib.sha256(archive.read(name)).digest()
    return found


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
