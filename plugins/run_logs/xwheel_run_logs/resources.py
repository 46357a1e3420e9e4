"""The search in a log."""

from __future__ import annotations

import falcon
from xwheel.api.http.body import take_query
from xwheel.api.http.places import Places
from xwheel.api.http.resource import reply
from xwheel.plugin import Operation, PluginDatabase
from xwheel.storage import runs

from xwheel_run_logs.messages import LogMatch, LogMatches, LogSearch
from xwheel_run_logs.reading import LogReader


class LogSearchResource:
    """``/runs/{run_id}/log/search``.

    At most a quarter of the listener's threads search at once, so that slow executors and stores cannot starve the
    rest, and for the logs of one group at most half of these, so that they cannot starve the other groups.

    Args:
        db: The database.
        reader: Reads logs.
        threads: Threads of the listener.
    """

    def __init__(self, db: PluginDatabase, reader: LogReader, *, threads: int) -> None:
        self._db = db
        self._reader = reader
        self._places = Places(max(1, threads // 4), "logs are being read")

    @Operation(
        {200: LogMatches},
        query=LogSearch,
        problems=("not-found", "busy", "executor-unreachable", "executor-refused", "log-store"),
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Return the lines of a log that hold a text; a call goes through 8 MiB at most."""
        query = take_query(req, LogSearch)
        with self._db.read() as conn:
            run = runs.get_run(conn, run_id)
        with self._places.hold(run.group_id):
            found = self._reader.search(run, query.text, query.from_line, query.limit)
        items = [LogMatch(line=match.line, text=match.text) for match in found.found]
        reply(resp, LogMatches(run_id=run.id, items=items, next_line=found.next_line, is_end=found.is_end))
