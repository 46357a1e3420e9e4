"""What the store adds to the console: a page of packages, and one of what operators do with a job of one."""

from __future__ import annotations

from pathlib import Path


class PackagePages:
    """The files in ``static``."""

    name = "packages"
    folder = str(Path(__file__).parent / "static")
    at_root = False
    module = "packages.js"
