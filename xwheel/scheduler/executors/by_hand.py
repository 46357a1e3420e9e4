"""Addresses that people entered by hand: asked for a beat, and executors as long as they answer."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

from xwheel.errors import NotFoundError, WireError
from xwheel.model import NO_SECRET, EnteredAddress
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.executors.calls import Answered, ExecutorClient
from xwheel.scheduler.executors.registry import ExecutorRegistry, executor_at
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.storage import executors
from xwheel.storage.database.engine import Database
from xwheel.wire import contract

logger = logging.getLogger(__name__)

READ_MS: Final = 2000
NEXT_MS: Final = 1000  # how soon a step follows while something is entered; else it may rest
ASK_MS: Final = 10_000
POLL_MS: Final = 200
# this many questions in a row without a good answer end an executor; the first one lets others come before it
MISSES: Final = 3
ERROR_LENGTH: Final = 255
SECRET_ENDED: Final = "its secret has ended: name another one of the group's"  # noqa: S105 -- a text

Key = tuple[int, str]


@dataclass(slots=True)
class _State:
    entered: EnteredAddress
    ask_ms: int = 0  # when it is asked next
    is_asked: bool = False  # whether an answer is awaited
    misses: int = 0  # questions in a row without a good answer


@dataclass(eq=False, repr=False)
class AddressChecks:
    """Asks the addresses that people entered for beats, on the node that holds partition 0.

    An address that answers gets an executor's row, which all nodes route to; one that does not answer three times loses
    it, and gets it back with its next answer. An executor that registered itself there is left alone as long as it
    beats. The loop's thread owns everything here; the one wait is for answers, at most this long as a send may take.
    """

    db: Database
    lease: Lease
    calls: ExecutorClient
    registry: ExecutorRegistry
    secrets: ExecutorSecrets

    def __post_init__(self) -> None:
        self._states: dict[Key, _State] = {}
        self._read_ms: int | None = None

    def step(self, now_ms: int) -> int:
        """Read what was entered, ask what is due, take answers; return how long to wait in milliseconds."""
        asked = [state for state in self._states.values() if state.is_asked]
        for answer in self.calls.poll(POLL_MS) if asked else ():
            self._take(answer, now_ms)
        if not (self.lease.may_act() and 0 in self.lease.epochs):
            self._read_ms = None
            if not asked:
                self._states.clear()  # the next holder begins again
            return READ_MS if not asked else 0
        if self._read_ms is None or not self._states or not 0 <= now_ms - self._read_ms < READ_MS:
            self._read()
            self._read_ms = now_ms
        for state in self._states.values():
            if not state.is_asked and not 0 < state.ask_ms - now_ms <= ASK_MS:
                self._ask(state, now_ms)
        if any(state.is_asked for state in self._states.values()):
            return 0
        return NEXT_MS if self._states else READ_MS

    def _read(self) -> None:
        with self.db.read() as conn:
            found = executors.list_addresses(conn)
        before, self._states = self._states, {}
        for entered in found:
            key = (entered.group_id, entered.address)
            state = before.get(key) or _State(entered)
            if state.entered.secret_id != entered.secret_id:  # with another secret it begins again
                state = _State(entered, is_asked=state.is_asked)
            state.entered = entered
            self._states[key] = state
        for group_id, address in self.registry.entered():
            if (group_id, address) not in self._states and self.registry.drop(group_id, address):
                logger.info("executor %s of group %d is not entered any more", address, group_id)

    def _ask(self, state: _State, now_ms: int) -> None:
        entered = state.entered
        state.ask_ms = now_ms + ASK_MS
        if entered.secret_id != NO_SECRET and not self.secrets.is_live(entered.secret_id):
            self._miss(state, SECRET_ENDED, ends=True)
            return
        state.is_asked = True
        key = (entered.group_id, entered.address, entered.secret_id)
        token = self.secrets.value(entered.secret_id)
        self.calls.ask(key, executor_at(entered), contract.BEAT, b"{}", token=token)

    def _take(self, answer: Answered, now_ms: int) -> None:
        assert isinstance(answer.key, tuple)  # noqa: S101 - we put it there
        group_id, address, secret_id = answer.key
        state = self._states.get((group_id, address))
        if state is None:
            return
        state.is_asked = False
        if state.entered.secret_id != secret_id:
            state.ask_ms = now_ms  # asked with what it was called with before: that says nothing
            return
        error = words_of(answer)
        if not error:
            try:
                self.registry.hear(state.entered, now_ms)
            except (NotFoundError, WireError) as refusal:
                error = str(refusal).removeprefix(f"{contract.ADDRESS_FIELD}: ")
        if error:
            if not answer.reached:
                self.registry.suspect(address, now_ms)
            self._miss(state, error)
            return
        if state.misses or state.entered.error:
            logger.info("executor %s of group %d, entered by hand, answers", address, group_id)
        state.misses = 0
        self._note(state, "")

    def _miss(self, state: _State, error: str, *, ends: bool = False) -> None:
        state.misses += 1
        entered = state.entered
        if (ends or state.misses >= MISSES) and self.registry.drop(entered.group_id, entered.address):
            what = "executor %s of group %d, entered by hand, gets no runs any more: %s"
            logger.warning(what, entered.address, entered.group_id, error)
        self._note(state, error)

    def _note(self, state: _State, error: str) -> None:
        text = error.replace("\x00", "")[:ERROR_LENGTH]
        if state.entered.error == text:
            return
        self.db.transaction(lambda conn: executors.update_address_error(conn, state.entered, text))
        state.entered = replace(state.entered, error=text)


def words_of(answer: Answered) -> str:
    """Return why an answer to a beat is no good, or an empty text."""
    if answer.response is None:
        return answer.error or "no answer"
    return "" if answer.response.ok else (answer.response.message or f"code {answer.response.code}")
