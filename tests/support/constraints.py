"""Write down which versions environments have: ``python -m tests.support.constraints ENVIRONMENT...``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from tests.support.paths import ROOT

FILE = ROOT / "tests" / "constraints.txt"
HEAD = "# what 'make' installs; 'make constraints' writes the newest versions here\n"


def versions(environments: Iterable[Path]) -> dict[str, str]:
    """Return the version of each distribution in some environments, but for ours and pip."""
    places = [str(place) for found in environments for place in found.glob("lib/python*/site-packages")]
    known = {
        re.sub("[-_.]+", "-", one.metadata["Name"]).lower(): one.version for one in metadata.distributions(path=places)
    }
    return {name: version for name, version in sorted(known.items()) if name != "pip" and not name.startswith("xwheel")}


if __name__ == "__main__":
    FILE.write_text(
        HEAD + "".join(f"{name}=={version}\n" for name, version in versions(map(Path, sys.argv[1:])).items())
    )
