"""Executors in Python: the published pyxxl, and our own as the reference."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from tests.interop.peers import ROOT, Peer, Place


def _command(module: str, place: Place) -> Sequence[str]:
    words = [place.admin_url, place.app_name, place.token, str(place.port), str(place.folder)]
    return [sys.executable, "-m", module, *words]


def _peer(name: str, title: str, module: str) -> Peer:
    return Peer(
        name=name,
        title=title,
        build=lambda: None,
        command=partial(_command, module),
        environment={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )


PYXXL = _peer("pyxxl", "pyxxl", "tests.interop.pyxxl_app")
XWHEEL = _peer("xwheel", "xwheel", "tests.interop.xwheel_app")
