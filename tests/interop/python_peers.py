"""Executors in Python: the published pyxxl, and our own as the reference."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

from tests.interop.peers import ROOT, Peer, Place
from tests.support.plugin_homes import plugin_home


def _command(module: str, place: Place) -> Sequence[str]:
    words = [place.admin_url, place.app_name, place.token, str(place.port), str(place.folder)]
    return [sys.executable, "-m", module, *words]


def _with_scripts(place: Place) -> Sequence[str]:
    path = f"{ROOT}:{plugin_home('glue_script')}"
    return ["env", f"PYTHONPATH={path}", *_command("tests.interop.xwheel_app", place)]


def _peer(name: str, title: str, command: Callable[[Place], Sequence[str]]) -> Peer:
    return Peer(
        name=name,
        title=title,
        build=lambda: None,
        command=command,
        environment={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )


PYXXL = _peer("pyxxl", "pyxxl", partial(_command, "tests.interop.pyxxl_app"))
XWHEEL = _peer("xwheel", "xwheel", _with_scripts)
