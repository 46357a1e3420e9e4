"""Debian's Chromium, which may reach loopback and nothing else, for tests and benchmarks."""

from __future__ import annotations

import os
import shutil
from typing import Final

PLACE: Final = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
QUIET: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--metrics-recording-only",
    "--disable-breakpad",
    "--disable-dev-shm-usage",
    # no test is about a picture that moves, which costs a processor while it is shown
    "--force-prefers-reduced-motion",
    # the one that really closes the door
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


def flags(*more: str) -> list[str]:
    """Return the command line; root has no sandbox."""
    return [*QUIET, *more, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
