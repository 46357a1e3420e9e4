"""A scheduler whose loops are stepped by hand, with a network that is a list."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tests.support.lines import Line, Plug, bodies_of
from tests.support.rows import job_values, make_executor
from xwheel.clock import ManualClock
from xwheel.config import Config, build_config
from xwheel.model import Job, RegisteredExecutor, Run, RunState
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.plugin.discovery import Plugins, load_plugins
from xwheel.plugin.registries import Registry
from xwheel.scheduler.cluster.sqlite_lease import SqliteLease
from xwheel.scheduler.records import Fate, Outcome, Parcel
from xwheel.scheduler.route.choose import Chooser
from xwheel.storage import executors, jobs, leases, runs
from xwheel.storage.database.engine import Database

PLUGINS: list[Plugins] = []


def plugins() -> Plugins:
    """Load the plugins once: they keep no state that tests could see."""
    if not PLUGINS:
        PLUGINS.append(load_plugins(build_config({})))
    return PLUGINS[0]


class HandNode:
    """One node on a manual clock: ``tick`` steps every loop once, parcels pile up in ``sent``.

    Nothing here runs in a thread, but ``types`` that are not ``trusted``. The lanes are the real ones, their HTTP
    client is a list: what they encode lies in ``line.calls``, :meth:`answer` plays the executor, and the lanes read
    what it says.
    """

    def __init__(
        self,
        db: Database,
        clock: ManualClock,
        *,
        types: Sequence[Any] = (),
        trusted: bool = True,
        **settings: dict[str, Any],
    ) -> None:
        self.db = db
        self.clock = clock
        self.config: Config = build_config(settings)
        ours = plugins().schedule_types
        kinds = {**ours, **{item.name: item for item in types}}
        known = Registry("schedule type", kinds, {}, kinds if trusted else ours.trusted)
        installed = self.installed(
            dataclasses.replace(
                plugins(),
                schedule_types=known,
                # they keep what they know of one database
                resources=Registry("set of resources", {}, {}),
                observers=Registry("observer", {}, {}),
            )
        )
        self.line = Line()
        self.plugs = {purpose: Plug() for purpose in ("check", "beats", "addresses", "logs")}
        self.scheduler = Scheduler(
            Core(self.config, db, installed, "x" * 32, clock, transport=lambda purpose, _: self._client(purpose))
        )
        self.sent: list[Parcel] = self.line.sent
        self.in_lane: set[int] = set()
        self._lease_due_ms = 0
        for lane in self.scheduler.sending.lanes.by_number.values():
            lane._sending = self.in_lane
        self.scheduler.core.lease.acquire()
        self.scheduler.core.registry.step(clock.now_ms())
        self.scheduler.core.calendars.step(clock.now_ms())
        self.begin()

    def installed(self, known: Plugins) -> Plugins:
        """Return the plugins with those that a test adds."""
        return known

    def begin(self) -> None:
        """Do what a node does before its first step."""
        self.scheduler.core.observers.step(self.clock.now_ms())

    def _client(self, purpose: str) -> Line | Plug:
        """Return the one line for both lanes; checks and beats have plugs, behind which a test puts a network."""
        return self.line if purpose in ("fast", "slow") else self.plugs[purpose]

    def install_routers(self, *routers: Any, trusted: Collection[str] | None = None) -> None:
        """Let jobs name these routers, too; those that are not trusted, of all if given, work on threads."""
        known = {**self.scheduler.core.plugins.routers, **{item.name: item for item in routers}}
        names = known.keys() if trusted is None else trusted
        routing = self.scheduler.routing
        routing.async_chooser.routers = known
        chooser = Chooser(known, routing.async_chooser, self.scheduler.core.loads, names)
        routing.chooser = routing.due.chooser = chooser

    def group(self, app_name: str = "demo") -> int:
        return self.db.transaction(
            lambda conn: executors.insert_group(conn, app_name=app_name, title=app_name, now_ms=self.clock.now_ms()).id
        )

    def register(self, *addresses: str, app_name: str = "demo", **facts: Any) -> list[RegisteredExecutor]:
        made = [
            make_executor(address, **{"instance": _instance_at(address), "seen_ms": self.clock.now_ms(), **facts})
            for address in addresses
        ]
        for item in made:
            self.scheduler.core.registry.register(app_name, item, self.clock.now_ms())
        return made

    def job(self, *, enabled: bool = True, **changes: Any) -> Job:
        values = job_values(**{"anchor_ms": self.clock.now_ms(), **changes})
        return self.scheduler.management.jobs.create(values, enabled=enabled)

    def plan(self) -> None:
        """Claim until nothing is left, then adopt."""
        while self.scheduler.planning.claim.step(self.clock.now_ms()) == 0:
            pass
        self.adopt()

    def adopt(self) -> None:
        while self.scheduler.planning.adopt.step(self.clock.now_ms()) == 0:
            pass

    def keep_lease(self) -> None:
        """Renew the lease if it is time to."""
        now_ms = self.clock.now_ms()
        if now_ms >= self._lease_due_ms or not self.scheduler.core.lease.may_act():
            self._lease_due_ms = now_ms + self.scheduler.core.lease.step(now_ms)

    def tick(self, by_ms: int = 0) -> None:
        """Let time pass, then fire what is due."""
        now_ms = self.clock.advance(by_ms)
        self.scheduler.planning.tick.step(now_ms)
        for lane in self.scheduler.sending.lanes.by_number.values():
            lane.step(now_ms)

    def run_for(self, duration_ms: int, *, step_ms: int = 100, each: Callable[[], None] | None = None) -> None:
        """Step every loop through a stretch of time."""
        for _ in range(duration_ms // step_ms):
            self.clock.advance(step_ms)
            self.keep_lease()
            self.plan()
            self.tick()
            if each is not None:
                each()

    def answer(self, fate: Fate = Fate.ACCEPTED, message: str = "", *, reached: bool = True) -> list[Run]:
        """Let the executors answer everything that was sent, and write the answers; return the runs.

        Args:
            fate: What they answer; without an answer it is ``UNKNOWN``, or ``REFUSED`` if nothing could be sent.
            message: What they say to it.
            reached: Whether their addresses took the connection.
        """
        answered: list[Run] = []
        while self.sent:
            parcel = self.sent[0]
            answered += [shard.run for shard in parcel.shards]
            if fate is Fate.UNKNOWN or not reached:
                self.reply(error=message or "timed out", sent=reached)
            else:
                not_yet = fate is Fate.NOT_YET
                self.reply(body=bodies_of(parcel, fate is Fate.ACCEPTED, message, not_yet=not_yet))
        self.write_answers()
        return answered

    def reply(self, **result: Any) -> None:
        """Let what was sent first come back, as an :class:`HttpResult` with these fields; nothing is written yet."""
        parcel = self.line.reply(**result)
        self.scheduler.sending.lanes.by_number[parcel.lane].step(self.clock.now_ms())

    def write_answers(self) -> None:
        """Write what came back."""
        while self.scheduler.sending.results.step(self.clock.now_ms()) == 0:
            pass

    def finish(self, items: Sequence[Run], state: RunState = RunState.SUCCEEDED) -> None:
        """Let the executor report outcomes."""
        self.scheduler.finishing.finisher.finish([Outcome(run_id=run.id, state=state, code=200) for run in items])

    def runs(self, job_id: int | None = None) -> list[Run]:
        """All runs, earliest due first."""
        with self.db.read() as conn:
            found = runs.list_runs(conn, job_id=job_id, limit=100_000)
        return sorted(found, key=lambda run: (run.due_ms, run.id))

    def load(self, job_id: int) -> Job:
        with self.db.read() as conn:
            return jobs.get_job(conn, job_id)

    def crash(self) -> None:
        """Forget all memory and let the operating system take the lock, as ``kill -9`` does."""
        lease = self.scheduler.core.lease
        if isinstance(lease, SqliteLease):
            lease._file.release()
        else:
            # as if the term had passed; the database's clock is not ours to move
            self.db.transaction(lambda conn: leases.renew_node(conn, lease.owner, 0, 0))

    def successor(self) -> HandNode:
        """Crash, and return the next node on the same database and clock."""
        self.crash()
        return HandNode(self.db, self.clock)


def _instance_at(address: str) -> str:
    """Return the journal of the executor at an address: one each, the first for the one that most tests have."""
    port = address.rpartition(":")[2]
    return "instance-1" if port == "9001" else f"instance-{port}"
