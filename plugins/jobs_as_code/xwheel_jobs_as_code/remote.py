"""What a node has of the jobs that files describe, and how the difference gets there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from xwheel.errors import FieldError, NotFoundError
from xwheel_commands.connection import NodeApi, segment
from xwheel_commands.preview import SCHEDULE_FIELDS, preview_params
from xwheel_commands.yaml_files import YamlFileError

from xwheel_jobs_as_code.diff import Action, Step
from xwheel_jobs_as_code.state import JOB_FIELDS, GroupState, JobState, Ref, State
from xwheel_jobs_as_code.templates import named_in, to_ids, to_names

NO_SCHEDULE: Final = "NONE"


class RemoteJobs:
    """Reads groups and jobs from a node, by the names that files use.

    Args:
        node: The node.
    """

    def __init__(self, node: NodeApi) -> None:
        self._node = node
        self._app_names: dict[int, str] = {}
        self._refs: dict[int, Ref] = {}

    def groups(self) -> dict[str, GroupState]:
        """Return all groups by app name, in the order of their ids."""
        found = {}
        for item in self._node.pages("/groups"):
            self._app_names[item["id"]] = item["app_name"]
            found[item["app_name"]] = GroupState(
                app_name=item["app_name"],
                title=item["title"],
                max_running=item["max_running"],
                glue_types=tuple(item["glue_types"]),
                id=item["id"],
            )
        return found

    def jobs(self, group: GroupState) -> Iterator[JobState]:
        """Yield the jobs of a group by id, with their children; a page at a time is held."""
        for item in self._node.pages("/jobs", {"group_id": group.id}):
            ref = Ref(group.app_name, item["name"])
            self._refs[item["id"]] = ref
            family = self._node.call("GET", f"/jobs/{item['id']}/children")
            yield JobState(
                ref=ref,
                values={name: item.get(name) for name in JOB_FIELDS} | {"glue_source": self._source(item)},
                enabled=item["enabled"],
                children={self._ref(child["child_id"]): self._named(child["param"]) for child in family["children"]},
                id=item["id"],
                revision=item["revision"],  # the earlier read: a change between the two makes a conflict
            )

    def _source(self, job: Mapping[str, Any]) -> str | None:
        if not job["glue_version"]:
            return None
        view = self._node.call("GET", f"/jobs/{job['id']}/glue/{job['glue_version']}")
        return str(view["source"])

    def calendars(self, names: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the definitions of calendars."""
        for name in names:
            view = self._node.call("GET", f"/calendars/{segment(name)}")
            yield name, view["definition"]

    def calendar_names(self) -> list[str]:
        """Return the names of all calendars, sorted."""
        return [item["name"] for item in self._node.pages("/calendars")]

    def state_for(self, desired: State) -> State:
        """Return what the node has of everything that files name."""
        groups = self.groups()
        jobs: dict[Ref, JobState] = {}
        ids: dict[Ref, list[int]] = {}
        for app_name in desired.groups:
            for job in self.jobs(groups[app_name]) if app_name in groups else ():
                ids.setdefault(job.ref, []).append(job.id)
                jobs[job.ref] = job
        others = self._find_others(desired, groups, ids)
        duplicates = {ref: tuple(found) for ref, found in ids.items() if len(found) > 1}
        calendar_names = frozenset(self.calendar_names())
        known = [name for name in desired.calendars if name in calendar_names]
        return State(
            groups=groups,
            jobs={ref: job for ref, job in jobs.items() if ref not in duplicates},
            calendars=dict(self.calendars(known)),
            calendar_names=calendar_names,
            duplicates=duplicates,
            others=others,
        )

    def _find_others(
        self, desired: State, groups: Mapping[str, GroupState], ids: dict[Ref, list[int]]
    ) -> dict[Ref, int]:
        """Look up the children of other groups; those of a name that several have go into ``ids``."""
        found: dict[Ref, int] = {}
        wanted = {
            ref
            for job in desired.jobs.values()
            for child, param in job.children.items()
            for ref in (child, *named_in(param))
        }
        for ref in sorted(wanted):
            group = groups.get(ref.app_name)
            if ref.app_name in desired.groups or group is None or not ref.name.strip():
                continue
            params = {"group_id": group.id, "name": ref.name}
            matches = [item["id"] for item in self._node.pages("/jobs", params, limit=10)]
            if matches:
                found[ref] = matches[0]
                ids[ref] = matches
        return found

    def _named(self, param: str | None) -> str | None:
        return None if param is None else to_names(param, self._find_ref)

    def _find_ref(self, job_id: int) -> Ref | None:
        try:
            return self._ref(job_id)
        except NotFoundError:
            return None

    def _ref(self, job_id: int) -> Ref:
        """Return the name of a job that may be of any group."""
        if job_id not in self._refs:
            job = self._node.call("GET", f"/jobs/{job_id}")
            group_id = job["group_id"]
            if group_id not in self._app_names:
                group = self._node.call("GET", f"/groups/{group_id}")
                self._app_names[group_id] = group["app_name"]
            self._refs[job_id] = Ref(self._app_names[group_id], job["name"])
        return self._refs[job_id]


def check_schedules(node: NodeApi, steps: Sequence[Step]) -> None:
    """Ask the node about every schedule that would be new, so that nothing is changed before a bad one is found.

    Those that use a calendar which the plan saves can only be judged once it is there.

    Raises:
        YamlFileError: The node does not take one, or it would never fire.
    """
    saved = {step.name for step in steps if step.action is Action.SAVE_CALENDAR}
    asked: set[str] = set()
    for step in steps:
        want = step.want
        if not isinstance(want, JobState) or step.name in asked or not _is_scheduled_anew(step):
            continue
        asked.add(step.name)
        values = want.values
        if values["schedule_type"] == NO_SCHEDULE and not want.enabled:
            continue
        if saved & {*values["calendar_exclude"], *values["calendar_require"]}:
            continue
        with _naming_the_place(step):
            found = node.call("GET", "/schedule/preview", params=preview_params(values, 1))
        if want.enabled and not found["items"]:
            raise YamlFileError(f"{step.place}: schedule_conf", "would never fire, so it cannot be enabled")


def _is_scheduled_anew(step: Step) -> bool:
    if step.action in (Action.CREATE, Action.START):
        return True
    return step.action is Action.UPDATE and any(change.field in SCHEDULE_FIELDS for change in step.changes)


@contextmanager
def _naming_the_place(step: Step) -> Iterator[None]:
    """Name the place in the file when the node refuses a value."""
    try:
        yield
    except YamlFileError:
        raise
    except FieldError as error:
        raise YamlFileError(f"{step.place or step.name}: {error.field}", error.reason) from error


class Applier:
    """Carries out plans on a node; counts what is done.

    Args:
        node: The node.
        actual: What the plan was made from.
    """

    def __init__(self, node: NodeApi, actual: State) -> None:
        self._node = node
        self._groups = {name: group.id for name, group in actual.groups.items()}
        self._ids = {**{ref: job.id for ref, job in actual.jobs.items()}, **actual.others}
        self._revisions = {ref: job.revision for ref, job in actual.jobs.items()}
        self._is_linked = False
        self.done = 0

    def apply(self, steps: Sequence[Step]) -> None:
        """Do every step in order.

        Raises:
            ConflictError: A job was changed since the plan was made.
            YamlFileError: The node refuses a value.
        """
        self._let_go(steps)
        for step in steps:
            with _naming_the_place(step):
                if step.action is Action.CHILDREN and not self._is_linked:
                    self._link(steps)
                self._do(step)
            self.done += 1

    def _do(self, step: Step) -> None:
        want, have = step.want, step.have
        if step.action is Action.SAVE_CALENDAR:
            path = f"/calendars/{segment(step.name)}"
            self._node.call("PUT", path, step.changes[0].new)
        elif isinstance(want, GroupState):
            self._save_group(step, want)
        elif isinstance(want, JobState):
            self._save_job(step, want)
        elif isinstance(have, JobState):
            headers = {"If-Match": f'"{self._revisions[have.ref]}"'}
            self._node.call("DELETE", f"/jobs/{have.id}", headers=headers)

    def _save_group(self, step: Step, want: GroupState) -> None:
        body: dict[str, Any] = {"title": want.title, "max_running": want.max_running}
        if want.glue_types is not None:
            body["glue_types"] = want.glue_types
        if step.action is Action.CREATE_GROUP:
            made = self._node.call("POST", "/groups", {**body, "app_name": want.app_name})
            self._groups[want.app_name] = made["id"]
            if made["title"] == want.title:
                return
        changes = {change.field: change.new for change in step.changes}
        self._node.call("PATCH", f"/groups/{self._groups[want.app_name]}", changes)

    def _save_job(self, step: Step, want: JobState) -> None:
        ref = want.ref
        if step.action is Action.CREATE:
            body = {**want.values, "name": ref.name, "group_id": self._groups[ref.app_name]}
            answer = self._node.call("POST", "/jobs", body)
            self._ids[ref] = answer["id"]
        elif step.action is Action.UPDATE:
            changes = {change.field: change.new for change in step.changes}
            answer = self._call(ref, "PATCH", "", changes)
        elif step.action is Action.CHILDREN:
            answer = self._set_children(ref, want.children)
        else:
            answer = self._call(ref, "POST", "/start" if step.action is Action.START else "/stop", {})
        self._revisions[ref] = answer["revision"]

    def _let_go(self, steps: Sequence[Step]) -> None:
        """Drop links before others come, so that turning a chain round closes no circle in between."""
        for step in steps:
            want, have = step.want, step.have
            if step.action is not Action.CHILDREN or not isinstance(have, JobState):
                continue
            wanted = want.children if isinstance(want, JobState) else {}
            kept = {ref: param for ref, param in have.children.items() if ref in wanted}
            if len(kept) < len(have.children):
                self._revisions[have.ref] = self._set_children(have.ref, _without_results(kept))["revision"]

    def _link(self, steps: Sequence[Step]) -> None:
        """Set links whose templates name other parents without them first: the others must be parents already."""
        for step in steps:
            want = step.want
            if step.action is Action.CHILDREN and isinstance(want, JobState):
                bare = _without_results(want.children)
                if bare != want.children:
                    self._revisions[want.ref] = self._set_children(want.ref, bare)["revision"]
        self._is_linked = True

    def _set_children(self, ref: Ref, children: Mapping[Ref, str | None]) -> Any:
        links = [
            {"child_id": self._ids[child], "param": None if param is None else to_ids(param, self._ids)}
            for child, param in children.items()
        ]
        return self._call(ref, "PUT", "/children", {"children": links})

    def _call(self, ref: Ref, method: str, action: str, body: Mapping[str, Any]) -> Any:
        """Change a job only at the revision that the plan knows."""
        path = f"/jobs/{self._ids[ref]}{action}"
        return self._node.call(method, path, {**body, "revision": self._revisions[ref]})


def _without_results(children: Mapping[Ref, str | None]) -> dict[Ref, str | None]:
    return {ref: None if named_in(param) else param for ref, param in children.items()}
