"""Make one verdict of what was gathered; a pure function, so that each cause is tested without a database."""

from __future__ import annotations

from msgspec.structs import replace

from xwheel_why.facts import Facts, Verdict
from xwheel_why.of_runs import row_of, verdict_on_cancelled, verdict_on_run, verdict_on_skip
from xwheel_why.without_run import verdict_without_run


def explain(facts: Facts) -> Verdict:
    """Return why a due time has no run, or how its run went: of a row of its own if there is one, or of other rows."""
    if facts.run is not None:
        if facts.run.state == "cancelled":
            return verdict_on_cancelled(facts, facts.run)
        return verdict_on_skip(facts, facts.run) if facts.run.state == "skipped" else verdict_on_run(facts, facts.run)
    if facts.skip is not None:
        return verdict_on_skip(facts, facts.skip)
    if facts.cancelled:
        return verdict_on_cancelled(facts, facts.cancelled[0])
    verdict = verdict_without_run(facts)
    others = [row_of(run, f"a run of another origin ({run.origin}) was due then") for run in facts.others]
    return replace(verdict, evidence=[*verdict.evidence, *others])
