"""Runs as rows, in the order of the record, so that both ways go by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple
from sqlalchemy import Row

from xwheel.model import Origin, Run, RunState
from xwheel.storage.tables import run

RUN_COLUMNS = [run.c[name] for name in Run.__struct_fields__]
# plain strings: as column names they would be slow keys
_RUN_NAMES = Run.__struct_fields__
_WIDTH = len(_RUN_NAMES)
INSERTED = (*_RUN_NAMES, "open_partition")
"""The columns of a new row."""
_ORIGIN = _RUN_NAMES.index("origin")
_STATE = _RUN_NAMES.index("state")
_KILL = _RUN_NAMES.index("kill_requested")
_ORIGINS = {origin.value: origin for origin in Origin}
_STATES = {state.value: state for state in RunState}


def values_of(item: Run) -> tuple[Any, ...]:
    """Return a run's values for :data:`INSERTED`."""
    values = [*astuple(item), item.partition if item.state is RunState.PLANNED else None]
    values[_ORIGIN] = str(item.origin)
    values[_STATE] = str(item.state)
    return tuple(values)


def run_of(row: Row[Any] | Sequence[Any]) -> Run:
    """Return a run from a row of :data:`RUN_COLUMNS`, which may have further columns behind them."""
    values = list(row[:_WIDTH])
    values[_ORIGIN] = _ORIGINS[values[_ORIGIN]]
    values[_STATE] = _STATES[values[_STATE]]
    values[_KILL] = bool(values[_KILL])
    # by position and from dictionaries: a tenth of the time that keywords and calls of the enums take
    return Run(*values)
