"""The call: why a due time of a job has no run, or how its run went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import falcon
from xwheel import Config
from xwheel.api.http.body import take_query
from xwheel.api.http.resource import reply, view_of
from xwheel.model import Run
from xwheel.plugin import Need, Of, Operation, Permission, PluginSite, ResourceRoute

from xwheel_why.explaining import explain
from xwheel_why.facts import Facts, Verdict
from xwheel_why.gathering import Gatherer
from xwheel_why.messages import WhyEvidence, WhyQuery, WhyRun, WhyStage, WhyView, read_moment
from xwheel_why.of_runs import sentence_of


class WhyRoutes:
    """The resource of one process.

    Args:
        config: The settings.
    """

    name = "why"
    chapters: Mapping[str, str] = MappingProxyType({})

    def __init__(self, config: Config) -> None:
        self._run_days = config.upkeep.run_retention_days

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return the resource."""
        read = {"GET": Need(Permission.READ, Of.JOB)}
        return [ResourceRoute("/jobs/{job_id:id}/why", Why(Gatherer(site, self._run_days)), read)]


class Why:
    """``/jobs/{job_id}/why``.

    Args:
        gatherer: Reads the rows.
    """

    def __init__(self, gatherer: Gatherer) -> None:
        self._gatherer = gatherer

    @Operation({200: WhyView}, query=WhyQuery, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Explain a due time of a job, deleted or not: why it has no run, or how its run went and what took long."""
        query = take_query(req, WhyQuery)
        asked_ms = None if query.at is None else read_moment(query.at)
        facts = self._gatherer.gather(job_id, asked_ms)
        reply(resp, _view(facts, explain(facts)))


def _view(facts: Facts, verdict: Verdict) -> WhyView:
    listed = [run for run in (verdict.run, *verdict.runs) if run is not None]
    return WhyView(
        job_id=facts.job.id,
        job_name=facts.job.name,
        asked_ms=facts.asked_ms,
        due_ms=verdict.run.planned_ms if verdict.run is not None and facts.due_ms is None else facts.due_ms,
        before_ms=facts.naming.before_ms,
        after_ms=facts.naming.after_ms,
        kind=str(verdict.kind),
        cause=str(verdict.cause),
        sentence=verdict.sentence,
        lateness_ms=verdict.lateness_ms,
        stages=[view_of(WhyStage, stage) for stage in verdict.stages],
        took_most=verdict.took_most,
        runs=[_run_view(run) for run in listed],
        facts=dict(verdict.facts),
        evidence=[view_of(WhyEvidence, row) for row in verdict.evidence],
        missing=list(verdict.missing),
    )


def _run_view(run: Run) -> WhyRun:
    return view_of(WhyRun, run, says=sentence_of(run))
