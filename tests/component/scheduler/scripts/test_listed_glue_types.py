"""Glue types that only a group's executors know: listed by the group, their sources travel as those of scripts do."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from tests.support.rows import job_values
from xwheel.errors import FieldError
from xwheel.model import Job, NewSource, RunState
from xwheel.scheduler.send.lane import encode_parcel
from xwheel.scheduler.sources import LISTED_MS
from xwheel.storage import executors
from xwheel.wire.codec import decode_trigger
from xwheel.wire.messages import TriggerRequest

GROOVY = "GLUE_GROOVY"
ADDRESS = "http://127.0.0.1:7001"


def listing(node: HandNode, *names: str, group_id: int = 1) -> None:
    now_ms = node.clock.now_ms()
    node.db.transaction(lambda conn: executors.update_group(conn, group_id, {"glue_types": names}, now_ms))


def make(node: HandNode, source: str | None = "return 1", **changes: object) -> Job:
    new = None if source is None else NewSource(source=source, author="a", remark="")
    values = job_values(**{"glue_type": GROOVY, "anchor_ms": node.clock.now_ms(), **changes})
    return node.scheduler.management.jobs.create(values, source=new)


def sent(node: HandNode) -> list[TriggerRequest]:
    return [decode_trigger(encode_parcel(parcel)[1]) for parcel in node.sent]


@pytest.fixture
def site(node: HandNode) -> HandNode:
    """A node with a foreign executor in its group."""
    node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9001")
    node.register(ADDRESS, kind="foreign", instance="", boot="")
    return node


def test_only_a_group_that_lists_it_may_have_jobs_of_it(site: HandNode) -> None:
    other = site.group("other")
    with pytest.raises(
        FieldError, match="'GLUE_GROOVY' is not installed; known: .*listed in glue_types of the group"
    ) as told:
        make(site)
    assert told.value.field == "glue_type"
    listing(site, "GLUE_PERL", GROOVY)
    job = make(site)
    with pytest.raises(FieldError, match="is not installed"):
        make(site, group_id=other)
    with pytest.raises(FieldError, match="is not installed"):
        site.scheduler.management.jobs.edit(job.id, {"group_id": other})
    site.scheduler.management.jobs.edit(job.id, {"glue_type": "GLUE_PERL"})


def test_its_source_travels_with_each_run_and_a_new_one_from_then_on(site: HandNode) -> None:
    listing(site, GROOVY)
    job = make(site)
    site.scheduler.management.run_now.run(job.id)
    site.run_for(500)
    site.scheduler.core.scripts.save(job.id, NewSource(source="return 2", author="a", remark=""))
    site.scheduler.management.run_now.run(job.id)
    site.run_for(500)
    found = sent(site)
    assert [(item.glue_type, item.glue_source) for item in found] == [(GROOVY, "return 1"), (GROOVY, "return 2")]
    assert found[0].glue_updated_ms < found[1].glue_updated_ms
    assert [call.url for call in site.line.calls] == [f"{ADDRESS}/run"] * 2


def test_without_a_source_it_cannot_run(site: HandNode) -> None:
    listing(site, GROOVY)
    job = make(site, None)
    with pytest.raises(FieldError, match="a GLUE_GROOVY job needs a source before it can run"):
        site.scheduler.management.run_now.run(job.id)
    with pytest.raises(FieldError, match="needs a source"):
        site.scheduler.management.jobs.start(job.id)


def test_what_a_group_lists_counts_for_the_next_run_and_ends_within_a_second(site: HandNode) -> None:
    listing(site, GROOVY)
    job = make(site)
    listing(site)  # as only a node of another version, or a person in the database, would do it
    site.scheduler.management.run_now.run(job.id)
    site.run_for(500)
    (refused,) = site.runs(job.id)
    assert (refused.state, refused.reason) == (RunState.REFUSED, "no_glue_type")
    listing(site, GROOVY)
    site.scheduler.management.run_now.run(job.id)
    site.run_for(500)
    assert len(sent(site)) == 1
    listing(site)
    site.run_for(1000)
    site.scheduler.management.run_now.run(job.id)
    site.run_for(500)
    assert len(sent(site)) == 1
    assert [run.reason for run in site.runs(job.id)] == ["no_glue_type", "", "no_glue_type"]


def test_one_question_a_second_asks_for_all_of_them(site: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(site, GROOVY)
    made = [make(site, name=f"job {number}") for number in range(20)]
    asked: list[object] = []
    real = executors.get_groups
    for job in made:
        site.scheduler.management.run_now.run(job.id)

    def count(conn: object, ids: object) -> object:
        asked.append(ids)
        return real(conn, ids)  # type: ignore[arg-type]

    monkeypatch.setattr(executors, "get_groups", count)
    site.run_for(500)
    assert len(sent(site)) == 20
    assert asked == [{1}]


def test_what_was_read_just_in_time_still_counts_when_the_run_is_judged(
    site: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing(site, GROOVY)
    job = make(site)
    sources = site.scheduler.core.sources
    sources.find([job])
    read_ms = site.clock.monotonic_ms()
    real = sources.find

    def slow(wanted: list[Job]) -> object:
        found = real(wanted)
        if site.clock.monotonic_ms() - read_ms < LISTED_MS:
            site.clock.advance(LISTED_MS)  # the thread waited for the processor meanwhile
        return found

    monkeypatch.setattr(sources, "find", slow)
    site.scheduler.management.run_now.run(job.id)
    site.run_for(500)
    assert len(sent(site)) == 1
