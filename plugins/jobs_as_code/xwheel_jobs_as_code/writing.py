"""Writes jobs as files that :mod:`xwheel_jobs_as_code.checking` reads back to the same, in a stable order.

Defaults are left out, but for those of lateness: only what a file names changes them for a job that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import yaml

from xwheel_jobs_as_code.state import JOB_DEFAULTS, JOB_FIELDS, LATENESS_FIELDS, GroupState, JobState, Ref

UNFOLDED: Final = 2**30
Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class TextSink(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object:
        """Take some text."""
        ...


class _Writer(Dumper):  # type: ignore[misc]
    """Text of several lines as a block, so that people can read it."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out."""
        del data
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None if text.isprintable() else '"'  # with escapes, on one line
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if _is_block(text) else style)


def _is_block(text: str) -> bool:
    """Return whether a block holds the text on every reader: lines of visible text, nothing special at the ends."""
    lines = text.split("\n")
    has_plain_ends = lines[0] != "" and lines[-2:] != ["", ""] and not lines[0].startswith(" ")
    return len(lines) > 1 and has_plain_ends and all(line.isprintable() and line == line.rstrip() for line in lines)


_Writer.add_representer(str, _represent_text)


def write_calendars(sink: TextSink, calendars: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Write calendars as a part of a document; nothing if there is none."""
    items = [{"name": name, "definition": dict(definition)} for name, definition in calendars]
    if items:
        _dump(sink, {"calendars": items})


def begin_groups(sink: TextSink, *, is_empty: bool) -> None:
    """Begin the list of groups."""
    sink.write("groups: []\n" if is_empty else "groups:\n")


def write_group(sink: TextSink, group: GroupState, *, has_jobs: bool) -> None:
    """Write a group, and begin the list of its jobs if it has any."""
    values: dict[str, Any] = {"app_name": group.app_name}
    if group.title != group.app_name:
        values["title"] = group.title
    if group.max_running:
        values["max_running"] = group.max_running
    if group.glue_types:
        values["glue_types"] = list(group.glue_types)
    _dump(sink, [values])
    if has_jobs:
        sink.write("  jobs:\n")


def write_job(sink: TextSink, job: JobState) -> None:
    """Write a job of the group written last."""
    values: dict[str, Any] = {"name": job.ref.name}
    values |= {
        name: job.values[name]
        for name in JOB_FIELDS
        if job.values[name] != JOB_DEFAULTS[name] or name in LATENESS_FIELDS
    }
    if job.enabled:
        values["enabled"] = True
    if job.children:
        values["children"] = [_child(job.ref, ref, param) for ref, param in sorted(job.children.items())]
    _dump(sink, [values], indent="  ")


def _child(owner: Ref, ref: Ref, param: str | None) -> dict[str, Any]:
    is_near = ref.app_name == owner.app_name and "/" not in ref.name
    found: dict[str, Any] = {"job": ref.name if is_near else str(ref)}
    return found if param is None else {**found, "param": param}


def _dump(sink: TextSink, value: Any, indent: str = "") -> None:
    text: str = yaml.dump(
        value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=UNFOLDED, default_flow_style=False
    )
    # split at line feeds only: other line ends stand escaped within quotes
    sink.write("".join(f"{indent}{line}\n" if line else "\n" for line in text.removesuffix("\n").split("\n")))
