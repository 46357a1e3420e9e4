"""Who is alive: registrations are written at once, beats stay in memory and are flushed together."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from enum import IntEnum
from operator import attrgetter
from types import MappingProxyType
from typing import NoReturn

from xwheel.clock import has_come
from xwheel.errors import NotFoundError, WireError
from xwheel.model import NO_SECRET, SHARED_SECRET, EnteredAddress, RegisteredExecutor
from xwheel.runtime.repeats import Repeats
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.storage import executors
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.open_runs import Holder
from xwheel.wire.codec import EARLY_GENERATION
from xwheel.wire.contract import ADDRESS_FIELD

logger = logging.getLogger(__name__)

FLUSH_MS = 30_000
REFRESH_MS = 1000
# a registry that was not refreshed for longer, since the database or the node stood still or the clock jumped
# forward, heard no beats either
GAP_MS = 10_000
# this long after a gap executors need to beat again, and nodes to write it: who was live before it counts as live
RETURN_MS = 40_000
SUSPECT_MS = 30_000
SPARED_MS = 10_000  # so long after a failed send no run goes to an executor that can wait for it
DEATH_MS = 30_000  # so long an executor that somebody saw die has to answer about its runs at once
ENTERED_GENERATION = 3  # of the wire, where no one said: all that XXL-JOB has released knows its path
KNOWN_DEPARTURES = 10_000
KNOWN_NEWS = 10_000

# what makes a beat news, once it differs
_identity = attrgetter(
    *("registered_as", "kind", "generation", "instance", "boot", "labels"),
    *("secret_id", "by_hand", "release", "declared"),
)


class Proof(IntEnum):
    """What an executor showed as it registered, from the weakest on."""

    SHARED = 1
    """The token that all share."""

    TOKEN = 2
    """A token of its group, of which the node has the digest alone."""

    SECRET = 3
    """An executor secret of its group."""


@dataclass(eq=False, repr=False)
class ExecutorRegistry:
    """The registry's rows and the beats that came since they were written.

    Thread-safety: every method may be called from any thread; one lock guards the maps and is never held while the
    database is asked.
    """

    db: Database
    secrets: ExecutorSecrets
    _: KW_ONLY
    dead_after_ms: int  # an executor without a beat for this long, plus one flush, is dead
    # called with a group in which an executor became live, once it can be routed to
    on_arrival: Callable[[int], None] = lambda _: None
    on_news: Callable[[], None] = lambda: None  # called when there is something to take
    # raises a WireError for an address that no executor may have
    check_address: Callable[[str], None] = lambda _: None
    shared_addresses: bool = False  # whether an address may be registered in several groups at a time
    # whether :meth:`note_change` is called for what others write; else the rows are read in each step
    is_told: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.limited_groups: frozenset[int] = frozenset()
        # other nodes know only what is written; at least twice before it is too old for them
        self._flush_ms = min(FLUSH_MS, self.dead_after_ms // 3)
        self._lock = threading.Lock()
        self._reader = executors.ExecutorReader()
        self._rows: dict[tuple[int, str], RegisteredExecutor] = {}
        # what was written here since the rows were last asked for; None for what left
        self._recent: dict[tuple[int, str], RegisteredExecutor | None] = {}
        self._beats: dict[tuple[int, str], int] = {}
        self._suspects: dict[str, int] = {}
        self._unreached: dict[str, int] = {}
        self._left: dict[tuple[int, str], tuple[str, str]] = {}  # by group and instance: address and boot
        self._twins = Repeats()
        self._refused = Repeats()
        self._deaths: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._seen_live: dict[tuple[int, str], RegisteredExecutor] | None = None
        self._departures: dict[tuple[int, str, str], int] = {}
        self._news: deque[Holder] = deque(maxlen=KNOWN_NEWS)
        self._flush_at_ms = self._stepped_ms = self._gap_began_ms = 0
        self._has_changed = True
        # since when beats can be taken: the start, or the end of the last gap; before, no one was missing
        self.listens_since_ms = 0

    def register(self, app_name: str, facts: RegisteredExecutor, now_ms: int) -> None:
        """Take a registration or a beat; only news is written to the database at once.

        ``facts`` is what the executor says of itself; group and times are filled in here. Raises NotFoundError without
        such a group, WireError for an address that no executor may have or that one of another group has.
        """
        group_id = self._group_id(app_name)
        facts = replace(facts, group_id=group_id, seen_ms=now_ms)
        key = (group_id, facts.address)
        with self._lock:
            known = self._rows.get(key)
            self._deaths.pop(facts.address, None)
            if known and _identity(known) == _identity(facts) and self._beats_at(key, known, now_ms):
                self._beats[key] = now_ms
                return
        self.check_address(facts.address)
        saved = self.db.transaction(lambda conn: self._save(conn, facts))
        self._flag(app_name, known, saved)
        moved: RegisteredExecutor | None = None
        with self._lock:
            for place, row in list(self._rows.items()) if saved.instance else ():
                if (row.group_id, row.instance) == (group_id, saved.instance):  # where it lived before
                    self._rows.pop(place)
                    self._recent[place] = None
                    moved = row if place != key else moved
            self._rows[key] = self._recent[key] = saved
            self._suspects.pop(facts.address, None)
            self._unreached.pop(facts.address, None)
        logger.info("executor %s of group %s registered (%s)", facts.address, app_name, facts.kind)
        if moved is not None:
            self._flag_move(app_name, moved, saved)
        self.on_arrival(group_id)

    def _beats_at(self, key: tuple[int, str], row: RegisteredExecutor, now_ms: int) -> bool:
        """Return whether an executor beat lately; beats of a long outage of the database are in memory only."""
        return max(row.seen_ms, self._beats.get(key, 0)) > now_ms - self.dead_after_ms

    def _save(self, conn: Connection, facts: RegisteredExecutor) -> RegisteredExecutor:
        # those of other nodes are flushed late
        since_ms = facts.seen_ms - self.dead_after_ms - FLUSH_MS
        shown = (facts.group_id, facts.address, facts.secret_id or SHARED_SECRET)
        if facts.by_hand and not executors.is_entered(conn, *shown):
            raise NotFoundError("address by hand", facts.address)
        group_id = facts.group_id if self.shared_addresses else None  # an address belongs to one group
        if _proves_less(facts) and executors.is_named(conn, facts.address, group_id):
            raise WireError(
                f"{ADDRESS_FIELD}: {facts.address} was entered by hand with an executor secret, and this registration "
                "proves less: register with an executor secret of that group, or have the address taken out of it"
            )
        self._check_proof(conn, facts, since_ms)
        if not self.shared_addresses and executors.taken_elsewhere(
            conn, facts.group_id, [facts.address], since_ms, secret_id=facts.secret_id
        ):
            raise WireError(
                f"{ADDRESS_FIELD}: {facts.address} is registered in another executor group; an executor that changed "
                "its group waits until it is gone there, or set security.shared_addresses"
            )
        return executors.save_executor(conn, facts)

    def _check_proof(self, conn: Connection, facts: RegisteredExecutor, since_ms: int) -> None:
        """Refuse who proves less than the executor that is at the address, or than the group asks for.

        A group with an executor secret takes no new executor with the token that all share. One that was there with it
        before stays at its address, so that executors get the secret one after the other.
        """
        proof = _proof_of(facts)
        if facts.by_hand or proof is Proof.SECRET:
            return
        there = executors.find_executor(conn, facts.group_id, facts.address)
        is_there = there is not None and there.seen_ms >= since_ms and self.secrets.is_live(there.secret_id)
        if there is None or there.by_hand or not is_there:
            there = None
        if there is not None and proof < _proof_of(there):
            self._refuse(facts, "an executor is there that proved more: register as it did, or wait until it is gone")
        was_there = there is not None and there.instance == facts.instance
        if proof is Proof.SHARED and not was_there and self.secrets.has_live(facts.group_id):
            self._refuse(
                facts, "the group has an executor secret: register with that, not with the token that all share"
            )

    def _refuse(self, facts: RegisteredExecutor, why: str) -> NoReturn:
        if count := self._refused.note((facts.group_id, facts.address)):
            text = "registration of %s in group %s refused (%d times): %s"
            logger.warning(text, facts.address, self.app_name(facts.group_id), count, why)
        raise WireError(f"{ADDRESS_FIELD}: {facts.address}: {why}")

    def remove(self, app_name: str, address: str, *, secret_id: int | None = None) -> bool:
        """Take an executor out at once; return whether it was there.

        A caller who proved no more than the token that all share, or a group's digest-only one, takes out nothing that
        proved a secret of its group. ``secret_id`` None is for who need not prove anything. Raises NotFoundError
        without such a group.
        """
        key = (self._group_id(app_name), address)
        with self._lock:
            known = self._rows.get(key)
        if known is not None and known.by_hand:
            logger.info("executor %s of group %s stays: its address was entered by hand", address, app_name)
            return False
        proves_less = secret_id is not None and secret_id <= SHARED_SECRET
        # also what another node took a moment ago: the statement itself compares
        gone = self.db.transaction(lambda conn: executors.delete_executor(conn, *key, proves_less=proves_less))
        if proves_less and not gone:
            if known is not None and not _proves_less(known):
                secret = self.secrets.name(known.secret_id)
                why = f"it registered with secret {secret}, and was to leave with a token that proves less"
                logger.warning("executor %s of group %s stays: %s", address, app_name, why)
            return False
        with self._lock:
            self._take_out(key)
        logger.info("executor %s of group %s left", address, app_name)
        return gone > 0

    def taken_elsewhere(self, conn: Connection, group_id: int, wanted: Mapping[str, int], now_ms: int) -> list[str]:
        """Return the addresses that executors of other groups have, of those that are to be a group's with a secret.

        What is entered stays. One that is added would get nothing, and keep their executors from coming back.
        ``wanted`` has the id of the secret of each address.
        """
        if self.shared_addresses:
            return []
        entered = executors.list_addresses(conn, [group_id])
        known = {item.address for item in entered if item.secret_id > SHARED_SECRET}
        added = {address for address, secret_id in wanted.items() if secret_id > SHARED_SECRET} - known
        return executors.taken_elsewhere(conn, group_id, added, now_ms - self.dead_after_ms - FLUSH_MS)

    def hear(self, entered: EnteredAddress, now_ms: int) -> None:
        """Take the answer of an address that a person entered for a beat; one that registered there beats itself.

        Raises like :meth:`register`, and NotFoundError if the address is not entered with this secret any more.
        """
        key = (entered.group_id, entered.address)
        with self._lock:
            known = self._rows.get(key)
            if known and not known.by_hand and self._beats_at(key, known, now_ms):
                return
        self.register(self.app_name(entered.group_id), executor_at(entered), now_ms)

    def drop(self, group_id: int, address: str) -> bool:
        """Let no run go to an address that was entered by hand, unless it registered; return whether some did."""
        key = (group_id, address)
        with self._lock:
            known = self._rows.get(key)
        if known is None or not known.by_hand:
            return False
        gone = self.db.transaction(lambda conn: executors.delete_executor(conn, *key, by_hand=True))
        with self._lock:
            self._take_out(key)
        return gone > 0

    def follow_entered(self, group_id: int, wanted: Mapping[str, int]) -> None:
        """Call no executor of a group any more that the addresses of the group, as they are now, leave no place for.

        They were just written; other nodes see it when they next read the rows. ``wanted`` has the id of the secret of
        each.
        """
        with self._lock:
            for key, row in list(self._rows.items()):
                secret_id = wanted.get(row.address)
                if row.by_hand:
                    is_out = secret_id != row.secret_id
                else:
                    is_out = secret_id is not None and secret_id > SHARED_SECRET and _proves_less(row)
                if key[0] == group_id and is_out:
                    self._take_out(key)

    def _take_out(self, key: tuple[int, str]) -> None:
        """Know no executor of this group and address any more; the lock is held."""
        self._rows.pop(key, None)
        self._recent[key] = None
        self._beats.pop(key, None)

    def entered(self) -> list[tuple[int, str]]:
        """Return group and address of the executors that are there by hand, live or not."""
        with self._lock:
            return [key for key, row in self._rows.items() if row.by_hand]

    def suspect(self, address: str, now_ms: int, *, reached: bool = False) -> None:
        """Note that a send to this address failed: others come first for a while, until it beats again.

        ``reached`` says that a connection was made, and no clear answer came: what waits in front of an executor takes
        connections for one that is gone. Where there is no other executor, nothing waits for it.
        """
        with self._lock:
            self._suspects[address] = now_ms + SUSPECT_MS
            if not reached:
                self._unreached[address] = now_ms + SUSPECT_MS

    def is_unreached(self, address: str, now_ms: int) -> bool:
        """Return whether no connection to this address could be made lately, and no beat came since."""
        return now_ms < self._unreached.get(address, 0)

    def is_spared(self, address: str, now_ms: int) -> bool:
        """Return whether no connection to this address could be made a moment ago."""
        return now_ms < self._unreached.get(address, 0) - SUSPECT_MS + SPARED_MS

    def note_death(self, address: str, now_ms: int) -> None:
        """Note that somebody saw the executor at this address die: it is asked about its runs at once.

        A beat ends that; until then, one that does not answer has lost its runs.
        """
        self.suspect(address, now_ms)
        with self._lock:
            self._deaths[address] = now_ms + DEATH_MS
            self._news.extend(holder_of(row) for row in self._rows.values() if row.address == address)

    def is_known_dead(self, address: str, now_ms: int) -> bool:
        """Return whether the executor at this address was seen to die, and no beat came since."""
        return now_ms < self._deaths.get(address, 0)

    def live(self, group_id: int, now_ms: int) -> list[RegisteredExecutor]:
        """Return the live executors of a group, suspects last, sorted by address within each part."""
        found = self.all(now_ms, group_id)
        return sorted(found, key=lambda item: (item.suspect_until_ms > now_ms, item.address))

    def is_live(self, group_id: int, address: str, now_ms: int) -> bool:
        """Return whether an address is that of a live executor of a group."""
        return any(executor.address == address for executor in self.live(group_id, now_ms))

    def all(self, now_ms: int, group_id: int | None = None) -> list[RegisteredExecutor]:
        """Return the live executors of all groups, or of one, in no order."""
        with self._lock:
            return [
                replace(
                    row,
                    seen_ms=seen_ms,
                    suspect_until_ms=self._suspects.get(row.address, 0),
                    labels=MappingProxyType(row.labels),  # routers get it, who must not change the row
                )
                for row, seen_ms in self._live_rows(now_ms, group_id)
            ]

    def takes_early(self, group_id: int, now_ms: int) -> bool:
        """Return whether all live executors of a group take runs before they are due; not so if there is none."""
        with self._lock:
            found = {row.generation for row, _ in self._live_rows(now_ms, group_id)}
        return min(found, default=0) >= EARLY_GENERATION

    def _live_rows(self, now_ms: int, group_id: int | None) -> Iterator[tuple[RegisteredExecutor, int]]:
        """Yield rows and when they were last seen, under the lock."""
        oldest_ms = self._heard_until(now_ms) - self.dead_after_ms
        for key, row in self._rows.items():
            if group_id in (None, key[0]):
                seen_ms = max(row.seen_ms, self._beats.get(key, 0))
                if seen_ms >= oldest_ms and self.secrets.is_live(row.secret_id):
                    yield row, seen_ms

    def _heard_until(self, now_ms: int) -> int:
        """Return until when beats could be taken: now, or before the last gap while executors come back from it."""
        if self._stepped_ms and now_ms - self._stepped_ms > GAP_MS:
            return self._stepped_ms
        if self._gap_began_ms and now_ms - self.listens_since_ms < RETURN_MS:
            return self._gap_began_ms
        return now_ms

    def token(self, executor: RegisteredExecutor) -> str:
        """Return what an executor is called with: the secret last proven at its address, or nothing."""
        return self.token_at(executor.group_id, executor.address, executor.secret_id)

    def token_at(self, group_id: int, address: str, otherwise: int | None = NO_SECRET) -> str:
        """Return what an address is called with: the secret last proven there, or another one if none was."""
        row = self._rows.get((group_id, address))  # asked for each send: a look-up needs no lock
        return self.secrets.value(otherwise if row is None else row.secret_id)

    def secret_names(self, executor: RegisteredExecutor) -> tuple[str | None, str | None]:
        """Return the names of the secret that an executor is called with, and of another live one proven there."""
        earlier_id = executor.earlier_secret_id
        if earlier_id is not None and (earlier_id == NO_SECRET or not self.secrets.is_live(earlier_id)):
            earlier_id = None
        current_id = SHARED_SECRET if executor.secret_id is None else executor.secret_id
        return self.secrets.name(current_id), self.secrets.name(earlier_id)

    def _flag(self, app_name: str, before: RegisteredExecutor | None, now: RegisteredExecutor) -> None:
        """Say that an address proved another live secret than before: a rotation, or two who say they live there."""
        if before is None or before.by_hand or now.by_hand:
            return
        if before.secret_id in (None, NO_SECRET, now.secret_id) or not self.secrets.is_live(before.secret_id):
            return
        # a restart with the next secret changes it once; who changes back are two
        is_odd = before.earlier_secret_id == now.secret_id
        both = (self.secrets.name(now.secret_id) or "none", self.secrets.name(before.secret_id))
        what = "executor %s of group %s registered with secret %s, and with %s before, which is live too"
        what += ": two executors with different secrets say that they are there" if is_odd else ""
        logger.log(logging.WARNING if is_odd else logging.INFO, what, now.address, app_name, *both)

    def _flag_move(self, app_name: str, before: RegisteredExecutor, now: RegisteredExecutor) -> None:
        """Say that an executor is at two addresses: a process that moved does not come back to where it was."""
        name = (now.group_id, now.instance)
        left = (before.address, before.boot)
        with self._lock:
            if len(self._left) >= KNOWN_DEPARTURES:
                self._left.clear()
            earlier, self._left[name] = self._left.get(name), left
        if earlier in (left, (now.address, now.boot)) and self._twins.note(name):
            text = (
                "executors %s and %s of group %s have one journal (instance %s), and each beat of one takes the other "
                "out of the group: give each a data_dir of its own, which is no copy"
            )
            logger.warning(text, *sorted((before.address, now.address)), app_name, now.instance)

    def app_name(self, group_id: int) -> str:
        """Return the app name of a group, or an empty text if it is not known yet."""
        return self._names.get(group_id, "")  # asked for each send: a look-up needs no lock

    def by_name(self, now_ms: int) -> dict[tuple[int, str, str], RegisteredExecutor]:
        """Return live executors by what names them for good: see :func:`name_of`.

        One that restarted on another port is there twice for a while: its last beat tells where it lives now.
        """
        return {name_of(holder_of(item)): item for item in sorted(self.all(now_ms), key=attrgetter("seen_ms"))}

    def missing_since(self, holder: Holder, now_ms: int) -> int:
        """Return since when an executor that is not live has been missing: its last beat, or its farewell.

        One that this node never knew has been missing since it was first asked for. Nothing counts of what was before
        the last gap: while a node cannot take beats, no one is missing.
        """
        with self._lock:
            since_ms = max(self._departures.setdefault(name_of(holder), now_ms), self.listens_since_ms)
        return now_ms if now_ms - self._stepped_ms > GAP_MS else since_ms

    def take_news(self) -> list[Holder]:
        """Return executors that left, died, came back or restarted since the last call."""
        with self._lock:
            news = list(self._news)
            self._news.clear()
        return news

    def step(self, now_ms: int) -> int:
        """Flush beats when it is time, sweep the dead, and see what other processes wrote."""
        if has_come(self._flush_at_ms, now_ms, self._flush_ms):
            self.flush(now_ms)
            # not before: a flush that failed is done again at once
            self._flush_at_ms = now_ms + self._flush_ms
            self._has_changed = True
        if self._has_changed or not self.is_told():
            self._has_changed = False  # before the rows are read: what changes meanwhile is read again
            self.look(now_ms)
        if now_ms - self._stepped_ms > GAP_MS:
            self._gap_began_ms, self.listens_since_ms = self._stepped_ms, now_ms
        self._stepped_ms = now_ms
        before = self._seen_live or {}
        self._compare({(item.group_id, item.address): item for item in self.all(now_ms)}, now_ms)
        for group_id in {group_id for group_id, _ in (self._seen_live or {}).keys() - before.keys()}:
            self.on_arrival(group_id)
        if self._news:
            self.on_news()
        return REFRESH_MS

    def note_change(self) -> None:
        """Read the rows with the next step; from any thread."""
        self._has_changed = True

    def look(self, now_ms: int) -> None:
        """See what nodes wrote, and write nothing; enough for a process that hears no executor itself."""
        with self._lock:
            self._recent = {}
        with self.db.read() as conn:
            rows = {(item.group_id, item.address): item for item in self._reader.read(conn)}
            self.secrets.refresh(conn)  # after the rows: each secret that one of them names is known then
            known = executors.list_limits(conn)
        names = {app_name: group_id for group_id, app_name, _ in known}
        self.limited_groups = frozenset(group_id for group_id, _, most in known if most > 0)
        with self._lock:
            # who came or left while the rows were read
            rows |= {key: item for key, item in self._recent.items() if item is not None}
            self._rows = {key: item for key, item in rows.items() if self._recent.get(key, item) is not None}
            self._groups = names
            self._names = {group_id: name for name, group_id in names.items()}
            self._beats = {key: seen_ms for key, seen_ms in self._beats.items() if key in self._rows}
            self._suspects = {address: until for address, until in self._suspects.items() if until > now_ms}
            self._unreached = {address: until for address, until in self._unreached.items() if until > now_ms}
            self._deaths = {address: until for address, until in self._deaths.items() if until > now_ms}

    def _compare(self, live: dict[tuple[int, str], RegisteredExecutor], now_ms: int) -> None:
        oldest_ms = now_ms - self.dead_after_ms
        with self._lock:
            before, self._seen_live = self._seen_live, live
            if before is None:
                return
            there = {name_of(holder_of(item)) for item in live.values()}
            for key, old in before.items():
                new = live.get(key)
                is_gone = name_of(holder_of(old)) not in there
                if is_gone:
                    # a beat this young means that it said farewell
                    left_ms = now_ms if old.seen_ms >= oldest_ms else old.seen_ms
                    self._departures[name_of(holder_of(old))] = left_ms
                # one that moved is news at its new address
                if is_gone if new is None else (new.instance, new.boot) != (old.instance, old.boot):
                    self._news.append(holder_of(old))
            for key, new in live.items():
                self._departures.pop(name_of(holder_of(new)), None)
                if key not in before or before[key].instance != new.instance:
                    self._news.append(holder_of(new))
            for name in list(self._departures)[: max(0, len(self._departures) - KNOWN_DEPARTURES)]:
                del self._departures[name]

    def flush(self, now_ms: int) -> None:
        """Write all beats in one statement and delete executors that are long dead."""
        with self._lock:
            # what another node wrote is newer where this one hears an executor no more; by id, as all nodes lock them
            beats = sorted(
                (row.id, seen_ms)
                for key, seen_ms in self._beats.items()
                if (row := self._rows.get(key)) is not None and seen_ms > row.seen_ms
            )
        oldest_ms = self._heard_until(now_ms) - self.dead_after_ms - FLUSH_MS
        if beats:
            self.db.transaction(lambda conn: executors.update_beats(conn, beats))
        with self._lock:
            has_dead = any(row.seen_ms < oldest_ms for row in self._rows.values())
        if has_dead:
            self.db.transaction(lambda conn: executors.sweep_executors(conn, oldest_ms))

    def _group_id(self, app_name: str) -> int:
        with self._lock:
            known = self._groups.get(app_name)
        if known is not None:
            return known
        with self.db.read() as conn:
            group = executors.find_group(conn, app_name)
        if group is None:
            raise NotFoundError("group", app_name)
        with self._lock:
            self._groups[app_name] = group.id
            self._names[group.id] = app_name
        return group.id


def _proof_of(item: RegisteredExecutor) -> Proof:
    """Return what an executor registered with."""
    if item.secret_id == NO_SECRET:
        return Proof.TOKEN
    return Proof.SHARED if _proves_less(item) else Proof.SECRET


def _proves_less(item: RegisteredExecutor) -> bool:
    """Return whether an executor registered with less than an executor secret of its group."""
    return not item.by_hand and (item.secret_id or SHARED_SECRET) <= SHARED_SECRET


def executor_at(entered: EnteredAddress) -> RegisteredExecutor:
    """Return an address that a person entered as an executor."""
    return RegisteredExecutor(
        id=0,
        group_id=entered.group_id,
        address=entered.address,
        registered_as=entered.address,
        kind="foreign",
        generation=ENTERED_GENERATION,
        instance="",
        boot="",
        seen_ms=0,
        suspect_until_ms=0,
        secret_id=entered.secret_id,
        by_hand=True,
    )


def holder_of(item: RegisteredExecutor) -> Holder:
    """Return an executor as rows of runs name it."""
    return Holder(item.group_id, item.address, item.instance)


def name_of(holder: Holder) -> tuple[int, str, str]:
    """Return what names an executor for good: its instance, or the address of a foreign one."""
    return (holder.group_id, holder.instance, "" if holder.instance else holder.address)
