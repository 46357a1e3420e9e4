"""The spelling of the calls that only xwheel peers make: ``/runBatch`` and ``/runState``.

Runs and outcomes inside them are spelled as in XXL-JOB's own messages; the rest is short and ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from xwheel.errors import WireError
from xwheel.model import MAX_ID
from xwheel.wire.codec.fields import (
    MAX_INT,
    MAX_MS,
    MAX_WORD,
    NOT_YET,
    as_list,
    as_object,
    encode,
    int_in,
    parse_object,
    read_items,
    to_id,
    to_int,
    to_message,
    to_text,
)
from xwheel.wire.codec.reports import callback_item, read_callback
from xwheel.wire.codec.runs import read_trigger, trigger_item
from xwheel.wire.contract import MAX_MESSAGE
from xwheel.wire.messages import (
    Answers,
    BadItem,
    BatchAnswer,
    ExecutionState,
    RunKey,
    StateAnswer,
    TriggerRequest,
)

_STATES: Final = {state.value: state for state in ExecutionState}
_KEY_PARTS: Final = 3

T = TypeVar("T")


def encode_batch(instance: str, runs: Sequence[TriggerRequest]) -> bytes:
    """Return the body of ``/runBatch``: many runs for one xwheel executor."""
    return encode({"instance": instance, "runs": [trigger_item(run) for run in runs]})


def decode_batch(body: bytes) -> tuple[str, list[TriggerRequest], list[BadItem]]:
    """Read ``/runBatch``; a run that cannot be read fails alone.

    Returns the instance that is meant, the good runs and the bad ones. Raises WireError if the body cannot be read.
    """
    item = parse_object(body)
    good, bad = read_items(as_list("runs", item.get("runs")), read_trigger, "logId")
    return to_text("instance", item.get("instance"), MAX_WORD), good, bad


def batch_payload(instance: str, answers: Sequence[BatchAnswer]) -> dict[str, Any]:
    """Return the reply to ``/runBatch`` for :attr:`Response.data`."""
    return {"instance": instance, "runs": [_batch_item(answer) for answer in answers]}


def _batch_item(answer: BatchAnswer) -> dict[str, Any]:
    item: dict[str, Any] = {"id": answer.run_id, "code": answer.code, "msg": answer.message}
    if answer.not_yet:
        item[NOT_YET] = True
    return item


def read_batch_reply(payload: object) -> Answers[BatchAnswer]:
    """Read the reply to ``/runBatch``; raises like :func:`read_state_reply`."""
    return _read_answers(payload, _read_batch_answer)


def _read_answers(payload: object, read: Callable[[dict[str, Any]], T]) -> Answers[T]:
    item = as_object("data", payload)
    answers, _ = read_items(as_list("runs", item.get("runs")), read, "id")
    return Answers(to_text("instance", item.get("instance"), MAX_WORD), answers)


def _read_batch_answer(item: dict[str, Any]) -> BatchAnswer:
    return BatchAnswer(
        run_id=to_id("id", item.get("id")),
        code=to_int("code", item.get("code"), 1, MAX_INT),
        message=to_message(item.get("msg"), MAX_MESSAGE),
        not_yet=item.get(NOT_YET) is True,
    )


def encode_states(instance: str, keys: Sequence[RunKey]) -> bytes:
    """Return the body of ``/runState``, which asks an xwheel executor about runs."""
    parts = [(key.run_id, key.job_id, key.created_ms) for key in keys]
    return encode({"instance": instance, "keys": parts})


def decode_states(body: bytes) -> tuple[str, list[RunKey]]:
    """Read ``/runState``: the instance that is meant, and the runs.

    Raises WireError: names the field and what is allowed.
    """
    item = parse_object(body)
    instance = to_text("instance", item.get("instance"), MAX_WORD)
    return instance, [_read_key(key) for key in as_list("keys", item.get("keys"))]


def _read_key(value: Any) -> RunKey:
    parts = as_list("keys", value)
    if len(parts) != _KEY_PARTS:
        raise WireError("keys: each must be [run id, job id, creation time]")
    return RunKey(
        run_id=to_id("keys.0", parts[0]),
        job_id=to_id("keys.1", parts[1]),
        created_ms=to_int("keys.2", parts[2], 0, MAX_MS),
    )


def state_payload(instance: str, answers: Sequence[StateAnswer]) -> dict[str, Any]:
    """Return the reply to ``/runState`` for :attr:`Response.data`."""
    return {
        "instance": instance,
        "runs": [
            {
                "id": answer.run_id,
                "state": answer.state.value,
                "running_ms": answer.running_ms,
                "outcome": callback_item(answer.outcome) if answer.outcome else None,
            }
            for answer in answers
        ],
    }


def read_state_reply(payload: object) -> Answers[StateAnswer]:
    """Read the reply to ``/runState``; answers that cannot be read are left out, so their fate is unknown.

    Raises WireError: the reply as a whole cannot be read.
    """
    return _read_answers(payload, _read_state_answer)


def _read_state_answer(item: dict[str, Any]) -> StateAnswer:
    state = _STATES.get(to_text("state", item.get("state"), MAX_WORD))
    if state is None:
        raise WireError(f"state: must be one of {', '.join(_STATES)}")
    outcome = item.get("outcome")
    return StateAnswer(
        run_id=to_id("id", item.get("id")),
        state=state,
        running_ms=int_in(item, "running_ms", MAX_MS),
        outcome=read_callback(as_object("outcome", outcome)) if outcome else None,
    )


def refusals_payload(items: list[BadItem]) -> dict[str, Any]:
    """Return what an xwheel scheduler answers to a callback whose items it refuses for good."""
    return {"refused": [{"id": item.run_id, "index": item.index, "msg": item.error} for item in items]}


def read_refusals(payload: object) -> list[BadItem]:
    """Read which outcomes of a callback were refused for good; empty if none were or the peer is foreign."""
    if not isinstance(payload, dict) or not isinstance(payload.get("refused"), list):
        return []
    good, _ = read_items(payload["refused"], _read_refusal, "id")
    return good


def _read_refusal(item: dict[str, Any]) -> BadItem:
    return BadItem(
        index=to_int("index", item.get("index"), 0, MAX_INT),
        run_id=to_int("id", item.get("id"), 0, MAX_ID),
        error=to_message(item.get("msg"), MAX_MESSAGE),
    )
