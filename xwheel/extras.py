"""What to say when a library of one of xwheel's extras is not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xwheel.errors import ConfigError, XwheelError


@contextmanager
def extra(name: str, error: Callable[[str], XwheelError] = ConfigError) -> Iterator[None]:
    """Import in this block what only an extra brings.

    A library that is missing is an ``error``, whose text names it, the extra and the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        library = (problem.name or "").partition(".")[0]
        if library in {"", "xwheel"}:
            raise
        raise error(f"needs {library}, which is not installed: pip install 'xwheel[{name}]'") from None
