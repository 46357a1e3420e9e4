"""What a wheel must hold: ``python -m tests.support.wheel_files WHEEL...``, from a checkout.

Each file of the package that git knows, byte by byte, what is compiled, and the licence.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from tests.support.paths import ROOT

PLUGINS = ROOT / "plugins"
SOURCES = {"xwheel": ROOT} | {
    f"xwheel_{name}": PLUGINS / name
    for name in (
        "accounts",
        "alarms",
        "commands",
        "console",
        "devtools",
        "job_versions",
        "jobs_as_code",
        "openapi",
        "reports",
        "run_logs",
        "why",
        "xxl_calls",
    )
}
COMPILED = {"xwheel": ("xwheel/_ring", "xwheel/_timer")}


def faults_of(wheel: Path) -> list[str]:
    """Return what is missing in a wheel, differs in it, or does not belong there."""
    package = wheel.name.partition("-")[0]
    root = SOURCES[package]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", package], cwd=root, capture_output=True, text=True, check=True
    )
    wanted = {name for name in listed.stdout.split("\0") if name and (root / name).is_file()}
    with ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if not name.endswith("/")}
        faults = [f"{name} is missing" for name in sorted(wanted - there)]
        faults += [
            f"{name} differs" for name in sorted(wanted & there) if archive.read(name) != (root / name).read_bytes()
        ]
    compiled = {name for name in there if name.endswith(".so")}
    for start in COMPILED.get(package, ()):
        if not any(name.startswith(f"{start}.") for name in compiled):
            faults.append(f"{start} is not compiled")
    others = {name for name in there - wanted - compiled if ".dist-info/" not in name}
    faults += [f"{name} does not belong there" for name in sorted(others)]
    if not any(name.endswith("/entry_points.txt") for name in there):
        faults.append("there are no entry points")
    return faults


def main(wheels: Sequence[str]) -> int:
    """Return the exit status."""
    faults = [f"{wheel}: {fault}" for wheel in wheels for fault in faults_of(Path(wheel))]
    print("\n".join(faults) or f"{len(wheels)} wheels hold what they must", file=sys.stderr)
    return int(bool(faults) or not wheels)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
