"""Jobs that code declares: compared with the rows, and written where they differ.

Whose declarations a group follows is decided by :mod:`xwheel_jobs_as_code.declarations.ownership`; the group's row is
locked by each transaction of a sync, so that two at a time write the same. What differs is worked out and checked
before, from rows that are locked and compared again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from xwheel.errors import (
    ConflictError,
    DuplicateError,
    FieldError,
    ForbiddenError,
    NameTakenError,
    PluginError,
    RevisionError,
)
from xwheel.model import Job
from xwheel.model.access import Permission
from xwheel.model.versions import JobAction
from xwheel.plugin import PluginSite
from xwheel.scheduler.jobs.versions import stopped
from xwheel.storage import executors, jobs
from xwheel.storage.database.engine import Connection
from xwheel.storage.database.rows import chunks

from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.owners import DeclarationOwner
from xwheel_jobs_as_code.declarations.ownership import (
    Build,
    DeclarationState,
    Declared,
    Owner,
    OwnershipDecision,
    check_release,
    conflicts,
    decide,
    states_of,
)
from xwheel_jobs_as_code.declarations.plan import (
    BadDeclaration,
    JobPlan,
    SyncAction,
    SyncResult,
    SyncStep,
    WantedJob,
    bad_declaration,
    beyond_time,
    draft_of,
    fires_anew,
    plan_job,
    released,
    settled,
    step_of,
)
from xwheel_jobs_as_code.declarations.records import DeclaredJob

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 10
BATCH: Final = 100
"""Jobs in a transaction: claims of the same jobs wait no longer than that takes."""

SHOWN: Final = 8
"""Characters of a digest that people see."""

SCHEDULE: Final = frozenset({"schedule_type", "schedule_conf"})
NOTED_MS: Final = 5000
"""How old the sign of life of an owner's executor gets before it is written again."""


class DeclarationManager:
    """Makes the jobs of groups what their applications' code declares.

    Args:
        site: What it works with.
        gone_ms: This long a release keeps its jobs once its executors are gone.
    """

    def __init__(self, site: PluginSite, *, gone_ms: int) -> None:
        self._site = site
        self._db = site.database
        self._jobs = site.job_writer
        self._gone_ms = gone_ms
        self._told: dict[int, list[Declared]] = {}

    def note(self, group_id: int, caller: Declared) -> SyncResult:
        """Take a sign of life of an executor that has synced; ``needs_jobs`` says that it shall do so again.

        Raises:
            FieldError: Its release cannot be compared.
        """
        self._site.need(Permission.EDIT, group_id, "group", group_id)
        check_release(caller.release)
        with self._db.read() as conn:
            owner = owners.get_owner(conn, group_id)
        verdict = self._decide(caller, owner, is_executor=True)
        now_ms = self._site.now_ms()
        if verdict.standing is DeclarationState.OWNS and _declared(owner) == caller:
            if _is_stale(owner, now_ms):
                self._db.transaction(lambda conn: self._note(conn, group_id, caller, now_ms))
            return self._result(verdict, owner, needs_jobs=owner.synced_ms is None)
        return self._result(verdict, owner, needs_jobs=verdict.standing is DeclarationState.OWNS)

    def sync(
        self,
        group_id: int,
        caller: Declared,
        wanted: Sequence[WantedJob],
        bad: Sequence[BadDeclaration],
        *,
        is_executor: bool,
        dry_run: bool = False,
    ) -> SyncResult:
        """Make the jobs of a group what its application declares, if that owns them.

        A job that is not declared any more is stopped, and stays with its runs.

        Args:
            group_id: The group.
            caller: Release and digest of what is declared.
            wanted: The jobs, none twice.
            bad: Declarations that cannot be read; their jobs stay as they are.
            is_executor: Whether the caller is a live executor; a person's command is none.
            dry_run: Change nothing.

        Raises:
            FieldError: The release cannot be compared.
            ConflictError: The same jobs were changed again and again meanwhile.
        """
        self._site.need(Permission.EDIT, group_id, "group", group_id)
        check_release(caller.release)
        kept = {one.name for one in wanted} | {one.name for one in bad}
        if dry_run:
            with self._db.read() as conn:
                owner = owners.get_owner(conn, group_id)
                before = records.list_declared(conn, group_id)
            plans, problems = self._plan(group_id, wanted)
            steps = [*map(step_of, plans), *self._retiring(before, kept)]
            verdict = self._decide(caller, owner, is_executor=is_executor)
            return self._result(verdict, owner, steps=steps, problems=[*bad, *problems])
        verdict, owner = self._take(group_id, caller, is_executor=is_executor)
        if verdict.standing is not DeclarationState.OWNS:
            return self._result(verdict, owner)
        steps, problems = [], list(bad)
        for part in chunks(sorted(wanted, key=lambda one: one.name), BATCH):
            done, failed = self._write(group_id, caller, part)
            steps += done
            problems += failed
        steps += self._finish(group_id, caller, kept, problems)
        with self._db.read() as conn:
            owner = owners.get_owner(conn, group_id)
        return self._done(verdict, owner, steps, problems)

    def _done(
        self,
        verdict: OwnershipDecision,
        owner: DeclarationOwner,
        steps: Sequence[SyncStep],
        problems: Sequence[BadDeclaration],
    ) -> SyncResult:
        result = self._result(verdict, owner, steps=steps, problems=problems)
        if result.steps or problems:
            logger.info(
                "group %s follows release %s of its application's code: %d jobs changed, %d declarations are wrong",
                self._app_name(owner.group_id),
                owner.release,
                len(result.steps),
                len(problems),
            )
        return result

    def release(
        self, job_id: int, fields: Collection[str], *, undo: bool = False, revision: int | None = None
    ) -> DeclaredJob:
        """Release fields of a job from the code that declares them, or give them back to it at its next sync.

        Args:
            job_id: The job.
            fields: Which; none for the job as a whole.
            undo: Give them back.
            revision: What the caller has seen; None for whatever is there.

        Raises:
            NotFoundError: There is no such job.
            RevisionError: It is at another revision.
            ConflictError: Code does not declare it.
            FieldError: Code says nothing of a field.
        """
        now_ms = self._site.now_ms()

        def work(conn: Connection) -> DeclaredJob:
            if undo:  # locked before the job, as syncs do
                owners.get_owner(conn, jobs.get_job(conn, job_id).group_id, lock=True)
            job = jobs.get_job(conn, job_id, lock=True)
            self._site.need(Permission.EDIT, job.group_id, "job", job_id)
            if revision is not None and job.revision != revision:
                raise RevisionError("job", job_id, job.revision, revision)
            known = records.get_declared(conn, [job_id]).get(job_id)
            if known is None or known.is_retired:
                raise ConflictError(f"job {job_id} is not declared in code: there is nothing to release")
            for name in fields:
                if name not in known.fields:
                    said = ", ".join(known.fields)
                    raise FieldError("fields", f"code does not say {name[:64]!r} of job {job_id}; it says {said}")
            # type and expression of a schedule make sense together only
            wanted = {*fields, *SCHEDULE} if not SCHEDULE.isdisjoint(fields) else set(fields)
            made = released(known, wanted, undo=undo, now_ms=now_ms)
            records.save_declared(conn, made)
            # who has seen the job as it was must see it again, and so must a sync under way
            now = self._jobs.touch(conn, job, now_ms)
            self._jobs.record(conn, JobAction.RELEASE, [(job, now)], now_ms)
            if undo:
                owners.update_owner(conn, job.group_id, {"synced_ms": None})
            return made

        return self._db.transaction(work)

    def builds(self, group_id: int, owner: DeclarationOwner) -> list[Build]:
        """Return what the live executors of a group declare, the owner first."""
        live = [item for item in self._site.executors.live(group_id) if item.declared]
        found = states_of(_owner(owner), {Declared(item.release or "", item.declared or "") for item in live})
        made = [
            Build(declared=item, standing=standing, executors=sum((one.release, one.declared) == item for one in live))
            for item, standing in found.items()
        ]
        return sorted(made, key=lambda build: (build.standing is not DeclarationState.OWNS, build.declared))

    def conflicting(self, followed: Collection[DeclarationOwner]) -> dict[int, list[Declared]]:
        """Return what live executors declare under their group's release in another way, by group that has some."""
        live: dict[int, set[Declared]] = {}
        for item in self._site.executors.live():
            if item.declared:
                live.setdefault(item.group_id, set()).add(Declared(item.release or "", item.declared))
        found = {owner.group_id: conflicts(_owner(owner), live.get(owner.group_id, ())) for owner in followed}
        return {group_id: others for group_id, others in found.items() if others}

    def _app_name(self, group_id: int) -> str:
        with self._db.read() as conn:
            found = executors.get_groups(conn, [group_id])
        return found[group_id].app_name if group_id in found else str(group_id)

    def _live(self, group_id: int) -> set[Declared]:
        live = self._site.executors.live(group_id)
        return {Declared(item.release or "", item.declared) for item in live if item.declared}

    def _decide(self, caller: Declared, owner: DeclarationOwner, *, is_executor: bool) -> OwnershipDecision:
        return decide(
            caller,
            _owner(owner),
            self._live(owner.group_id),
            self._site.now_ms(),
            is_executor=is_executor,
            gone_ms=self._gone_ms,
            listens_since_ms=self._site.executors.heard_since_ms(),
        )

    def _result(
        self,
        verdict: OwnershipDecision,
        owner: DeclarationOwner,
        *,
        needs_jobs: bool = False,
        steps: Sequence[SyncStep] = (),
        problems: Sequence[BadDeclaration] = (),
    ) -> SyncResult:
        others = conflicts(_owner(owner), self._live(owner.group_id))
        self._tell(owner, others)
        return SyncResult(
            verdict=verdict,
            owner=owner,
            needs_jobs=needs_jobs,
            steps=tuple(step for step in steps if step.action),
            problems=tuple(problems),
            conflicts=tuple(others),
        )

    def _tell(self, owner: DeclarationOwner, others: Sequence[Declared]) -> None:
        """Log a conflict once, and once more when it is another one."""
        if others and self._told.get(owner.group_id) != others:
            logger.warning(
                "executors of group %s declare different jobs under release %s: %s came first and decides, %s waits",
                self._app_name(owner.group_id),
                owner.release,
                owner.digest[:SHOWN],
                ", ".join(other.digest[:SHOWN] for other in others),
            )
        self._told[owner.group_id] = list(others)

    def _note(self, conn: Connection, group_id: int, caller: Declared, now_ms: int) -> None:
        if _declared(owners.get_owner(conn, group_id, lock=True)) == caller:
            owners.update_owner(conn, group_id, {"seen_ms": now_ms})

    def _take(
        self, group_id: int, caller: Declared, *, is_executor: bool
    ) -> tuple[OwnershipDecision, DeclarationOwner]:
        """Make the caller the owner if it may be; return whether it is, and who is."""
        with self._db.read() as conn:
            known, is_there = owners.get_owner(conn, group_id), owners.has_owner(conn, group_id)
        now_ms = self._site.now_ms()
        before = self._decide(caller, known, is_executor=is_executor)
        is_noted = _declared(known) == caller and not (is_executor and _is_stale(known, now_ms))
        if before.standing is not DeclarationState.OWNS or is_noted:
            return before, known
        if not is_there:
            try:
                self._db.transaction(lambda conn: owners.insert_owner(conn, group_id))
            except DuplicateError:
                logger.debug("another node made the row of group %d", group_id)

        def work(conn: Connection) -> tuple[OwnershipDecision, DeclarationOwner]:
            owner = owners.get_owner(conn, group_id, lock=True)
            verdict = self._decide(caller, owner, is_executor=is_executor)
            if verdict.standing is DeclarationState.OWNS:
                is_new = _declared(owner) != caller
                values: dict[str, object] = {"release": caller.release, "digest": caller.digest}
                if is_executor:
                    values["seen_ms"] = now_ms
                if is_new:
                    values = {"seen_ms": None, **values, "synced_ms": None}
                owners.update_owner(conn, group_id, values)
                if is_new:
                    was, now = {"release": owner.release}, {"release": caller.release}
                    what = (conn, "declaration.take", "group", group_id)
                    self._site.record(*what, group_id=group_id, before=was, after=now)
                owner = owners.get_owner(conn, group_id)
            return verdict, owner

        return self._db.transaction(work)

    def _plan(self, group_id: int, wanted: Sequence[WantedJob]) -> tuple[list[JobPlan], list[BadDeclaration]]:
        """Return what is to be done, each job checked as any other edit would be, and what cannot be."""
        names = [one.name for one in wanted]
        with self._db.read() as conn:
            found = records.find_by_names(conn, group_id, names)
            ids = [job_id for same in found.values() for job_id in same]
            known = jobs.get_jobs(conn, ids, deleted=False)
            before = records.get_declared(conn, ids)
        plans: list[JobPlan] = []
        problems: list[BadDeclaration] = []
        for one in wanted:
            try:
                same = found.get(one.name, [])
                if len(same) > 1:
                    raise FieldError(
                        "name", f"jobs {same[0]} and {same[1]} of the group are both called so: rename or delete one"
                    )
                job = known.get(same[0]) if same else None
                plan = plan_job(one, job, before.get(same[0]) if same else None)
                self._check(plan, group_id)
                plans.append(plan)
            except (FieldError, PluginError) as error:
                problems.append(bad_declaration(one, error))
            except (ValueError, OverflowError) as error:
                problems.append(bad_declaration(one, beyond_time(error)))
        return plans, problems

    def _check(self, plan: JobPlan, group_id: int) -> None:
        if plan.job is None:
            values = {**plan.wanted.draft, **plan.values, "name": plan.wanted.name, "group_id": group_id}
            self._jobs.draft(values)
        elif plan.changes:
            self._jobs.merge(plan.job, plan.values)

    def _write(
        self, group_id: int, caller: Declared, part: Sequence[WantedJob]
    ) -> tuple[list[SyncStep], list[BadDeclaration]]:
        """Write a batch in one transaction; what is refused there is left out, and the rest written again.

        Raises:
            ConflictError: The same jobs were changed again and again meanwhile, or others own them now.
        """
        refused: dict[str, BadDeclaration] = {}
        for _ in range(ATTEMPTS + len(part)):
            plans, problems = self._plan(group_id, [one for one in part if one.name not in refused])
            if not any(plan.differs for plan in plans):  # as at most starts, when many executors come at once
                return [], [*refused.values(), *problems]
            now_ms = self._site.now_ms()
            work = partial(self._write_part, group_id=group_id, caller=caller, plans=plans, now_ms=now_ms)
            try:
                done = self._jobs.transaction(work)
            except _JobRefusedError as error:
                refused[error.problem.name] = error.problem
            except (_StaleError, NameTakenError) as error:
                logger.info("the declared jobs of group %d are compared again: %s", group_id, error)
            else:
                return done, [*refused.values(), *problems]
        raise ConflictError(f"the declared jobs of group {group_id} are changed all the time: sync again later")

    def _write_part(
        self, conn: Connection, group_id: int, caller: Declared, plans: Sequence[JobPlan], now_ms: int
    ) -> list[SyncStep]:
        self._lock_owner(conn, group_id, caller)
        locked = jobs.lock_jobs(conn, [plan.job.id for plan in plans if plan.job is not None])
        for plan in plans:
            if plan.job is not None and getattr(locked.get(plan.job.id), "revision", 0) != plan.job.revision:
                raise _StaleError(f"job {plan.job.id} was changed")
        due = [fires_anew(plan, group_id, now_ms) for plan in plans]
        self._jobs.need([job for job in due if job is not None], now_ms)
        steps, made, written = [], [], []
        for plan in plans:
            job = self._write_one(conn, plan, locked, group_id, now_ms)
            written.append((locked[plan.job.id] if plan.job is not None else None, job))
            steps.append(step_of(plan)._replace(job_id=job.id))
            before = plan.record or DeclaredJob(job_id=job.id, group_id=group_id)
            record = replace(plan.recorded(before), updated_ms=now_ms)
            if plan.record is None:
                made.append(record)
            elif plan.differs:
                records.save_declared(conn, record)
        records.insert_declared(conn, made)
        self._jobs.record(conn, JobAction.SYNC, written, now_ms)
        return steps

    def _lock_owner(self, conn: Connection, group_id: int, caller: Declared) -> None:
        owner = owners.get_owner(conn, group_id, lock=True)
        if _declared(owner) != caller:
            raise ConflictError(f"release {owner.release} took the declared jobs of group {group_id} meanwhile")

    def _write_one(self, conn: Connection, plan: JobPlan, locked: Mapping[int, Job], group_id: int, now_ms: int) -> Job:
        """Write one job, and return it.

        Raises:
            _JobRefusedError: It cannot be as it is declared; the transaction must be given up.
        """
        wanted = plan.wanted
        try:
            if plan.job is None:
                draft = draft_of(plan, group_id, now_ms)
                starts = plan.starts and not self._is_over(draft, now_ms)
                job = self._jobs.insert(conn, draft, now_ms, enabled=starts)
            else:
                job = self._change_one(conn, plan, locked[plan.job.id], now_ms)
        except (FieldError, PluginError) as error:
            raise _JobRefusedError(bad_declaration(wanted, error)) from error
        except ForbiddenError as error:  # a job with a script becomes one with a handler
            raise _JobRefusedError(bad_declaration(wanted, FieldError("glue_type", str(error)))) from error
        except (ValueError, OverflowError) as error:
            raise _JobRefusedError(bad_declaration(wanted, beyond_time(error))) from error
        return job

    def _change_one(self, conn: Connection, plan: JobPlan, job: Job, now_ms: int) -> Job:
        if plan.stops:
            self._jobs.stop(conn, [job], now_ms)
            job = jobs.get_job(conn, job.id)
        if plan.changes:
            job = self._jobs.edit(conn, job, plan.values, now_ms)
        if plan.starts and not self._is_over(job, now_ms):
            job = self._jobs.start(conn, job, now_ms)
        return job

    def _is_over(self, job: Job, now_ms: int) -> bool:
        """Return whether a job that fires once has had its time: it stays stopped, for runs by hand."""
        return job.schedule_type == "ONCE" and self._jobs.next_fire(job, now_ms) is None

    def _finish(
        self, group_id: int, caller: Declared, kept: Collection[str], problems: Sequence[BadDeclaration]
    ) -> list[SyncStep]:
        """Stop what is not declared any more, note what is wrong with which job, and that the sync is complete."""
        told = {problem.name: problem for problem in problems}
        with self._db.read() as conn:
            before = records.list_declared(conn, group_id)
            found = jobs.get_jobs(conn, list(before), deleted=False)
            is_complete = owners.get_owner(conn, group_id).synced_ms is not None
        differ = [
            job_id
            for job_id, record in sorted(before.items())
            if job_id not in found or settled(record, found[job_id], kept, told) != record
        ]
        steps: list[SyncStep] = []
        for part in chunks(differ, BATCH):
            work = partial(self._settle, group_id=group_id, caller=caller, ids=part, kept=kept, told=told)
            steps += self._db.transaction(work)
        if is_complete:
            return steps
        now_ms = self._site.now_ms()

        def complete(conn: Connection) -> None:
            self._lock_owner(conn, group_id, caller)
            owners.update_owner(conn, group_id, {"synced_ms": now_ms})

        self._db.transaction(complete)
        return steps

    def _settle(
        self,
        conn: Connection,
        group_id: int,
        caller: Declared,
        ids: Sequence[int],
        kept: Collection[str],
        told: Mapping[str, BadDeclaration],
    ) -> list[SyncStep]:
        now_ms = self._site.now_ms()
        self._lock_owner(conn, group_id, caller)
        found, before = jobs.lock_jobs(conn, ids), records.get_declared(conn, ids)
        steps, written = [], []
        for job_id in ids:
            job, record = found.get(job_id), before.get(job_id)
            if record is None:
                continue
            if job is None:  # deleted by a node of an older version
                records.delete_declared(conn, [job_id])
                continue
            made = settled(record, job, kept, told)
            if made.is_retired and not record.is_retired:
                if made.was_started:
                    self._jobs.stop(conn, [job], now_ms)
                    written.append((job, stopped(job, now_ms)))
                steps.append(SyncStep(SyncAction.RETIRE, job.name, job_id))
            if made != record:
                records.save_declared(conn, replace(made, updated_ms=now_ms))
        self._jobs.record(conn, JobAction.SYNC, written, now_ms)
        return steps

    def _retiring(self, before: Mapping[int, DeclaredJob], kept: Collection[str]) -> list[SyncStep]:
        """Return which jobs would be stopped since code does not declare them any more."""
        with self._db.read() as conn:
            found = jobs.get_jobs(conn, list(before), deleted=False)
        return [
            SyncStep(SyncAction.RETIRE, job.name, job.id)
            for job in found.values()
            if job.name not in kept and not before[job.id].is_retired
        ]


class _StaleError(Exception):
    """A job is not as the plan was made from."""


class _JobRefusedError(Exception):
    """One job cannot be written.

    Attributes:
        problem: Which, and why.
    """

    def __init__(self, problem: BadDeclaration) -> None:
        super().__init__(problem.reason)
        self.problem = problem


def _owner(row: DeclarationOwner) -> Owner:
    return Owner(_declared(row), row.seen_ms)


def _declared(row: DeclarationOwner) -> Declared | None:
    return Declared(row.release, row.digest) if row.release else None


def _is_stale(owner: DeclarationOwner, now_ms: int) -> bool:
    """Return whether a sign of life of an owner's executor is worth a row."""
    return owner.seen_ms is None or now_ms - owner.seen_ms >= NOTED_MS
