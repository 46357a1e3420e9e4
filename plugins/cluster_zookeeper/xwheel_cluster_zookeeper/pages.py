"""What the cluster adds to the console: a page with its nodes."""

from __future__ import annotations

from pathlib import Path


class ClusterPages:
    """The files in ``static``."""

    name = "package-cluster"
    folder = str(Path(__file__).parent / "static")
    at_root = False
    module = "cluster.js"
