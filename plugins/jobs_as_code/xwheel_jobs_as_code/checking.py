"""Turns documents into the state that they describe, or says what is wrong and where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from xwheel.api.http.body import fields_in, read_fields
from xwheel.api.schema.fields import MAX_CHILDREN
from xwheel.api.schema.messages import ChildInput, GroupCreate, JobCreate, NamePath
from xwheel.errors import FieldError
from xwheel.model.jobs import check_fields, draft_job
from xwheel_commands.yaml_files import YamlFileError, YamlNode

from xwheel_jobs_as_code.state import JOB_FIELDS, LATENESS_FIELDS, GroupState, JobState, Ref, State, values_of
from xwheel_jobs_as_code.templates import refuse_ids

S = TypeVar("S", bound=msgspec.Struct)

SECTIONS: Final = ("calendars", "groups")
CALENDAR_KEYS: Final = ("name", "definition")
GROUP_KEYS: Final = ("app_name", "title", "max_running", "glue_types", "jobs")
JOB_KEYS: Final = ("name", *JOB_FIELDS, "enabled", "children")
CHILD_KEYS: Final = ("job", "param")
MAX_ECHO: Final = 64
SOME_ID: Final = 1
"""Stands for ids that a file does not know, where a message asks for one."""


def build_state(documents: Iterable[tuple[str, YamlNode]]) -> State:
    """Return what the documents of all files describe together.

    Args:
        documents: The file's name and the document.

    Raises:
        YamlFileError: Names file, line and field.
    """
    builder = _Builder()
    for file, document in documents:
        builder.add(file, document)
    return builder.state()


class _Builder:
    def __init__(self) -> None:
        self._groups: dict[str, GroupState] = {}
        self._jobs: dict[Ref, JobState] = {}
        self._calendars: dict[str, Mapping[str, Any]] = {}
        self._places: dict[str, str] = {}

    def add(self, file: str, document: YamlNode) -> None:
        table = _table(file, document, "the document", SECTIONS)
        for node in _items(file, table.get("calendars"), "calendars"):
            self._calendar(file, node)
        for node in _items(file, table.get("groups"), "groups"):
            self._group(file, node)

    def state(self) -> State:
        _refuse_cycles(self._jobs)
        return State(
            groups=self._groups,
            jobs=self._jobs,
            calendars=self._calendars,
            calendar_names=frozenset(self._calendars),
            places=self._places,
        )

    def _calendar(self, file: str, node: YamlNode) -> None:
        table = _table(file, node, "a calendar", CALENDAR_KEYS)
        name = _message(file, node, NamePath, table, ("name",)).name
        definition = table.get("definition")
        place = f"{file}:{node.line}: calendar {name}"
        if definition is None or not isinstance(definition.value, dict):
            raise YamlFileError(f"{place}: definition", "is required and must be a table")
        if name in self._calendars:
            raise YamlFileError(place, f"stands twice, first at {self._places[name]}")
        self._calendars[name] = definition.plain()
        self._places[name] = place

    def _group(self, file: str, node: YamlNode) -> None:
        table = _table(file, node, "a group", GROUP_KEYS)
        message = _message(file, node, GroupCreate, table, ("app_name", "title", "max_running", "glue_types"))
        app_name = message.app_name
        place = f"{file}:{node.line}: group {app_name}"
        if app_name in self._groups:
            raise YamlFileError(place, f"stands twice, first at {self._groups[app_name].place}")
        self._groups[app_name] = GroupState(
            app_name=app_name,
            title=message.title if "title" in table else app_name,
            max_running=message.max_running,
            glue_types=message.glue_types if "glue_types" in table else None,
            place=place,
        )
        for job in _items(file, table.get("jobs"), "jobs"):
            self._job(file, job, app_name)

    def _job(self, file: str, node: YamlNode, app_name: str) -> None:
        table = _table(file, node, "a job", JOB_KEYS)
        name = _named(table)
        given = {key: item.plain() for key, item in table.items() if key != "children"}
        try:
            message = read_fields(JobCreate, {**given, "group_id": SOME_ID})
            check_fields(draft_job(fields_in(message), 1))  # as every node will, but before anything is changed
        except FieldError as error:
            raise YamlFileError(
                f"{file}:{_line(node, table, error.field)}: job {app_name}/{name}: {error.field}",
                _advised(error, table),
            ) from None
        ref = Ref(app_name, message.name)
        place = f"{file}:{node.line}: job {ref}"
        if ref in self._jobs:
            raise YamlFileError(place, f"stands twice, first at {self._jobs[ref].place}")
        self._jobs[ref] = JobState(
            ref=ref,
            values=values_of(message),
            enabled=message.enabled,
            left_out=frozenset(LATENESS_FIELDS).difference(table),
            children=_children(file, table.get("children"), ref),
            place=place,
        )


def _children(file: str, node: YamlNode | None, owner: Ref) -> dict[Ref, str | None]:
    found: dict[Ref, str | None] = {}
    items = _items(file, node, f"job {owner}: children")
    if len(items) > MAX_CHILDREN and node is not None:
        raise YamlFileError(f"{file}:{node.line}: job {owner}: children", f"must be a list of at most {MAX_CHILDREN}")
    for item in items:
        if isinstance(item.value, str):
            text, param = item.value, None
        else:
            table = _table(file, item, "a child", CHILD_KEYS)
            job = table.get("job")
            if job is None or not isinstance(job.value, str):
                raise YamlFileError(f"{file}:{item.line}: job {owner}: children: job", "is required and must be text")
            text = job.value
            given = {"param": table["param"].plain()} if "param" in table else {}
            try:
                param = read_fields(ChildInput, {"child_id": SOME_ID, **given}).param
                refuse_ids(param)
            except FieldError as error:
                raise YamlFileError(
                    f"{file}:{item.line}: job {owner}: children: {error.field}", _advised(error, table)
                ) from None
        ref = parse_ref(text, owner.app_name)
        if ref in found:
            raise YamlFileError(f"{file}:{item.line}: job {owner}: children", f"{ref} stands twice")
        found[ref] = param
    return found


def parse_ref(text: str, app_name: str) -> Ref:
    """Return the job that a text means: a name of the same group, or ``app_name/name`` if it has a slash."""
    before, slash, after = text.partition("/")
    return Ref(before, after) if slash else Ref(app_name, text)


def _refuse_cycles(jobs: Mapping[Ref, JobState]) -> None:
    """Refuse jobs that would run after themselves, without recursion: chains may be long."""
    done: set[Ref] = set()
    for start in jobs:
        path: list[Ref] = []
        on_path: set[Ref] = set()
        waiting: list[tuple[Ref, bool]] = [(start, False)]
        while waiting:
            ref, leaving = waiting.pop()
            if leaving:
                path.pop()
                on_path.discard(ref)
                done.add(ref)
            elif ref in on_path:
                ring = " -> ".join(map(str, [*path[path.index(ref) :], ref][:10]))
                raise YamlFileError(f"{jobs[ref].place}: children", f"make a cycle: {ring}")
            elif ref not in done and ref in jobs:
                path.append(ref)
                on_path.add(ref)
                waiting.append((ref, True))
                waiting.extend((child, False) for child in jobs[ref].children)


def _message(file: str, node: YamlNode, kind: type[S], table: Mapping[str, YamlNode], keys: Sequence[str]) -> S:
    try:
        return read_fields(kind, {key: table[key].plain() for key in keys if key in table})
    except FieldError as error:
        raise YamlFileError(
            f"{file}:{_line(node, table, error.field)}: {error.field}", _advised(error, table)
        ) from None


def _table(file: str, node: YamlNode, what: str, known: Sequence[str]) -> dict[str, YamlNode]:
    if not isinstance(node.value, dict):
        raise YamlFileError(f"{file}:{node.line}", f"{what} must be a table with {', '.join(known[:4])}")
    table: dict[str, YamlNode] = node.value
    for key, item in table.items():
        if key not in known:
            close = difflib.get_close_matches(key[:MAX_ECHO], known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
            named = f" {_named(table)[:MAX_ECHO]}" if "name" in table else ""
            raise YamlFileError(f"{file}:{item.line}: {key[:MAX_ECHO]!r}", f"is not a key of {what}{named}; {hint}")
    return table


def _items(file: str, node: YamlNode | None, what: str) -> list[YamlNode]:
    if node is None or node.value is None:
        return []
    if not isinstance(node.value, list):
        raise YamlFileError(f"{file}:{node.line}: {what}", "must be a list")
    return node.value


def _named(table: Mapping[str, YamlNode]) -> str:
    name = table["name"].value if "name" in table else None
    return name[:MAX_ECHO] if isinstance(name, str) else "without a name"


def _line(node: YamlNode, table: Mapping[str, YamlNode], field: str) -> int:
    return table[field].line if field in table else node.line


def _advised(error: FieldError, table: Mapping[str, YamlNode]) -> str:
    """Return the reason, with the way out where a bare word is not what it looks like."""
    value = table[error.field].value if error.field in table else ""
    if "text of" in error.reason and (value is None or isinstance(value, int)):
        return f"{error.reason}; put it in quotes"
    return error.reason
