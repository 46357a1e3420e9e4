"""PostgreSQL's driver, whose connections note when their answers must be there."""

from __future__ import annotations

import math
from typing import Any

import psycopg

from xwheel.storage.deadline import Waits


class WatchedConnection(Waits, psycopg.Connection[Any]):
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
