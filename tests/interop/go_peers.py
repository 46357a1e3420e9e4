"""The published Go library for executors, in an application of our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.interop.builds import build_once, call, digest
from tests.interop.peers import CACHE, Peer, Place

SOURCES = Path(__file__).parent / "go"
VERSION = "1.2.0"


def _folder() -> Path:
    return CACHE / f"go-{VERSION}-{digest(path for path in SOURCES.iterdir() if path.is_file())}"


def _build() -> Path:
    return build_once(_folder(), _fetch_and_compile)


def _fetch_and_compile(folder: Path) -> None:
    # -mod=readonly: go.mod and go.sum rule; a toolchain is never fetched
    words = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    # a network that fails once may work the next time
    call(["go", "mod", "download"], SOURCES, tries=3, **words)
    call(["go", "build", "-o", str(folder / "app"), "."], SOURCES, **words)


def _command(place: Place) -> Sequence[str]:
    words = [place.admin_url, place.app_name, place.token, str(place.port), str(place.folder)]
    return [str(_folder() / "app"), *words]


GO = Peer(
    name=f"go-{VERSION}",
    title=f"Go {VERSION}",
    build=_build,
    command=_command,
    lacks=frozenset({"callback", "handlers"}),
)
