"""XXL-JOB's own executor library, as it is published, in an application without a framework.

3.3.2 is the newest release of the third generation that Maven Central has.
"""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.interop.builds import build_once, call, digest
from tests.interop.peers import CACHE, Peer, Place

SOURCES = Path(__file__).parent / "java"
JVM = ("-Xmx128m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SLF4J = {"2.2.0": "1.7.30", "2.4.2": "2.0.16", "3.2.0": "2.0.17", "3.3.2": "2.0.17"}
"""Versions of xxl-job-core, and the logging library that each of them brings."""


def _folder(version: str) -> Path:
    key = digest((path for path in SOURCES.rglob("*") if path.is_file()), version, SLF4J[version])
    return CACHE / f"java-{version}-{key}"


def _build(version: str) -> Path:
    return build_once(_folder(version), partial(_fetch_and_compile, version))


def _fetch_and_compile(version: str, folder: Path) -> None:
    words = [f"-Dxxl.version={version}", f"-Dslf4j.version={SLF4J[version]}"]
    words += [f"-DoutputDirectory={folder / 'lib'}", "-U"]
    fetch = ["mvn", "-B", "-q", "-f", SOURCES / "pom.xml", *words, "dependency:copy-dependencies"]
    with (CACHE / "maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Maven's own store of downloads is for one process at a time
        call(fetch, folder, tries=3)  # a network that fails once may work the next time
    kind = "first" if version.startswith("2.2.") else "later"
    files = [path for part in ("common", kind) for path in (SOURCES / "src" / part).rglob("*.java")]
    options = ["--release", "11", "-encoding", "UTF-8", "-cp", "lib/*", "-d", "classes"]
    call(["javac", "-J-Xmx256m", *options, *files], folder)


def _command(version: str, place: Place) -> Sequence[str]:
    folder = _folder(version)
    path = f"{folder / 'classes'}:{folder / 'lib'}/*"
    words = [place.admin_url, place.app_name, place.token, str(place.port), str(place.folder)]
    return ["java", *JVM, "-cp", path, "interop.App", *words]


def _peer(version: str) -> Peer:
    return Peer(
        name=f"java-{version}",
        title=f"Java {version}",
        build=partial(_build, version),
        command=partial(_command, version),
        # what users' machines have: without it the JVM spells other letters than ASCII as question marks
        environment={"LC_ALL": "C.UTF-8"},
        slash=True,
    )


JAVA = tuple(_peer(version) for version in SLF4J)
