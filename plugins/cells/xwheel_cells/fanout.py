"""One question to many cells at once, with one deadline: a cell that does not answer is left out and named."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from xwheel_cells.far import FarCell
from xwheel_cells.own import OwnCell
from xwheel_cells.problems import CellError, Missing, own_failure, silent

logger = logging.getLogger(__name__)

T = TypeVar("T")
Cell = OwnCell | FarCell
Question = Callable[[Cell, float], T]
"""Asks a cell until a deadline by the monotonic clock, in seconds; raises CellError."""

GRACE_S: Final = 0.5
"""For what the client says when the time is over, which says more than that it is."""


class FanOut:
    """All cells.

    Args:
        own: This node's cluster.
        far: The others.
        timeout_ms: Within which all must have answered.
    """

    def __init__(self, own: OwnCell, far: Collection[FarCell], timeout_ms: int) -> None:
        self.own = own
        self.cells: dict[str, Cell] = {own.name: own, **{cell.name: cell for cell in far}}
        self._timeout_ms = timeout_ms

    def ask(self, names: Collection[str], question: Question[T]) -> tuple[dict[str, T], list[Missing]]:
        """Ask these cells; return what each answered, and which did not.

        Others are asked on threads of their own, of which each cell has a few, so that a slow one holds up no other.
        This node's cluster is asked on the caller's thread.
        """
        deadline = time.monotonic() + self._timeout_ms / 1000
        chosen = [cell for name, cell in self.cells.items() if name in names]
        futures: dict[str, Future[T]] = {
            cell.name: cell.start(partial(question, cell, deadline)) for cell in chosen if isinstance(cell, FarCell)
        }
        found: dict[str, T] = {}
        missing: list[Missing] = []
        for cell in chosen:
            try:
                future = futures.get(cell.name)
                found[cell.name] = question(cell, deadline) if future is None else self._wait(future, deadline)
            except CellError as error:
                missing.append(Missing(cell=cell.name, code=error.code, reason=str(error)))
        return found, missing

    def _wait(self, future: Future[T], deadline: float) -> T:
        try:
            return future.result(max(0.0, deadline + GRACE_S - time.monotonic()))
        except TimeoutError:
            raise silent(self._timeout_ms) from None
        except CellError:
            raise
        except Exception:
            logger.exception("a cell could not be asked")
            raise own_failure("this node failed to ask it: its log says why") from None
