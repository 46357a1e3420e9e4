"""Questions to executors: how they are spelled, how their answers are read, and how many are asked at once."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from xwheel.errors import WireError
from xwheel.model import RegisteredExecutor
from xwheel.scheduler.executors.calls import Answered, ExecutorClient
from xwheel.storage.open_runs import OpenRun
from xwheel.wire import codec, contract
from xwheel.wire.codec import encode_states, read_state_reply
from xwheel.wire.messages import ExecutionState, KillRequest, RunKey, StateAnswer

IN_FLIGHT: Final = 64
PER_ADDRESS: Final = 4
KEYS: Final = 100  # runs of one question: as many outcomes with the longest messages still fit an answer
LINE_MS: Final = 30_000  # how long a question waits for its turn before it counts as not answered
KNOWN_WAITS: Final = 10_000


class QuestionKind(StrEnum):
    """What is asked of an executor."""

    STATES = "states"
    IDLE = "idle"
    KILL = "kill"


@dataclass(frozen=True, slots=True, eq=False)
class RunQuestion:
    """One call about rows of one executor; an idle beat or a foreign kill is about one job."""

    kind: QuestionKind
    executor: RegisteredExecutor
    rows: Sequence[OpenRun]
    claimed_ms: int  # the ``check_ms`` that the rows have while the question is open
    asked_ms: int  # when it was put


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    question: RunQuestion
    error: str = ""  # empty if the answer could be used
    reached: bool = False  # whether the executor answered at all
    # what the journal says, by run id; only of runs that were asked about
    states: Mapping[int, StateAnswer] = field(default_factory=dict)
    yes: bool = False  # for an idle beat: it has nothing of the job. For a kill: it did

    @property
    def missing(self) -> bool:
        """Whether some run was left out of the answer."""
        return self.question.kind is QuestionKind.STATES and len(self.states) < len(self.question.rows)


class RunQuestions:
    """Puts questions, a bounded number at once, and few to one address.

    An executor that does not answer costs one time limit and not one for each question: the others that wait for it
    come back unanswered at once.
    """

    def __init__(self, calls: ExecutorClient) -> None:
        self.calls = calls
        # runs that are asked about now; asking twice would answer neither question in time
        self.open_ids: set[int] = set()
        self._waiting: deque[RunQuestion] = deque()
        self._asked: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting) + self._asked.total()

    def put(self, question: RunQuestion) -> None:
        """Let a question wait for its turn; kills go first."""
        if question.kind is QuestionKind.KILL:
            self._waiting.appendleft(question)
        else:
            self.open_ids.update(row.id for row in question.rows)
            self._waiting.append(question)

    def start(self) -> None:
        """Ask as many as may be asked now."""
        held: list[RunQuestion] = []
        while self._waiting and self._asked.total() < IN_FLIGHT:
            question = self._waiting.popleft()
            address = question.executor.address
            if self._asked[address] >= PER_ADDRESS:
                held.append(question)
                continue
            self._asked[address] += 1
            self.calls.ask(question, question.executor, *encode_question(question))
        self._waiting.extendleft(reversed(held))

    def poll(self, timeout_ms: int, now_ms: int) -> list[Reply]:
        """Wait for answers at most this long, and return what came and what waited too long for its turn."""
        replies: list[Reply] = []
        while self._waiting and now_ms - min(self._waiting[0].asked_ms, now_ms) > LINE_MS:
            replies.append(Reply(self._waiting.popleft(), "no turn in time"))
        for answer in self.calls.poll(timeout_ms) if self._asked.total() else ():
            question = answer.key
            assert isinstance(question, RunQuestion)  # noqa: S101 - we put it there
            address = question.executor.address
            self._asked -= Counter((address,))  # which forgets those with none left
            reply = read_reply(question, answer)
            replies.append(reply)
            if not reply.reached:
                replies += [Reply(one, reply.error) for one in self._waiting if one.executor.address == address]
                self._waiting = deque(one for one in self._waiting if one.executor.address != address)
        for reply in replies:
            if reply.question.kind is not QuestionKind.KILL:
                self.open_ids.difference_update(row.id for row in reply.question.rows)
        return replies

    def drop(self) -> None:
        """Forget what waits for its turn; the rows stay due."""
        for question in self._waiting:
            self.open_ids.difference_update(row.id for row in question.rows)
        self._waiting.clear()


class Backoff:
    """How long to wait before the next try of something: doubles each time up to a limit.

    What was tried longest ago is forgotten first once 10,000 things are known.
    """

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._tries: OrderedDict[Hashable, int] = OrderedDict()

    def next_ms(self, key: Hashable) -> int:
        """Count a try and return the wait after it."""
        tries = self._tries.pop(key, 0)
        self._tries[key] = tries + 1
        if len(self._tries) > KNOWN_WAITS:
            self._tries.popitem(last=False)
        return int(min(self._first_ms << min(tries, 20), self._longest_ms))

    def forget(self, key: Hashable) -> None:
        """Begin again at the next try."""
        self._tries.pop(key, None)


def encode_question(question: RunQuestion) -> tuple[str, bytes]:
    """Return the path and the body of a question."""
    first = question.rows[0]
    if question.kind is QuestionKind.STATES:
        keys = [RunKey(row.id, row.job_id, row.created_ms) for row in question.rows]
        return contract.RUN_STATE, encode_states(question.executor.instance, keys)
    if question.kind is QuestionKind.IDLE:
        return contract.IDLE_BEAT, codec.encode_idle_beat(first.job_id)
    run_id = first.id if question.executor.kind == "xwheel" else 0
    return contract.KILL, codec.encode_kill(KillRequest(job_id=first.job_id, run_id=run_id))


def read_reply(question: RunQuestion, answer: Answered) -> Reply:
    """Read an answer; what cannot be used is an error, and answers about other runs are left out."""
    response = answer.response
    if response is None:
        return Reply(question, answer.error, answer.reached)
    try:
        if question.kind is not QuestionKind.STATES:
            return Reply(question, reached=True, yes=response.ok)
        if not response.ok:
            raise WireError(response.message or f"code {response.code}")
        reply = read_state_reply(response.data)
        if reply.instance != question.executor.instance:
            raise WireError(f"executor instance {reply.instance} answered")
    except WireError as error:
        return Reply(question, str(error), reached=True)
    wanted = {row.id for row in question.rows}
    states = {
        answer.run_id: answer
        for answer in reply.answers
        if answer.run_id in wanted and (answer.outcome or answer.state is not ExecutionState.FINISHED)
    }
    return Reply(question, "", True, states, True)
