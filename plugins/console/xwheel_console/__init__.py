"""The web console: a single page that speaks the management API and nothing else.

Its files are served as they are, without a build; ``static/vendor`` holds the libraries that they use, built once by
``vendor/build.mjs``. ``manifest`` tells the page which plugins add to it, and ``live`` what changed a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from xwheel.plugin import Pages, Resources, hookimpl


class Console:
    """The files of the console, served at ``/``."""

    name = "console"
    folder = str(Path(__file__).parent / "static")
    at_root = True
    module = ""


@hookimpl
def xwheel_register_pages() -> Iterable[Pages]:
    """Return the console."""
    return [Console()]


@hookimpl
def xwheel_register_resources() -> Iterable[Resources]:
    """Return what only the page asks for; executors load nothing of it."""
    from xwheel_console.live.resources import LiveNews
    from xwheel_console.manifest import ConsoleResources

    return [LiveNews(), ConsoleResources()]
