"""A handler that does nothing, so that the pipeline is what gets measured."""

from __future__ import annotations

from xwheel.executor import job


@job("nothing", parallel=64)
def nothing() -> None:
    """Do nothing."""
