"""PostgreSQL's driver, whose connections note when their answers must be there."""

from __future__ import annotations

import math
from typing import Any

import psycopg

from xwheel.storage.database.deadline import Watched


class WatchedPsycopg(Watched, psycopg.Connection[Any]):
    """All waits of this driver are one method."""

    def wait(self, *args: Any, **options: Any) -> Any:
        """Wait for what a generator asks, as the driver does, but not beyond the limit."""
        answer = self.answer
        if answer is None:
            return super().wait(*args, **options)
        answer.expect()
        try:
            return super().wait(*args, **options)
        except psycopg.OperationalError as error:
            if answer.is_shut():
                raise psycopg.OperationalError(answer.words()) from error
            raise
        finally:
            answer.until_s = math.inf

    def close(self) -> None:
        """Close it, and end the watch."""
        super().close()
        self.forget()


def connect(arguments: Any, options: dict[str, Any], left_s: float) -> WatchedPsycopg:
    """Open a connection within a time in seconds; the driver takes whole ones, and none below two."""
    given_s = int(float(options.get("connect_timeout") or 0))
    left_s = max(1, math.ceil(left_s))
    limit_s = min(given_s, left_s) if given_s > 0 else left_s
    return WatchedPsycopg.connect(*arguments, **{**options, "connect_timeout": limit_s})
