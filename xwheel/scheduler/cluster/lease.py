"""Share the partitions with other nodes: renew, take what is free, hand over what is too much."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from xwheel.scheduler.cluster.balance import Moves, decide_moves
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.cluster.node_locks import NodeLocks
from xwheel.storage import leases
from xwheel.storage.database.engine import Connection
from xwheel.storage.database.rows import database_now_ms, server_of
from xwheel.storage.leases import LeaseRow, NodeRow

logger = logging.getLogger(__name__)

FORGET_TERMS: Final = 60
READ_MS: Final = 500  # how often a node that has its share reads who lives and who holds what
LONE_READ_MS: Final = 30_000  # the same for a node without others, which is told when one joins
# how often one does that waits for its share, or sees a free partition that is another's
SHORT_READ_MS: Final = 200
# how long a free partition is left to the node whose share it is, which may be dead and not known to be
FREE_MS: Final = 600
GIVEN_AT_ONCE: Final = 8
GIVE_PAUSE_MS: Final = 20
# how long a partition may be fenced by no node because its leases cannot be locked; then its holder goes on
GIVE_LIMIT_MS: Final = 500
GIVE_REST_MS: Final = 1000  # how long after that it tries again
MOST_RENEWALS: Final = 10_000  # their times are kept: they say what a failover of the database may have lost


class _Seen(NamedTuple):
    """Since when, on our monotonic clock, another node's renewal counter shows this number."""

    renewal: int  # the number
    since_ms: int  # when it had been read for the first time: it was written before
    moved: bool  # the counter was seen to move, so ``since_ms`` is at most one reading late


class _Peers(NamedTuple):
    live: set[str]  # who lives, this node included
    draining: set[str]  # those of them that are about to leave
    prompt: set[str]  # those of them that renewed lately enough to be handed something
    dead: dict[str, int]  # renewal counter of the others


@dataclass(eq=False, repr=False)
class ClusterLease(Lease):
    """The partitions of one node among several, on database time.

    A node acts only while its lease outlasts the work, counted on its monotonic clock from when the renewal was sent.
    The renewal is a transaction of its own that touches the own row only; taking and giving come after it and step
    aside for every lock, so that no frozen session of another node ends this one's lease.

    Who has too much hands partitions to a named node, a few at a time: they leave :attr:`epochs` first, so that the
    stages of this node lock them no more, and change hands under a new epoch as soon as no transaction holds them.
    A lease that ran out before it was renewed is lost, even if no other took it: its partitions get new epochs before
    this node acts again. What a former holder planned is found by its older epoch and adopted again. The same is done
    when the database is another server than before, which may lack commits, or knows fewer renewals than it confirmed.

    Thread-safety: :attr:`epochs` is replaced, never changed; :meth:`step` belongs to one thread.
    """

    _: KW_ONLY
    # called when partitions came, so that rows wait that memory does not know; and whether some of them came back
    # that were almost given away, so that memory may have let go of rows it held
    on_change: Callable[[bool], None] = lambda _: None
    # called when the database may have lost commits, before this node acts again; and what the monotonic clock said
    # when the first of them were made
    on_loss: Callable[[int], None] = lambda _: None
    server_of: Callable[[Connection], str] = server_of  # which server the database is
    locks: NodeLocks | None = None  # which nodes of this machine have ended; None knows of none
    shared_now: Callable[[Connection], int] = database_now_ms  # the database's time
    # whether :meth:`note_nodes` is called when another joins; else a node that is alone asks as often as others
    is_told: Callable[[], bool] = lambda: False
    wake: Callable[[], None] = lambda: None  # ends the wait before the next step

    def __post_init__(self) -> None:
        self._leaving: dict[int, str] = {}
        self._leaving_since_ms = self._kept_until_ms = 0
        self._mine: Mapping[int, int] = {}
        self._stale: dict[int, int] = {}
        self._free: dict[int, int] = {}
        self._lapsed_ms = self._stood_in_ms = 0
        self._seen: dict[str, _Seen] = {}
        self._ended: set[str] = set()
        self._renewed_ms = self._renew_at_ms = self._forget_at_ms = self._rests_until_ms = 0
        self._is_lapsed = self._is_draining = self._was_draining = self._is_last = False
        self._lost_since_ms: int | None = None
        self._renewals = 0  # confirmed ones
        # the last of them: number, and when it was sent
        self._sent: deque[tuple[int, int]] = deque(maxlen=MOST_RENEWALS)
        self._server = ""

    def acquire(self) -> None:
        """Join: make this node known and take what is free; raises LockError if the lease table is damaged."""
        if self.locks is not None:
            self.locks.hold(self.owner)
        self.step(self.clock.now_ms())

    def step(self, now_ms: int) -> int:
        """Renew if it is time, then take and give; return how long to wait in milliseconds."""
        del now_ms  # the database's time counts here
        has_news = self._halts != self._halts_renewed or self._is_draining != self._was_draining
        is_time = self.clock.monotonic_ms() >= self._renew_at_ms
        if has_news or is_time:
            with self.db.limited(deadline_ms=self.renew_ms):
                self._renew()
        if self._lost_since_ms is not None:
            self.on_loss(self._lost_since_ms)
            self._lost_since_ms = None
        rests = self.is_told() and not self._is_lapsed and self.clock.monotonic_ms() < self._rests_until_ms
        if is_time and not has_news and rests:
            return self.renew_ms  # it came for the renewal alone
        with self.db.limited(deadline_ms=self.renew_ms):
            wait_ms = self._balance()
        return max(1, min(wait_ms, self._renew_at_ms - self.clock.monotonic_ms()))

    def lock(self, conn: Connection) -> Mapping[int, int]:
        """Hold our lease rows; return partition to epoch as the database has them, without those we hand over."""
        ours = self._epochs
        held = leases.lock_leases(conn, self.owner, ours)
        return {part: epoch for part, epoch in held.items() if ours.get(part) == epoch}

    def may_send(self, fenced_ms: int, margin_ms: int) -> bool:
        """Return whether what was fenced at this time may be sent still.

        What was fenced under a lease that has run out since may be somebody else's, though this node has one again.
        """
        return fenced_ms >= self._lapsed_ms and self.may_act(margin_ms)

    def note_nodes(self) -> None:
        """Let a step read at once which nodes live and what they hold; from any thread."""
        self._rests_until_ms = 0
        self.wake()

    def drain(self) -> None:
        """Let the next steps hand everything to the other nodes; from any thread."""
        self._is_draining = True

    def is_drained(self) -> bool:
        """Return whether nothing is left that another node could take over."""
        return self._is_last or (self._was_draining and not self._mine)

    def release(self) -> None:
        """Give everything back, so that the next holder need not wait for the lease to end."""
        self._valid_until_ms = 0
        self._epochs = {}
        self.db.transaction(self._leave)
        self._renewals = 0
        if self.locks is not None:
            self.locks.release()

    def disown(self) -> None:
        """Act no more, as one whose start failed or in a forked child: other nodes see that this one has ended."""
        self._valid_until_ms = 0
        if self.locks is not None:
            self.locks.leave()

    def _renew(self) -> None:
        """Write that this node lives; what it held under a lease that ran out it may not use before it is retaken."""
        halts = self._halts
        sent_ms = self.clock.monotonic_ms()
        is_draining = self._is_draining

        def work(conn: Connection) -> tuple[int, str]:
            shared_ms = self.shared_now(conn)
            until_ms = shared_ms + self.lease_ms
            renewals = leases.renew_node(conn, self.owner, shared_ms, until_ms, draining=is_draining)
            return renewals, self.server_of(conn)

        known, server, before_ms = self._renewals, self._server, self._renewed_ms
        self._renewals, self._server = self.db.transaction(work)
        self._renewed_ms = sent_ms
        self._renew_at_ms = sent_ms + self.renew_ms
        late_ms = self.clock.monotonic_ms() - self._valid_until_ms
        self._was_draining = is_draining
        if self._may_lack_commits(known, server, before_ms):
            since_ms = self._known_until_ms(before_ms)
            self._sent.clear()
            self._lost_since_ms = min(since_ms, self._lost_since_ms or since_ms)
            self._valid_until_ms = late_ms = 0
        elif late_ms >= 0 and self._mine:
            text = "node %s could not renew its lease, which ended %d ms ago: it takes %d partitions again"
            logger.warning(text, self.owner, late_ms, len(self._mine))
        self._sent.append((self._renewals, sent_ms))
        if late_ms >= 0:
            self._is_lapsed = True
            self._lapsed_ms = self.clock.now_ms() - late_ms
            self._mine, self._epochs, self._leaving = {}, {}, {}
        # the shared time may have gone back since
        self._lapsed_ms = min(self._lapsed_ms, self.clock.now_ms())
        if not self._is_lapsed:
            self._valid_until_ms = sent_ms + self.lease_ms
        self._halts_renewed = halts

    def _known_until_ms(self, before_ms: int) -> int:
        """Return until when the database certainly has what was committed: when the renewal before its last was sent.

        Renewals may come late, so that their number does not say how much time they took.
        """
        older = [at_ms for number, at_ms in self._sent if number < self._renewals - 1]
        first_ms = self._sent[0][1] if self._sent else before_ms
        return older[-1] if older else first_ms - self.renew_ms

    def _may_lack_commits(self, known: int, server: str, before_ms: int) -> bool:
        """Return whether the database is another server than at the last renewal, or has fewer than it confirmed."""
        has_moved = bool(server) and server != self._server
        # a row that others deleted begins again with 1
        if self._renewals <= known and (has_moved or self._renewals > 1):
            text = (
                "the database lost commits, as a failover without synchronous replication does: it knows %d renewals of"
                " node %s where %d were confirmed. Runs of the last %d s before it was away are in doubt: it does not"
                " know of some, and may start others again"
            )
            doubt_ms = before_ms - self._known_until_ms(before_ms)
            # the database counts this renewal as well
            logger.error(text, self._renewals - 1, self.owner, known, doubt_ms // 1000 + 1)
            return True
        if has_moved:
            logger.info("the database is another server now, or was started: node %s takes new epochs", self.owner)
        return has_moved

    def _balance(self) -> int:
        """Read which nodes live and what they hold, take and give; return how soon to do so again."""
        read_ms = self.clock.monotonic_ms()
        self._rests_until_ms = read_ms + LONE_READ_MS  # before it reads: what is noted meanwhile ends it
        with self.db.read() as conn:
            shared_ms = self.shared_now(conn)
            nodes = leases.list_nodes(conn)
            rows = leases.list_leases(conn)
        others = [row for row in nodes if row.id != self.owner]
        # a counter that is new here may have moved just before its row was read, however long ago we asked
        seen_ms = self.clock.monotonic_ms()
        self._seen = {row.id: self._look_at(row, seen_ms) for row in others}
        peers = self._judge(others, shared_ms, read_ms)
        self._is_last = peers.live == peers.draining
        mine = {row.partition: row.epoch for row in rows if row.owner == self.owner}
        # what it was given meanwhile too, which it does not know yet: another may be about to take that
        stale = mine if self._is_lapsed else self._stale
        self._stale = {part: epoch for part, epoch in stale.items() if mine.get(part) == epoch}
        owners = {row.partition: row.owner if row.owner in peers.live else None for row in rows}
        moves = decide_moves(owners, peers.live, self.owner, peers.draining)
        moves = moves._replace(take=[*moves.take, *self._left_over(owners, moves.take, read_ms)])
        mine |= self._take(rows, moves, peers)
        for part in self._give(moves, mine, peers, read_ms):
            del mine[part]
        self._note(mine)
        self._forget(nodes, shared_ms, read_ms)
        is_busy = self._leaving or self._stale or (self._is_draining and mine and not self._is_last)
        wait_ms = GIVE_PAUSE_MS if is_busy else SHORT_READ_MS if moves.is_short or self._free else READ_MS
        if wait_ms == READ_MS and not others and self.is_told():
            return LONE_READ_MS
        self._rests_until_ms = 0
        return wait_ms

    def _left_over(self, owners: Mapping[int, str | None], ours: Collection[int], read_ms: int) -> Sequence[int]:
        """Return the free partitions that are others' shares and that these have not taken for a while."""
        if self._is_draining:
            self._free = {}
            return ()
        free = [part for part, owner in owners.items() if owner is None and part not in ours]
        self._free = {part: self._free.get(part, read_ms) for part in free}
        over = [part for part, since_ms in self._free.items() if read_ms - since_ms >= FREE_MS]
        if over:
            self._stood_in_ms = read_ms
            self._free |= dict.fromkeys(over, read_ms)  # what is locked is tried again after as long
        return over

    def _judge(self, others: Sequence[NodeRow], shared_ms: int, read_ms: int) -> _Peers:
        """Return who lives.

        A node whose counter stood still for a whole term of our own clock is dead, and one that was seen to renew
        within it lives, whatever the database's clock says, which decides only about nodes never seen to renew. Those
        of this machine that have ended are dead at once.
        """
        if self.locks is not None:
            unknown = {row.id for row in others} - self._ended
            self._ended |= {name for name in unknown if self.locks.has_ended(name)}
            self._ended &= self._seen.keys()
        peers = _Peers({self.owner}, {self.owner} if self._is_draining else set(), set(), {})
        for row in others:
            seen = self._seen[row.id]
            still_ms = read_ms - seen.since_ms
            is_live = still_ms < self.lease_ms and (seen.moved or row.until_ms > shared_ms)
            if not is_live or row.id in self._ended:
                peers.dead[row.id] = row.renewal
                continue
            peers.live.add(row.id)
            if row.draining:
                peers.draining.add(row.id)
            last_ms = still_ms if seen.moved else self.lease_ms - (row.until_ms - shared_ms)
            # one that left us its share is given nothing before it renews
            if last_ms < 2 * self.renew_ms and seen.since_ms >= self._stood_in_ms:
                peers.prompt.add(row.id)
        return peers

    def _look_at(self, row: NodeRow, seen_ms: int) -> _Seen:
        seen = self._seen.get(row.id)
        if seen is None:
            return _Seen(row.renewal, seen_ms, moved=False)
        return seen if seen.renewal == row.renewal else _Seen(row.renewal, seen_ms, moved=True)

    def _take(self, rows: Sequence[LeaseRow], moves: Moves, peers: _Peers) -> dict[int, int]:
        """Take our share of what is free, and again what we held under a lease that ran out."""
        holders = {row.partition: row.owner for row in rows}
        wanted = {part: holders[part] for part in moves.take}
        wanted |= dict.fromkeys(self._stale, self.owner)
        taken: dict[int, int] = {}
        if wanted:
            dead = {name: peers.dead[name] for name in wanted.values() if name in peers.dead}
            taken = self.db.transaction(lambda conn: leases.take_leases(conn, self.owner, wanted, dead))
            self._stale = {part: epoch for part, epoch in self._stale.items() if part not in taken}
        if self._is_lapsed:
            self._is_lapsed = False
            self._valid_until_ms = self._renewed_ms + self.lease_ms
        return taken

    def _give(self, moves: Moves, mine: Mapping[int, int], peers: _Peers, read_ms: int) -> Collection[int]:
        """Hand over what is too much, a few at a time; return what changed hands."""
        if not self._leaving and read_ms >= self._kept_until_ms:
            prompt = [part for part, taker in moves.give.items() if taker in peers.prompt]
            usable = [part for part in prompt if part in self._epochs]
            self._leaving = {part: moves.give[part] for part in usable[:GIVEN_AT_ONCE]}
            self._leaving_since_ms = read_ms
        going = self._leaving.items()
        self._leaving = {part: name for part, name in going if part in mine and name in peers.live}
        if not self._leaving:
            return ()
        # from here on our stages lock them no more
        self._epochs = {part: epoch for part, epoch in self._epochs.items() if part not in self._leaving}
        given = self.db.transaction(lambda conn: leases.give_leases(conn, self.owner, self._leaving, mine))
        self._leaving = {part: name for part, name in self._leaving.items() if part not in given}
        if self._leaving and self.clock.monotonic_ms() - self._leaving_since_ms >= GIVE_LIMIT_MS:
            text = "%d partitions stay for now: other transactions held their leases for %d ms"
            logger.info(text, len(self._leaving), GIVE_LIMIT_MS)
            self._leaving = {}
            self._kept_until_ms = self.clock.monotonic_ms() + GIVE_REST_MS
        return given

    def _note(self, mine: Mapping[int, int]) -> None:
        before, known = self._epochs, self._mine
        gone = self._leaving.keys() | self._stale.keys()
        ready = {part: epoch for part, epoch in mine.items() if part not in gone}
        self._mine, self._epochs = dict(mine), ready
        came = ready.keys() - before.keys()
        if came or len(before) != len(ready):
            went = before.keys() - ready.keys()
            text = "node %s holds %d partitions: %d came, %d went"
            logger.info(text, self.owner, len(ready), len(came), len(went))
        fresh = {part: epoch for part, epoch in ready.items() if before.get(part) != epoch}
        if fresh:
            self.on_change(any(known.get(part) == epoch for part, epoch in fresh.items()))

    def _forget(self, nodes: Sequence[NodeRow], shared_ms: int, read_ms: int) -> None:
        if read_ms < self._forget_at_ms:
            return
        self._forget_at_ms = read_ms + FORGET_TERMS * self.lease_ms // 10
        before_ms = shared_ms - FORGET_TERMS * self.lease_ms
        old = {row.id: row.renewal for row in nodes if row.until_ms < before_ms and row.id != self.owner}
        if old:
            self.db.transaction(lambda conn: leases.forget_nodes(conn, old))
        if self.locks is not None:
            self.locks.sweep({row.id for row in nodes})
