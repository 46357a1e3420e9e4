"""Runs that were sent before they are due: executors are asked to give them back."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final, cast

from xwheel.clock import Clock
from xwheel.errors import WireError
from xwheel.model import Run
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.storage.open_runs import Holder
from xwheel.wire import codec, contract
from xwheel.wire.http import post
from xwheel.wire.http.networks import ExecutorNetworks
from xwheel.wire.http.tls import NO_FILES, TlsFiles
from xwheel.wire.messages import RunKey

logger = logging.getLogger(__name__)

MOST: Final = 5000  # runs that are asked for; more would not be given back in time
CALL_S: Final = 1.0  # later than that they have all begun


@dataclass(eq=False, repr=False)
class EarlyRuns:
    """Asks for runs back when their job is changed, between the attempts of the transaction that changes it.

    What is given back is cancelled by the transaction as if it had not been sent. If that fails, the executor says some
    seconds later that it gave the run back, which gets another attempt.
    """

    questions: PluginQuestions
    registry: ExecutorRegistry  # live executors, which alone are called, and what with
    clock: Clock
    _: KW_ONLY
    networks: ExecutorNetworks
    tls: TlsFiles = NO_FILES

    def recall(self, sent: Sequence[Run]) -> Mapping[int, int]:
        """Return runs that will not start, with their jobs, inside a transaction that is done again once that is known.

        A transaction asks once, for all that it may cancel: what is sent after that is too late. What was given back by
        then stays so, though it is due by now.
        """
        if not sent:
            return self.given()
        return self.questions.ask("recall", PluginQuestion("recall", True, partial(self._ask_all, sent)))

    def given(self) -> Mapping[int, int]:
        """Return what was given back for this transaction."""
        return cast("Mapping[int, int]", self.questions.answered("recall") or {})

    def _ask_all(self, sent: Sequence[Run]) -> Mapping[int, int]:
        of_holder: dict[Holder, list[Run]] = defaultdict(list)
        for run in sent:
            of_holder[Holder(run.group_id, run.address or "", run.instance or "")].append(run)
        given = {run_id for holder, held in of_holder.items() for run_id in self._ask(holder, held)}
        late = len(sent) - len(given)
        logger.log(
            logging.INFO if late else logging.DEBUG,
            "%d runs were called back, of which %d have begun, or stay with an executor that did not answer",
            len(sent),
            late,
        )
        return {run.id: run.job_id for run in sent if run.id in given}

    def _ask(self, holder: Holder, held: Sequence[Run]) -> set[int]:
        now_ms = self.clock.now_ms()
        if now_ms >= max(run.due_ms for run in held):
            return set()  # while others were asked
        # what listens there gets a token, so it must be an executor that is registered now
        if not self.registry.is_live(holder.group_id, holder.address, now_ms):
            return set()
        keys = [RunKey(run.id, run.job_id, run.created_ms) for run in held[:MOST]]
        try:
            response = post(
                contract.join_url(holder.address, contract.RECALL),
                codec.encode_states(holder.instance, keys),
                token=self.registry.token_at(holder.group_id, holder.address),
                app_name=self.registry.app_name(holder.group_id),
                timeout_s=CALL_S,
                tls=self.tls,
                guard=self.networks.refusal,
            )
            given = codec.read_recalled(response.data) if response.ok else set()
        except WireError as error:
            text = "%s did not say which of %d runs it gives back, first run %d: %s"
            logger.info(text, holder.address, len(held), held[0].id, error)
            return set()
        return given & {run.id for run in held}
