"""The servers of a URL that lists several: a new connection goes to the one that takes us and may be written to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError

from xwheel.storage.database.errors import Fault, fault_of

logger = logging.getLogger(__name__)

FRESH_S: Final = 1.0
SURVEY_S: Final = 2.0  # for the connection to each server
TIMELINE: Final = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int"

STALE: Final = "a standby was promoted in its place"

Connect = Callable[[Any, dict[str, Any], float], Any]
Place = tuple[str, int]  # name and port of a server


class Identity(NamedTuple):
    """What a server that takes writes says of itself."""

    server: str  # the same under each of its names, and for all members of a Galera cluster
    timeline: int = 0  # of PostgreSQL: a standby that was promoted has a higher one; 0 if that is not known


def choose(taking: Mapping[Place, Identity], newest: int) -> Collection[Place]:
    """Return which of the servers that take writes may be used: none if it cannot be told which one is right.

    ``newest`` is the highest timeline that is known: a server below it was left by a promotion.
    """
    found = {place: identity for place, identity in taking.items() if not 0 < identity.timeline < newest}
    return found.keys() if len({identity.server for identity in found.values()}) <= 1 else ()


class Servers:
    """Tries servers in order, from the one that took the last connection on.

    A server that ends connections is left: the next ones go to the others first, though it may take logins still, as
    a member of a Galera cluster without quorum does.

    Args:
        listed: Name and port of each.
        connect: Opens a connection with the driver's arguments and options within a time in seconds.
        moved: Told when connections go to another server than before.
        end_waits: Ends all that waits for an answer of servers that must not be used any more.
        refusal: Makes the driver's error of a server that is not to be written to.
        identify: Asks a connection what its server is.
    """

    def __init__(
        self,
        listed: Sequence[Place],
        connect: Connect,
        moved: Callable[[], None],
        end_waits: Callable[[Collection[Place]], None],
        refusal: Callable[[str], Exception],
        identify: Callable[[Any], Identity],
    ) -> None:
        self._order = list(listed)  # replaced as a whole: threads read it without a lock
        self._connect, self._refusal, self._identify = connect, refusal, identify
        self._moved, self._end_waits = moved, end_waits
        self._barred: Mapping[Place, str] = {}  # servers that take writes and must not be used, and why
        self._newest = 0  # the highest timeline that was seen
        self._was_split = False
        self._given: tuple[Any, dict[str, Any]] | None = None  # what the last connection was opened with

    def connect(self, arguments: Any, options: dict[str, Any], left_s: float) -> Any:
        """Open a connection within a time in seconds, of which each server gets an equal share.

        Raises the driver's error about one of them, whose ``tried`` says in words what befell each.
        """
        order, self._given = self._order, (arguments, options)
        end_s = time.monotonic() + left_s
        failures: dict[str, Exception] = {}
        for number, (host, port) in enumerate(order):
            share_s = (end_s - time.monotonic()) / (len(order) - number)
            if share_s <= 0 and failures:
                break
            try:
                if why := self._barred.get((host, port)):
                    raise self._refusal(why)
                connection, identity = self._open((host, port), share_s)
                if not choose({(host, port): identity}, self._newest):
                    connection.close()
                    raise self._refusal(STALE)
            except (TypeError, RuntimeError):  # about no server: an option that the driver does not know
                raise
            except Exception as error:
                failures[f"{host}:{port}"] = error
                continue
            self._begin_with(order, number)
            connection.server, connection.opened_s = order[number], time.monotonic()
            return connection
        # the next one begins where this one had no time left
        self._begin_with(order, len(failures) % len(order))
        telling: Any = min(failures.values(), key=_rank)
        telling.tried = failures
        raise telling

    def leave(self, context: ExceptionContext) -> None:
        """Let other servers come first, if a connection to the first one ended."""
        conn, order = context.connection, self._order
        driver = conn.connection.dbapi_connection if context.is_disconnect and conn is not None else None
        if getattr(driver, "server", None) == order[0]:
            self._begin_with(order, 1)

    def check(self, connection: Any, _record: object, _proxy: object) -> None:
        """Refuse a connection that was kept, to a server that others have left: an old primary would answer still."""
        if connection.server in self._barred:
            raise DisconnectionError("another server takes writes, too")
        # one that was just opened counts: while servers come and go there may be no better one
        if connection.server != self._order[0] and time.monotonic() - connection.opened_s > FRESH_S:
            raise DisconnectionError("another server takes our connections now")

    def survey(self) -> bool:
        """Look whether another server takes writes, too, and bar those that must not be used then.

        Returns whether connections may belong to a server that was not barred before; those that wait for one end at
        once. The server in use is asked only if another one takes writes.
        """
        order = self._order
        taking = self._ask(order[1:])
        if taking:
            taking |= self._ask(order[:1])
        allowed = choose(taking, self._newest)
        words = _words(taking)
        barred = dict.fromkeys(taking.keys() - allowed, f"of those that take writes ({words}) it is none to use")
        was_split, self._was_split = self._was_split, bool(barred)
        if barred.keys() == self._barred.keys() or (was_split and not barred):  # one may just have been slow
            return False
        fresh, self._barred = barred.keys() - self._barred.keys(), barred
        if barred:
            right = _words(allowed) or "none, until a person has stopped the wrong ones"
            logger.error(
                "split brain: servers of the database that take writes: %s; in use from now on: %s", words, right
            )
        else:
            logger.warning("no wrong server of the database takes writes any more")
        if fresh:
            self._moved()
            self._end_waits(fresh)
        return bool(fresh)

    def _ask(self, places: Sequence[Place]) -> dict[Place, Identity]:
        """Return what those say of themselves that take writes; who does not answer takes none from us."""
        found: dict[Place, Identity] = {}
        for place in places if self._given else ():
            try:
                connection, found[place] = self._open(place, SURVEY_S)
                connection.close()
            except Exception as error:
                logger.debug("%s:%d is no server that takes writes: %s", *place, error)
        return found

    def _open(self, place: Place, left_s: float) -> tuple[Any, Identity]:
        assert self._given is not None  # noqa: S101 - set before
        arguments, options = self._given
        connection = self._connect(arguments, {**options, "host": place[0], "port": place[1]}, left_s)
        try:
            identity = self._identify(connection)
        except BaseException:
            connection.close()
            raise
        self._newest = max(self._newest, identity.timeline)
        return connection, identity

    def _begin_with(self, order: Sequence[tuple[str, int]], number: int) -> None:
        if number:
            self._order = [*order[number:], *order[:number]]
            self._moved()


def _words(places: Collection[Place]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in places)


def _rank(error: Exception) -> int:
    """Return how little a failure says of all servers: one that may pass before one that a person must mend."""
    fault = fault_of(error)
    return 0 if fault is not None and fault.is_passing else 1 if fault is Fault.READ_ONLY else 2
