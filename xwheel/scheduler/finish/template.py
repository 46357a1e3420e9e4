"""What a job's success hands to its children: pure functions of rows.

A parameter template is text with ``${name}`` in it; ``${name:json}`` gives the same as it stands inside a JSON string,
and ``$$`` is a dollar. Nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from xwheel.errors import FieldError
from xwheel.model import Run, RunState
from xwheel.model.jobs import MAX_PARAM_BYTES

MAX_RESULT: Final = 4000
MAX_DEPTH: Final = 32
NAMES: Final = ("result", "param", "run_id", "job_id", "planned_ms")

_TOKEN = re.compile(r"\$(?:(\$)|\{([^{}$]*)\}|)")
_RESULT_OF = re.compile(r"result\.([1-9][0-9]{0,15})\Z")


@dataclass(frozen=True, slots=True)
class Success:
    """A fire whose every shard succeeded."""

    first: Run  # the root run: what it was planned with counts
    results: Sequence[str]  # the shards' messages by index
    param: str  # the parameter that the handlers got

    @property
    def result(self) -> str:
        """What the fire returned: its message, or the JSON list of its shards' messages."""
        if len(self.results) == 1:
            return self.results[0]
        return json.dumps(list(self.results), ensure_ascii=False)


class TemplateError(Exception):
    """A parameter cannot be made from this result; the sentence says why."""


def succeeded(runs: Sequence[Run], param: str) -> Success | None:
    """Return the success of a fire, or None.

    A shard succeeded if one of its attempts did: a retry that was withdrawn, or a recovery of a run that was not lost
    after all, takes nothing back. ``runs`` are all of the root, every shard and attempt, none open; ``param`` is for
    those that have none of their own.
    """
    by_shard: dict[int, Run] = {}
    for run in sorted(runs, key=lambda run: (run.attempt, run.id)):
        if run.state is RunState.SUCCEEDED:
            by_shard[run.shard_index] = run
    first = next((run for run in runs if run.id == run.root_id), None)
    if first is None or set(by_shard) != set(range(max(run.shard_total for run in runs))):
        return None
    results = [by_shard[index].message for index in sorted(by_shard)]
    return Success(first, results, param if first.param is None else first.param)


def check_template(text: str, parents: Sequence[int] = ()) -> None:
    """Refuse a template that names what is not there.

    Only results of ``parents`` may be named, or, without any, of every job. Raises FieldError, which names the field
    ``param`` and the known names.
    """
    names = ", ".join(f"${{{name}}}" for name in (*NAMES, "result.JOB"))
    known = f"known: {names}, each also as ${{name:json}}; $$ is a dollar"
    for dollar, name in _TOKEN.findall(text):
        if dollar:
            continue
        plain = name.removesuffix(":json")
        other = _RESULT_OF.match(plain)
        if plain not in NAMES and other is None:
            raise FieldError("param", f"${{{name[:32]}}} is no name of a template; {known}")
        if other is not None and parents and int(other[1]) not in parents:
            raise FieldError(
                "param", f"${{{plain}}}: job {other[1]} is no parent; parents: {', '.join(map(str, parents))}"
            )


def render(text: str, success: Success, others: Mapping[int, Success], *, max_bytes: int = MAX_PARAM_BYTES) -> str:
    """Fill a template.

    For a join, ``others`` is the success of each parent by its job id. Raises TemplateError if a result or the whole is
    too long, or a parent did not run in this chain.
    """

    def fill(match: re.Match[str]) -> str:
        dollar, name = match.groups()
        if dollar:
            return "$"
        plain = (name or "").removesuffix(":json")
        value = _value(plain, success, others)
        return json.dumps(value, ensure_ascii=False)[1:-1] if plain != name else value

    filled = _TOKEN.sub(fill, text)
    size = len(filled.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise TemplateError(
            f"the parameter would have {size} bytes as UTF-8, {max_bytes} are allowed (api.max_param_bytes)"
        )
    return filled


def _value(name: str, success: Success, others: Mapping[int, Success]) -> str:
    first = success.first
    known = {"run_id": first.id, "job_id": first.job_id, "planned_ms": first.planned_ms, "param": success.param}
    if name in known:
        return str(known[name])
    other = _RESULT_OF.match(name)
    if other is None and name != "result":
        raise TemplateError(f"${{{name[:32]}}} is no name of a template")
    parent = first.job_id if other is None else int(other[1])
    found = success if first.job_id == parent else others.get(parent)
    if found is None:
        raise TemplateError(f"job {parent} has no result in this chain")
    if len(found.result) > MAX_RESULT:
        raise TemplateError(
            f"the result of run {found.first.id} has {len(found.result)} characters, {MAX_RESULT} may be passed on"
        )
    return found.result
