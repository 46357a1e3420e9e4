"""PostgreSQL's driver, whose connections note when their answers must be there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

from xwheel.storage.database.deadline import Watched
from xwheel.storage.database.rows import SERVERS
from xwheel.storage.database.servers import TIMELINE, Identity


class WatchedPsycopg(Watched, psycopg.Connection[Any]):
    """All waits of this driver are one method."""

    failure = psycopg.OperationalError

    def wait(self, *args: Any, **options: Any) -> Any:
        """Wait for what a generator asks, as the driver does, but not beyond the limit."""
        return self.awaited(super().wait, *args, **options)

    def ask(self, text: str) -> Sequence[Decimal | None]:
        """Return the only row, of numbers and nulls, of a query without values, in the driver's form."""
        return self.awaited(self._ask, text % ())

    def _ask(self, text: str) -> Sequence[Decimal | None]:
        result = self.pgconn.exec_(text.encode())
        if result.status != ExecStatus.TUPLES_OK:
            if self.closed:  # the server said nothing more
                raise self.failure(result.get_error_message())
            raise psycopg.errors.error_from_result(result)
        cells = [result.get_value(0, place) for place in range(result.nfields)]
        return [None if cell is None else Decimal(cell.decode()) for cell in cells]


def refusal(why: str) -> Exception:
    """Return the error of a server that is not to be written to."""
    return psycopg.errors.ReadOnlySqlTransaction(why)


def identify(connection: WatchedPsycopg) -> Identity:
    """Ask a server that takes writes what it is; not every managed one tells its timeline."""
    before, connection.autocommit = connection.autocommit, True
    identity = connection.execute(SERVERS["postgresql"]).fetchone()
    try:
        timeline = connection.execute(TIMELINE).fetchone()
    except psycopg.DatabaseError:
        timeline = None
    connection.autocommit = before
    return Identity(str(identity), timeline[0] if timeline else 0)


def connect(arguments: Any, options: dict[str, Any], left_s: float) -> WatchedPsycopg:
    """Open a connection within a time in seconds; the driver takes whole ones, and none below two."""
    given_s = int(float(options.get("connect_timeout") or 0))
    left_s = max(1, math.ceil(left_s))
    limit_s = min(given_s, left_s) if given_s > 0 else left_s
    return WatchedPsycopg.connect(*arguments, **{**options, "connect_timeout": limit_s})
