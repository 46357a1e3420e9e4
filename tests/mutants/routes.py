"""Mistakes in the management API: whose objects it shows, and which calls it takes for the same."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/api/http/errors.py",
        old="detail=OUTAGE if isinstance(error, errors.OutageError) else str(error)",
        new="detail=str(error)",
        why="Strangers hear where the database is, and as whom the node signs in (S28).",
        tests=("tests/component/api/http/test_bad_input.py",),
    ),
    Mistake(
        file="xwheel/runtime/http_limits.py",
        old="        if not is_due:\n            return False\n",
        new="",
        why="Who closes a connection in the right moment writes a line into the log each time (S25).",
        tests=("tests/security/test_listeners.py",),
    ),
    Mistake(
        file="xwheel/api/http/headers.py",
        old="    if not text.isprintable():\n",
        new="    if not text:\n",
        why="A reason could hold line feeds, and so look like further entries.",
        tests=(
            "tests/product/accounts/api/test_audit.py::test_a_reason_that_cannot_be_read_is_refused_and_nothing_is_done",
        ),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/resources.py",
        old="alarm_id=query.alarm_id, groups=readable_groups()\n",
        new="alarm_id=query.alarm_id, groups=None\n",
        why="Attempts to tell alarms of other groups would be listed.",
        tests=("tests/security/test_own_objects.py::test_lists_hold_the_objects_of_the_callers_groups_and_no_others",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/resources.py",
        old=("group_id=query.group_id, groups=readable_groups()),\n            after_id"),
        new=("group_id=query.group_id, groups=None),\n            after_id"),
        why="Alarm rules of other groups would be listed, with their receivers.",
        tests=("tests/security/test_own_objects.py::test_lists_hold_the_objects_of_the_callers_groups_and_no_others",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/resources.py",
        old=("        finally:\n            self._places.release()\n"),
        new=("        finally:\n            pass\n"),
        why="After a few tests of channels no further one could be sent.",
        tests=("tests/product/alarms/test_resources.py::test_a_test_that_cannot_be_sent_says_why",),
    ),
    Mistake(
        file="plugins/alarms/xwheel_alarms/resources.py",
        old=(
            "        changes = _checked(take_changes(req, AlarmRuleChange, self._limit))\n"
            '        revision = wanted_revision(req, changes.pop("revision", None))\n'
        ),
        new=(
            "        changes = _checked(take_changes(req, AlarmRuleChange, self._limit))\n"
            '        revision = changes.pop("revision", None)\n'
        ),
        why="An edit of a rule would not keep to its If-Match.",
        tests=("tests/product/alarms/test_resources.py::test_a_rule_that_somebody_else_changed_is_a_conflict",),
    ),
    Mistake(
        file="xwheel/api/v1/groups.py",
        old="limit=query.limit + 1, groups=readable_groups()\n",
        new="limit=query.limit + 1, groups=None\n",
        why="Groups would be listed for those who may not read them.",
        tests=("tests/security/test_own_objects.py::test_lists_hold_the_objects_of_the_callers_groups_and_no_others",),
    ),
    Mistake(
        file="xwheel/api/v1/jobs.py",
        old="                above = [link for link in above if link.parent_id in seen]\n",
        new="",
        why="A job would name parents in groups that the caller may not read.",
        tests=("tests/security/test_own_objects.py::TestChildren::test_what_the_caller_does_not_see_stays",),
    ),
    Mistake(
        file="xwheel/api/v1/jobs.py",
        old=("        if refused:\n            actor, path"),
        new=("        if not results:\n            actor, path"),
        why="Refused changes of many jobs would not be in the audit.",
        tests=(
            "tests/product/accounts/api/test_audit.py::test_what_is_hidden_from_a_caller_is_a_refusal_and_what_is_not_there_is_none",
        ),
    ),
    Mistake(
        file="plugins/reports/xwheel_reports/resources.py",
        old="executors=sum(groups is None or item.group_id in groups for item in live),",
        new="executors=len(live),",
        why="The overview would count executors of groups that the caller may not read.",
        tests=("tests/security/test_own_objects.py::test_reports_and_the_overview_count_the_callers_groups",),
    ),
    Mistake(
        file="plugins/reports/xwheel_reports/resources.py",
        old=("query.group_id, job_id=query.job_id, groups=groups\n            )"),
        new=("query.group_id, job_id=query.job_id, groups=None\n            )"),
        why="The totals of a report would count runs of groups that the caller may not read.",
        tests=("tests/security/test_own_objects.py::test_reports_and_the_overview_count_the_callers_groups",),
    ),
    Mistake(
        file="plugins/xxl_calls/xwheel_xxl_calls/rate.py",
        old="left = min(self._full, left + ",
        new="left = (left + ",
        why="A caller that rested for an hour could make a flood of calls.",
        tests=("plugins/xxl_calls/tests/test_rate.py",),
    ),
    Mistake(
        file="xwheel/api/http/csv_file.py",
        old='return f"\'{value}" if value.startswith(FORMULAS) else value',
        new="return value",
        why="A name in a saved list would be a formula in a spreadsheet.",
        tests=("tests/unit/api/v1/test_csv.py",),
    ),
    Mistake(
        file="xwheel/api/http/csv_file.py",
        old=("        with acting(actor):\n            return pages(after, limit)"),
        new="        return pages(after, limit)",
        why="The later pages of a file would be read with no one's rights.",
        tests=("tests/unit/api/v1/test_csv.py",),
    ),
    Mistake(
        file="xwheel/api/http/csv_file.py",
        old="        left -= len(rows)\n",
        new="",
        why="A file would have no limit of rows.",
        tests=("tests/unit/api/v1/test_csv.py",),
    ),
    Mistake(
        file="xwheel/api/http/static.py",
        old="if body is None or body.stamp != stamp:",
        new="if body is None:",
        why="After an update in place browsers would get the old files.",
        tests=("tests/component/api/http/test_pages.py",),
    ),
    Mistake(
        file="xwheel/api/http/static.py",
        old='        if body.packed is not None and "gzip" in',
        new='        if body.packed is not None or "gzip" in',
        why="A browser that cannot unpack would get packed files.",
        tests=("tests/component/api/http/test_pages.py",),
    ),
    Mistake(
        file="plugins/job_versions/xwheel_job_versions/resources.py",
        old="                before = storage.find_before(conn, job_id, revision)\n",
        new="                before = storage.find_before(conn, job_id, revision - 1)\n",
        why="What a version changed would be told against the one before the last.",
        tests=("tests/product/job_versions/test_versions.py",),
    ),
    Mistake(
        file="plugins/job_versions/xwheel_job_versions/resources.py",
        old="self._jobs.restore(job_id, revision, seen=wanted_revision(req, body.revision))",
        new="self._jobs.restore(job_id, revision)",
        why="A way back would undo an edit that its caller has not seen.",
        tests=("tests/product/job_versions/test_versions.py",),
    ),
    Mistake(
        file="xwheel/api/v1/versions.py",
        old=("made = self.scripts.save(job_id, new, revision=wanted_revision(req, body.revision))"),
        new="made = self.scripts.save(job_id, new)",
        why="Of two edits of a script at once the second would overwrite the first unseen.",
        tests=("tests/component/api/v1/test_scripts.py",),
    ),
    Mistake(
        file="xwheel/api/v1/groups.py",
        old="gone = set(group.glue_types) - set(names) - set(self.plugins.glue_types)",
        new="gone = set(names) - set(group.glue_types) - set(self.plugins.glue_types)",
        why="A glue type could be taken from a group whose jobs have it.",
        tests=("tests/component/api/v1/test_groups.py::test_a_group_lists_glue_types_that_only_its_executors_know",),
    ),
    Mistake(
        file="xwheel/api/v1/jobs.py",
        old="self.plan_run(resp, job_id, key, body.param, addresses, read_when",
        new="self.plan_run(resp, job_id, None, body.param, addresses, read_when",
        why="A call that is made again under the same key would plan a second run.",
        tests=("tests/component/api/v1/test_jobs.py::test_the_same_key_gives_the_same_run",),
    ),
    Mistake(
        file="xwheel/api/v1/runs.py",
        old="self.plan_run(resp, known.job_id, key, param, again=run_id)",
        new="self.plan_run(resp, known.job_id, None, param, again=run_id)",
        why="A rerun that is asked for again under the same key would run once more.",
        tests=("tests/component/api/v1/test_run_actions.py",),
    ),
    Mistake(
        file="xwheel/scheduler/runs/run_now.py",
        old="origin_key = run_id if idempotency_key is None else _hash_key(idempotency_key)",
        new='origin_key = _hash_key(idempotency_key or "")',
        why="Of two runs by hand without a key only the first would be made.",
        tests=("tests/component/api/v1/test_jobs.py::test_a_run_by_hand_is_planned_at_once",),
    ),
    Mistake(
        file="xwheel/api/v1/runs.py",
        old="param = known.param if body.param is None else body.param",
        new="param = body.param or known.param",
        why="A run could not be made again with an empty parameter.",
        tests=("tests/component/api/v1/test_run_actions.py",),
    ),
    Mistake(
        file="xwheel/api/http/static.py",
        old='        if found is None or found["name"] not in files:\n',
        new="        if found is None:\n",
        why="A path of a plugin that there is not would be an error of the server.",
        tests=("tests/component/api/http/test_pages.py",),
    ),
    Mistake(
        file="xwheel/api/v1/calendars.py",
        old=('        if error.field.startswith("calendar."):\n            raise\n'),
        new="",
        why="A fault in a calendar would not say in which entry it is.",
        tests=("tests/component/api/v1/test_calendars.py::test_a_definition_that_cannot_be_understood_is_not_written",),
    ),
    Mistake(
        file="xwheel/plugin/resources.py",
        old='route.at_root and route.path.split("/")[1] == "api"',
        new='route.at_root and route.path == "/api"',
        why="A plugin could put a page of its own among the resources of the management API, past its prefix.",
        tests=("tests/component/api/plugins/test_resources.py",),
    ),
    Mistake(
        file="xwheel/api/plugins/routes.py",
        old="template = route.path if route.at_root else PREFIX + route.path",
        new="template = PREFIX + route.path",
        why="A page that belongs at the root would be below the prefix.",
        tests=("tests/component/api/plugins/test_resources.py",),
    ),
    Mistake(
        file="xwheel/api/app.py",
        old="    further.site.served = app.routes\n",
        new="",
        why="A plugin would see nothing of what is served, and describe an empty API.",
        tests=("tests/component/api/plugins/test_resources.py", "tests/product/openapi/test_served.py"),
    ),
    Mistake(
        file="xwheel/plugin/gates.py",
        old="    return replace(found, grants=checked_grants(gate, found.grants), address=address)",
        new="    return replace(found, grants=checked_grants(gate, found.grants))",
        why="A gate says for itself where a call came from.",
        tests=("tests/unit/plugin/test_gates.py",),
    ),
    Mistake(
        file="xwheel/plugin/gates.py",
        old="    if type(found) is not Grant or type(found.role) is not Role or type(found.script) is not bool:",
        new="    if type(found) is not Grant or type(found.role) is not Role:",
        why="A grant says by code of its own whether it allows scripts.",
        tests=("tests/unit/plugin/test_gates.py",),
    ),
    Mistake(
        file="xwheel/plugin/validation.py",
        old="        are_fit = all(type(item) is LogReceipt and item.run_id in asked for item in found)",
        new="        are_fit = all(type(item) is LogReceipt for item in found)",
        why="A log store settles the logs of runs that it was not asked about.",
        tests=("tests/component/api/plugins/test_run_logs.py",),
    ),
    Mistake(
        file="xwheel/plugin/validation.py",
        old="    if due_ms is None or (type(due_ms) is int and after_ms < due_ms <= LAST_MS):",
        new="    if due_ms is None or (type(due_ms) is int and after_ms <= due_ms <= LAST_MS):",
        why="A schedule type that names the same time again fires for ever.",
        tests=("tests/component/scheduler/plan/test_lying_schedules.py",),
    ),
    Mistake(
        file="xwheel/plugin/validation.py",
        old="        if address in picked:\n",
        new="        if address in picked and len(found) > len(known):\n",
        why="A router that names an executor twice loses a shard.",
        tests=("tests/unit/plugin/test_u10_defaults.py",),
    ),
]
