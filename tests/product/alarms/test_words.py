"""Finding U25: an alarm says its times in the job's zone, and links to what it is about."""

from __future__ import annotations

import re

import pytest
from xwheel_alarms.records import AlarmKind

from tests.product.alarms.support import AlarmNode, Recorder, rule, run_once, settle
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.storage.database.engine import Database


@pytest.fixture
def node(db: Database, pager: Recorder, request: pytest.FixtureRequest) -> AlarmNode:
    node = AlarmNode(db, ManualClock(NOW), channels=[pager], alarm={"console_url": request.param})
    node.group()
    return node


SHANGHAI = re.compile(r"^(At|Due): \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+08:00 Asia/Shanghai$", re.MULTILINE)


@pytest.mark.parametrize("node", ["https://xwheel.example", "https://xwheel.example/"], indirect=True)
def test_u25_a_failed_run_is_told_in_the_jobs_zone_with_a_link(node: AlarmNode, pager: Recorder) -> None:
    job = node.job(schedule_type="CRON", schedule_conf="0 0 0 1 1 ?", timezone="Asia/Shanghai")
    rule(node)
    run_once(node, job)
    settle(node)
    (told,) = pager.told
    assert told.run is not None
    assert told.link == f"https://xwheel.example/#/runs/{told.run.id}"
    assert told.text.endswith(f"\nLink: {told.link}")
    assert SHANGHAI.findall(told.text) == ["At", "Due"]
    assert "UTC" not in told.text


@pytest.mark.parametrize("node", [""], indirect=True)
def test_u25_without_an_address_of_the_console_there_is_no_link(node: AlarmNode, pager: Recorder) -> None:
    job = node.job(schedule_type="CRON", schedule_conf="0 0 0 1 1 ?")
    rule(node)
    run_once(node, job)
    settle(node)
    assert [(told.link, "Link" in told.text) for told in pager.told] == [("", False)]


@pytest.mark.parametrize("node", ["http://10.0.0.1:8080"], indirect=True)
def test_u25_an_alarm_without_a_run_links_to_its_job(node: AlarmNode, pager: Recorder) -> None:
    job = node.job(schedule_type="CRON", schedule_conf="0 0 0 1 1 ?")
    rule(node, "not_run", not_run_s=60, job_id=job.id)
    for _ in range(5):
        node.clock.advance(30_000)
        node.keep_lease()
        settle(node)
    assert [(told.kind, told.link) for told in pager.told] == [
        (AlarmKind.NOT_RUN, f"http://10.0.0.1:8080/#/jobs/{job.id}")
    ]
