"""Compares what files want with what a node has; pure, so that a dry run and a check are the same as the real thing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from xwheel_commands.yaml_files import YamlFileError

from xwheel_jobs_as_code.state import JOB_DEFAULTS, JOB_FIELDS, GroupState, JobState, Ref, State
from xwheel_jobs_as_code.templates import named_in

CALENDAR_FIELDS: Final = ("calendar_exclude", "calendar_require")
KEPT_FIELDS: Final = ("anchor_ms", "glue_source")
SHOWN_DUPLICATES: Final = 5


class Action(StrEnum):
    """What a step does; steps are done in this order, so that nothing fires before it is complete."""

    SAVE_CALENDAR = "save-calendar"
    CREATE_GROUP = "create-group"
    UPDATE_GROUP = "update-group"
    STOP = "stop"
    CREATE = "create"
    UPDATE = "update"
    CHILDREN = "children"
    START = "start"
    DELETE = "delete"


class Change(NamedTuple):
    """A field that differs; ``old`` is null for what is new."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change of one object.

    Attributes:
        name: The calendar, the group's app name, or ``app_name/name`` of the job.
        changes: Field by field.
        want: The job or group as the file wants it; None where the file does not have it.
        have: As the node has it; None if it does not.
        place: Where the file wants it; empty if it does not.
    """

    action: Action
    name: str
    changes: tuple[Change, ...] = ()
    want: JobState | GroupState | None = None
    have: JobState | GroupState | None = None
    place: str = ""


def make_plan(desired: State, actual: State, *, prune: bool = False) -> list[Step]:
    """Return what has to be done, in order; nothing if the node has what the files want.

    Args:
        desired: What the files want.
        actual: What the node has of it.
        prune: Delete jobs of the files' groups that the files do not have.

    Raises:
        YamlFileError: A file refers to what is nowhere, or to one of several jobs of the same name.
    """
    _check_references(desired, actual, prune)
    steps = [*_calendar_steps(desired, actual), *_group_steps(desired, actual)]
    for ref, want in desired.jobs.items():
        steps += _job_steps(want, actual.jobs.get(ref))
    if prune:
        steps += [
            Step(action=Action.DELETE, name=str(ref), have=have)
            for ref, have in actual.jobs.items()
            if ref not in desired.jobs and ref.app_name in desired.groups
        ]
    order = {action: number for number, action in enumerate(Action)}
    return sorted(steps, key=lambda step: order[step.action])


def _calendar_steps(desired: State, actual: State) -> Iterator[Step]:
    for name, want in desired.calendars.items():
        have = actual.calendars.get(name)
        if have != want:
            change = Change("definition", None if have is None else dict(have), dict(want))
            place = desired.places.get(name, "")
            yield Step(action=Action.SAVE_CALENDAR, name=name, changes=(change,), place=place)


def _group_steps(desired: State, actual: State) -> Iterator[Step]:
    for name, want in desired.groups.items():
        have = actual.groups.get(name)
        changes = tuple(
            Change(field, None if have is None else getattr(have, field), getattr(want, field))
            for field in ("title", "max_running", "glue_types")
            if getattr(want, field) is not None and (have is None or getattr(have, field) != getattr(want, field))
        )
        if changes:
            action = Action.CREATE_GROUP if have is None else Action.UPDATE_GROUP
            yield Step(action=action, name=name, changes=changes, want=want, have=have, place=want.place)


def _job_steps(want: JobState, have: JobState | None) -> Iterator[Step]:
    def step(action: Action, changes: tuple[Change, ...] = ()) -> Step:
        return Step(action=action, name=str(want.ref), changes=changes, want=want, have=have, place=want.place)

    if have is None:
        yield step(Action.CREATE, tuple(_new_fields(want)))
    elif changed := tuple(_changed_fields(want, have)):
        yield step(Action.UPDATE, changed)
    had = {} if have is None else have.children
    if dict(want.children) != dict(had):
        change = Change("children", _spelled(had) if have else None, _spelled(want.children))
        yield step(Action.CHILDREN, (change,))
    was_enabled = have is not None and have.enabled
    if want.enabled != was_enabled:
        change = Change("enabled", was_enabled if have else None, want.enabled)
        yield step(Action.START if want.enabled else Action.STOP, (change,))


def _new_fields(want: JobState) -> Iterator[Change]:
    for field in JOB_FIELDS:
        if want.values[field] != JOB_DEFAULTS[field]:
            yield Change(field, None, want.values[field])


def _changed_fields(want: JobState, have: JobState) -> Iterator[Change]:
    for field in JOB_FIELDS:
        new = want.values[field]
        if field in want.left_out or (field in KEPT_FIELDS and new is None):
            continue  # left out means: keep what is there
        if have.values[field] != new:
            yield Change(field, have.values[field], new)


def _spelled(children: Mapping[Ref, str | None]) -> dict[str, str | None]:
    return {str(ref): param for ref, param in sorted(children.items())}


def _check_references(desired: State, actual: State, prune: bool) -> None:
    calendars = desired.calendar_names | actual.calendar_names
    for job in desired.jobs.values():
        for field in CALENDAR_FIELDS:
            for name in job.values[field]:
                if name not in calendars:
                    raise YamlFileError(
                        f"{job.place}: {field}", f"no calendar is called {name}{_nearest(name, calendars)}"
                    )
        _refuse_duplicates(job.place, job.ref, actual)
        for child, param in job.children.items():
            for ref in (child, *named_in(param)):
                _check_child(job, ref, desired, actual, prune)


def _check_child(job: JobState, child: Ref, desired: State, actual: State, prune: bool) -> None:
    place = f"{job.place}: children"
    _refuse_duplicates(place, child, actual)
    if child in desired.jobs or child in actual.others:
        return
    if child in actual.jobs:
        if prune:
            raise YamlFileError(place, f"job {child} is in no file, so --prune would delete it")
        return
    known = {str(ref) for ref in (*desired.jobs, *actual.jobs, *actual.others)}
    hint = _nearest(str(child), known)
    raise YamlFileError(place, f"there is no job {child}{hint}; a name with a slash is written app_name/name")


def _refuse_duplicates(place: str, ref: Ref, actual: State) -> None:
    ids = actual.duplicates.get(ref)
    if ids:
        some = ", ".join(map(str, ids[:SHOWN_DUPLICATES]))
        raise YamlFileError(place, f"{len(ids)} jobs of the node are called {ref} (ids {some}): rename them")


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
