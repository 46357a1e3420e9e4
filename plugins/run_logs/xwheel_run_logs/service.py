"""What this plugin registers: what reads, takes and fetches logs in one process, and what deletes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xwheel import Config, Run
from xwheel.plugin import (
    LogPart,
    LogReceipt,
    LogText,
    Need,
    Of,
    PartHealth,
    Permission,
    PluginSite,
    Reporter,
    ResourceRoute,
)

from xwheel_run_logs import storage
from xwheel_run_logs.expiry import LogExpiry
from xwheel_run_logs.fetch import LogFetcher
from xwheel_run_logs.reading import LogReader
from xwheel_run_logs.resources import LogSearchResource
from xwheel_run_logs.settings import RunLogsSection
from xwheel_run_logs.shipped import ShippedLogs
from xwheel_run_logs.stores import LogStores


class KeptLogs:
    """Reads logs, takes those that are shipped, answers searches, and fetches the others between calls.

    Attributes:
        stores: The log stores; there are none before :meth:`resources`, nor are ``reader`` and ``shipped``.

    Args:
        config: The settings.
    """

    name = "log-fetch"
    due = storage.FETCH
    chapters: Mapping[str, str] = MappingProxyType({})
    stores: LogStores
    reader: LogReader
    shipped: ShippedLogs

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = config.section("run_logs", RunLogsSection)
        self._site: PluginSite
        self._fetcher: LogFetcher | None = None

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return the search.

        Raises:
            ConfigError: The settings name a store that is not there, or whose options do not do.
        """
        config, db = self._config, site.database
        self._site, self._fetcher = site, None
        self.stores = LogStores(site.registered("xwheel_register_log_stores"), self._settings, site.clock)
        self.reader = LogReader(db, self.stores, site.executors.logs)
        self.shipped = ShippedLogs(db, self.stores)
        search = LogSearchResource(db, self.reader, threads=config.api.threads)
        return [ResourceRoute("/runs/{run_id:id}/log/search", search, {"GET": Need(Permission.READ, Of.RUN)})]

    def read_log(self, run: Run, from_line: int) -> LogText:
        """Return a piece of a log."""
        return self.reader.read(run, from_line)

    def tail_log(self, run: Run, lines: int) -> LogText:
        """Return the last lines of a log."""
        return self.reader.tail(run, lines)

    def wants_logs(self) -> bool:
        """Return whether there is a store, so that executors shall ship."""
        return self.stores.chosen is not None

    def take_logs(self, instance: str, parts: Sequence[LogPart], reporter: Reporter) -> Sequence[LogReceipt]:
        """Keep what an executor ships."""
        return self.shipped.take(instance, parts, reporter)

    def health(self) -> Sequence[PartHealth]:
        """Return how the store that is used fares."""
        store = self.stores.chosen
        if store is None:
            return ()
        return [
            PartHealth(
                kind="log store",
                name=store.name,
                ok=not store.failures,
                failures=store.failures,
                hanging=store.hanging(),
                last_answer=store.last_error if store.failures else "",
            )
        ]

    def step(self, now_ms: int) -> int:
        """Fetch; return how long to wait in milliseconds."""
        # rows of a store that was there before are there without one, too
        if self._fetcher is None:
            self._fetcher = LogFetcher(
                self._site.database,
                self._site.partitions,
                self._site.executors.log_questions(),
                self.stores,
                interval_ms=round(self._settings.fetch_interval_s * 1000),
            )
        return self._fetcher.step(now_ms)

    def end(self) -> None:
        """Close the connections to executors."""
        if self._fetcher is not None:
            self._fetcher.close()


class ExpiringLogs:
    """Deletes logs, on a thread of its own: a store may take its time, and questions to executors would end meanwhile.

    Args:
        kept: Where the logs are.
        config: The settings.
    """

    name = "log-expiry"
    chapters: Mapping[str, str] = MappingProxyType({})

    def __init__(self, kept: KeptLogs, config: Config) -> None:
        self._kept = kept
        self._interval_ms = config.upkeep.sweep_interval_s * 1000
        self._site: PluginSite
        self._expiry: LogExpiry | None = None

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return none."""
        self._site, self._expiry = site, None
        return ()

    def step(self, now_ms: int) -> int:
        """Delete a batch if it is time; return how long to wait in milliseconds."""
        if self._expiry is None:
            self._expiry = LogExpiry(
                self._site.database,
                self._site.partitions,
                self._site.clock,
                self._kept.stores,
                interval_ms=self._interval_ms,
            )
        return self._expiry.step(now_ms)

    def end(self) -> None:
        """Keep nothing."""
