"""One question to the database for many loops: what is due, and what others changed.

A loop that finds nothing rests for seconds instead of asking again: the pulse asks for all of them at once, and wakes
those that have something to do. While it cannot ask, they ask themselves, as often as they would without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Final, TypeAlias

from xwheel.clock import has_come
from xwheel.scheduler.cluster.contract import Lease
from xwheel.storage import news
from xwheel.storage.database.engine import Database

Step: TypeAlias = Callable[[int], int]

SLOW_MS: Final = 1000  # how often what is not prompt is asked
REST_MS: Final = 5000  # how long a loop rests that the pulse wakes
LONG_REST_MS: Final = 30_000  # the same if no run waits for it
TRUST_MS: Final = 3000  # a pulse that did not ask for longer lets no loop rest


@dataclass(slots=True, eq=False)
class _Watched:
    question: news.Question
    wake: Callable[[], None]
    ahead_ms: int | None  # None if the answer is no time
    answer: int | None = None
    known: int | None = -1  # the answer of which the loop was told

    def tell(self, now_ms: int) -> None:
        """Wake the loop if its time has come, or if the answer is another one; the first one always is."""
        if self.ahead_ms is not None:
            is_news = self.answer is not None and self.answer <= now_ms + self.ahead_ms
        else:
            is_news, self.known = self.known != self.answer, self.answer
        if is_news:
            self.wake()


class Pulse:
    """Asks what is due and what is new, every ``interval_ms``, and wakes loops.

    Thread-safety: :meth:`step` and :meth:`failed` belong to one thread; the rest may be called from any.
    """

    def __init__(self, db: Database, lease: Lease, interval_ms: int) -> None:
        self._db, self._lease, self._interval_ms = db, lease, interval_ms
        self._all: tuple[_Watched, ...] = ()
        self._prompt: tuple[_Watched, ...] = ()
        self._statements: dict[Sequence[_Watched], str] = {}
        self._versions: dict[Sequence[_Watched], int | None] = {}  # of a file, when each was last asked
        self._asked_ms: int | None = None  # this and the next one on the monotonic clock
        self._slow_at_ms = 0

    def watch(
        self, wake: Callable[[], None], *asked: news.Question, ahead_ms: int | None = None, prompt: bool = False
    ) -> None:
        """Call ``wake`` while a question gives a time less than ``ahead_ms`` from now; without that, once it changed.

        That is looked at once a second, and in each step if ``prompt``.
        """
        items = tuple(_Watched(question, wake, ahead_ms) for question in asked)
        self._prompt += items if prompt else ()
        self._all += items

    def rests(
        self,
        step: Step,
        wakeup: Event,
        *asked: news.Question,
        ahead_ms: int | None = None,
        prompt: bool = False,
        least_ms: int = SLOW_MS,
        rest_ms: int = REST_MS,
    ) -> Step:
        """Return a step that rests where ``step`` would wait for ``least_ms`` or more, until a question wakes it."""
        self.watch(wakeup.set, *asked, ahead_ms=ahead_ms, prompt=prompt)

        def resting(now_ms: int) -> int:
            wait_ms = step(now_ms)
            return max(wait_ms, rest_ms) if wait_ms >= least_ms and self.is_awake() else wait_ms

        return resting if asked else step

    def is_awake(self) -> bool:
        """Return whether a loop may rest, since it is woken."""
        asked_ms = self._asked_ms
        return asked_ms is not None and self._lease.clock.monotonic_ms() - asked_ms < TRUST_MS

    def step(self, now_ms: int) -> int:
        """Ask, and wake whom the answers concern; return how long to wait in milliseconds."""
        asked_ms = self._lease.clock.monotonic_ms()
        is_slow = has_come(self._slow_at_ms, asked_ms, SLOW_MS)
        watched = self._all if is_slow else self._prompt
        version = self._db.version()
        if version is None or version != self._versions.get(watched):  # else each answer is what it was
            self._ask(watched)
            self._versions[watched] = version
        self._asked_ms = asked_ms
        if is_slow:
            self._slow_at_ms = asked_ms + SLOW_MS
        for item in watched:
            item.tell(now_ms)
        return self._interval_ms

    def failed(self) -> None:
        """Let the loops ask themselves, since this one could not."""
        before_ms, self._asked_ms = self._asked_ms, None
        for item in self._all if before_ms is not None else ():
            item.wake()

    def _ask(self, watched: Sequence[_Watched]) -> None:
        statement = self._statements.get(watched)
        if statement is None:
            asked, dialect = [item.question for item in watched], self._db.engine.dialect
            statement = self._statements[watched] = news.spell_out(asked, self._lease.owner, dialect)
        with self._db.limited(statement_ms=TRUST_MS):
            row = self._db.ask(statement)
        for item, answer in zip(watched, row, strict=True):
            item.answer = answer
