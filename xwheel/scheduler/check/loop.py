"""Ask executors about open runs, close what is lost or past its time limit, and send kills."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from xwheel.model import RegisteredExecutor, RunState
from xwheel.model.reasons import KILLED
from xwheel.scheduler.check import decide
from xwheel.scheduler.check.decide import CheckRules, Decision
from xwheel.scheduler.check.questions import KEYS, Backoff, QuestionKind, Reply, RunQuestion, RunQuestions
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.executors.registry import ExecutorRegistry, name_of
from xwheel.scheduler.finish.finish import Finisher
from xwheel.storage import open_runs, runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.database.rows import chunks
from xwheel.storage.open_runs import Ahead, Holder, OpenRun

logger = logging.getLogger(__name__)

BATCH: Final = 1000
# this many executors are asked for one by one; of thousands that registered hardly any has runs
FEW: Final = 3
FULL: Final = 500
FULL_ROWS: Final = 2000  # open questions, and rows asked about, above which no more rows are looked for
READ_MS: Final = 1000
POLL_MS: Final = 200
SWEEP_MS: Final = 60_000
# how long a send without an answer is left to be sent again before its executor is asked about it
UNANSWERED_MS: Final = 10_000
KILL_WAIT_MS: Final = 2000
SILENT_WAIT_MS: Final = 5000
LONGEST_WAIT_MS: Final = 60_000


@dataclass(eq=False, repr=False)
class CheckLoop:
    """Keeps ``check_ms`` true: no open run of our partitions stays due.

    Rows are claimed before their executor is asked: their next check moves to when the answer must be there. What the
    answer says is written only to rows that were not made due meanwhile, such as by a kill.

    Thread-safety: :meth:`step` belongs to one thread, which also moves the bytes.
    """

    db: Database
    lease: Lease
    registry: ExecutorRegistry
    questions: RunQuestions
    finisher: Finisher
    rules: CheckRules
    _: KW_ONLY
    timeout_ms: int  # time limit of a call

    def __post_init__(self) -> None:
        self._kill_waits = Backoff(KILL_WAIT_MS, LONGEST_WAIT_MS)
        self._silent_waits = Backoff(SILENT_WAIT_MS, LONGEST_WAIT_MS)
        self._hurried: deque[Holder] = deque()
        self._hurried_id = 0
        self._read_at_ms = 0
        self._sweep_at_ms = 0

    def step(self, now_ms: int) -> int:
        """Write answers, look for due rows, ask; return how long to wait in milliseconds."""
        replies = self.questions.poll(POLL_MS, now_ms)
        if replies:
            self._take(replies, now_ms)
        if not self.lease.may_act(self.timeout_ms):
            self.questions.drop()
            return 0 if len(self.questions) else READ_MS
        more = self._hurry(now_ms)
        has_room = len(self.questions) < FULL and len(self.questions.open_ids) < FULL_ROWS
        if has_room and (not len(self.questions) or now_ms >= self._read_at_ms):
            more = self._read_due(now_ms) or more
            self._read_at_ms = now_ms if more else now_ms + READ_MS
        if self.lease.may_act(self.timeout_ms):
            self.questions.start()
        return 0 if more or len(self.questions) else READ_MS

    def _hurry(self, now_ms: int) -> bool:
        """Make runs of executors that left, died or restarted due, one batch; return whether there are more."""
        partitions = list(self.lease.epochs)
        self._hurried.extend(self._holding(self.registry.take_news(), partitions, now_ms))
        if now_ms >= self._sweep_at_ms:
            # what this node did not see happen, such as while it was down
            self._sweep_at_ms = now_ms + SWEEP_MS
            with self.db.read() as conn:
                holders = open_runs.list_holders(conn, partitions, now_ms)
            live = self.registry.by_name(now_ms)
            self._hurried.extend(holder for holder in holders if name_of(holder) not in live)
        if not self._hurried:
            return False
        later, after_id = self._hurried[0], self._hurried_id
        with self.db.read() as conn:
            ids = open_runs.find_later(conn, later, partitions, now_ms, after_id=after_id, limit=BATCH)
        if ids:
            self.db.transaction(lambda conn: self._make_due(conn, ids, now_ms))
            self._hurried_id = ids[-1]  # those before were checked and put off again meanwhile
        if len(ids) < BATCH:
            self._hurried.popleft()
            self._hurried_id = 0
        return True

    def _holding(self, news: Sequence[Holder], partitions: Sequence[int], now_ms: int) -> Sequence[Holder]:
        """Return those executors that have open runs; one question for all, if there are more than a few."""
        if len(news) <= FEW:
            return news
        with self.db.read() as conn:
            holders = open_runs.list_holders(conn, partitions, now_ms)
        held = {(item.group_id, item.instance, "") for item in holders}
        held |= {(item.group_id, "", item.address) for item in holders}
        return [item for item in news if name_of(item) in held]

    def _make_due(self, conn: Connection, ids: Sequence[int], now_ms: int) -> None:
        epochs = self.lease.lock(conn)
        locked = open_runs.lock_checks(conn, ids)
        due = [(run_id, now_ms) for run_id, row in sorted(locked.items()) if row[0] in epochs]
        open_runs.update_checks(conn, due)

    def _read_due(self, now_ms: int) -> bool:
        """Take up one batch of due rows; return whether there are more."""
        asking = self.questions.open_ids
        limit = BATCH + len(asking)
        with self.db.read() as conn:
            found = open_runs.list_due(conn, self.lease.epochs.keys(), now_ms, now_ms - UNANSWERED_MS, limit)
        rows = [row for row in found if row.id not in asking]
        if not rows:
            return False
        settled, asked = self._sort(rows, now_ms)
        claimed_ms = now_ms + self.rules.answer_ms
        moves = {row.id: (row.check_ms, claimed_ms) for group in asked.values() for row in group[1]}
        moves |= {item.row.id: (item.row.check_ms, item.check_ms) for item in settled if not item.outcome}
        claimed = self.db.transaction(lambda conn: self._claim(conn, moves)) if moves else set()
        self._close([item for item in settled if item.outcome])
        for executor, group in asked.values():
            kind = QuestionKind.STATES if executor.kind == "xwheel" else QuestionKind.IDLE
            ours = [row for row in group if row.id in claimed]
            for part in chunks(ours, KEYS if kind is QuestionKind.STATES else BATCH):
                self.questions.put(RunQuestion(kind, executor, part, claimed_ms, now_ms))
        return len(found) >= limit

    def _sort(
        self, rows: Sequence[OpenRun], now_ms: int
    ) -> tuple[list[Decision], dict[tuple[str, int], tuple[RegisteredExecutor, list[OpenRun]]]]:
        """Return what can be decided without asking, and the rows to ask each executor about, many in one question."""
        live = self.registry.by_name(now_ms)
        settled: list[Decision] = []
        asked: dict[tuple[str, int], tuple[RegisteredExecutor, list[OpenRun]]] = {}
        for row in rows:
            holder = Holder(row.group_id, row.address, row.instance)
            executor = live.get(name_of(holder))
            if executor is None:
                missing_ms = self.registry.missing_since(holder, now_ms)
                settled.append(decide.decide_gone(row, missing_ms, now_ms, self.rules))
            elif marked := decide.decide_marked(row, now_ms, self.rules):
                settled.append(marked)
            else:
                key = (executor.address, 0 if row.instance else row.job_id)
                asked.setdefault(key, (executor, []))[1].append(row)
        return settled, asked

    def _claim(self, conn: Connection, moves: Mapping[int, tuple[int, int]]) -> set[int]:
        epochs = self.lease.lock(conn)
        locked = open_runs.lock_checks(conn, moves)
        ours = sorted(
            run_id
            for run_id, (partition, check_ms, _) in locked.items()
            if partition in epochs and check_ms == moves[run_id][0]
        )
        open_runs.update_checks(conn, [(run_id, moves[run_id][1]) for run_id in ours])
        return set(ours)

    def _take(self, replies: Iterable[Reply], now_ms: int) -> None:
        decided: list[tuple[Decision, RunQuestion]] = []
        silent: dict[str, int] = {}  # one try each, however many questions an executor left without an answer
        for reply in replies:
            question = reply.question
            address = question.executor.address
            if reply.error:
                count, first = len(question.rows), question.rows[0].id
                logger.info("%s gave no answer about %d runs, first %d: %s", address, count, first, reply.error)
            if question.kind is QuestionKind.KILL:
                self._note_kill(reply, now_ms)
                continue
            if not reply.error and not reply.missing:
                self._silent_waits.forget(address)
            elif address not in silent:
                silent[address] = self._silent_waits.next_ms(address)
            read = self._states if question.kind is QuestionKind.STATES else self._idle
            wait_ms = silent.get(address, SILENT_WAIT_MS)
            decided.extend((decision, question) for decision in read(reply, now_ms, wait_ms))
        self._close([decision for decision, _ in decided if decision.outcome])
        self._move([pair for pair in decided if not pair[0].outcome], now_ms)
        self._send_kills([pair for pair in decided if pair[0].kill], now_ms)

    def _states(self, reply: Reply, now_ms: int, again_ms: int) -> Iterable[Decision]:
        address = reply.question.executor.address
        is_dead = bool(reply.error) and not reply.reached and self.registry.is_known_dead(address, now_ms)
        for row in reply.question.rows:
            answer = reply.states.get(row.id)
            wait_ms = self._wait_ms(row, again_ms)
            if answer is None and is_dead:
                yield decide.decide_known_dead(row)
            elif answer is None:
                yield decide.decide_silent(row, now_ms, wait_ms, self.rules)
            else:
                yield decide.decide_state(row, answer, now_ms, wait_ms, self.rules)

    def _idle(self, reply: Reply, now_ms: int, again_ms: int) -> Iterable[Decision]:
        idle = None if reply.error else reply.yes
        if reply.reached:
            # older peers know no idle beat: asking them again soon would tell nothing new
            again_ms = self.rules.check_after_ms
        rows = reply.question.rows
        overdue = [row for row in rows if decide.may_be_overdue(row, now_ms, self.rules)]
        ahead: list[Ahead] = []
        if overdue:
            with self.db.read() as conn:
                ahead = open_runs.list_ahead(conn, overdue)
        for row in rows:
            begun_ms, wait_ms = decide.begun_at(row, ahead), self._wait_ms(row, again_ms)
            yield decide.decide_idle(row, idle, begun_ms, now_ms, wait_ms, self.rules)

    def _wait_ms(self, row: OpenRun, otherwise_ms: int) -> int:
        return self._kill_waits.next_ms(row.id) if row.kill_requested else otherwise_ms

    def _close(self, decisions: Sequence[Decision]) -> None:
        """Close runs as everywhere else, which sees what became of them meanwhile."""
        outcomes = [decision.outcome for decision in decisions if decision.outcome]
        if not outcomes:
            return
        for outcome in outcomes:
            self._kill_waits.forget(outcome.run_id)
        self.finisher.finish(outcomes)
        counts: defaultdict[str, list[int]] = defaultdict(list)
        for outcome in outcomes:
            counts[f"{outcome.state} {outcome.reason}".strip()].append(outcome.run_id)
        for what, ids in counts.items():
            logger.info("a check closed %d runs as %s, first %d", len(ids), what, min(ids))

    def _move(self, decided: Sequence[tuple[Decision, RunQuestion]], now_ms: int) -> None:
        if not decided:
            return

        def work(conn: Connection) -> None:
            locked = open_runs.lock_checks(conn, [decision.row.id for decision, _ in decided])
            accepted = [
                decision.row.id
                for decision, _ in decided
                if decision.accepted and locked.get(decision.row.id, (0, 0, None))[2] is RunState.DISPATCHING
            ]
            if accepted:
                taken = runs.AcceptedRow(now_ms, now_ms)
                waiting = runs.update_accepted(conn, dict.fromkeys(accepted, taken), now_ms)
                rows = (decision.row for decision, _ in decided)
                changes.note_accepted(conn, rows, waiting, now_ms)
            looks = [
                (decision.row.id, decision.check_ms, decision.reason, decision.started_ms or decision.row.started_ms)
                for decision, question in sorted(decided, key=lambda pair: pair[0].row.id)
                if locked.get(decision.row.id, (0, None, None))[1] == question.claimed_ms
            ]
            open_runs.update_findings(conn, looks)

        self.db.transaction(work)

    def _send_kills(self, decided: Sequence[tuple[Decision, RunQuestion]], now_ms: int) -> None:
        """Tell executors to end runs: xwheel ones each run, foreign ones the job, once for all its rows."""
        told: set[tuple[str, int]] = set()
        for decision, question in decided:
            row = decision.row
            what = (question.executor.address, row.id if row.instance else -row.job_id)
            if what not in told:
                told.add(what)
                asked = RunQuestion(QuestionKind.KILL, question.executor, [row], question.claimed_ms, now_ms)
                self.questions.put(asked)

    def _note_kill(self, reply: Reply, now_ms: int) -> None:
        """Note that a foreign executor ended all of a job; telling it twice would end newer runs."""
        question = reply.question
        row = question.rows[0]
        what = f"run {row.id}" if row.instance else f"all runs of job {row.job_id}"
        said = reply.error or ("it did" if reply.yes else "it refused")
        logger.info("%s was told to end %s: %s", question.executor.address, what, said)
        if row.instance or not reply.yes:
            return
        holder = Holder(row.group_id, row.address, "")

        def work(conn: Connection) -> None:
            looks = []
            for run_id, dispatched_ms, reason in open_runs.lock_same_job(conn, row.job_id, holder):
                before = dispatched_ms is not None and dispatched_ms <= question.asked_ms
                if before and not reason.startswith(KILLED):
                    looks.append((run_id, now_ms + self.rules.idle_grace_ms, f"{KILLED}:{now_ms}", None))
                elif not before:
                    looks.append((run_id, now_ms, reason, None))
            open_runs.update_findings(conn, looks)

        self.db.transaction(work)
