"""A scheduler node brings operations to nodes and takes back how they went: tables, a store in memory, given times."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import Site
from sqlalchemy import delete
from world import World
from xwheel.plugin import FieldError, RouteRefusedError
from xwheel_job_package import set_distribution
from xwheel_job_package.tables import JOB

from xwheel_cluster_zookeeper.memory import MemoryBackend
from xwheel_cluster_zookeeper.mirror import COMPARE_MS, TIMEOUT_MS, Mirror
from xwheel_cluster_zookeeper.model import JobState, Mode, Result, Wanted, job_key
from xwheel_cluster_zookeeper.paths import Paths
from xwheel_cluster_zookeeper.preparations import Prepared
from xwheel_cluster_zookeeper.view import ClusterView
from xwheel_cluster_zookeeper.zookeeper import ZooKeeperBackend


class Scheduler:
    """A scheduler node with its part of a cluster."""

    def __init__(self, world: World, site: Site) -> None:
        self.world = world
        self.site = site
        self.backend = MemoryBackend(world.store, monotonic_ms=lambda: world.now_ms)
        self.view = ClusterView()
        self.mirror = Mirror(self.backend, self.view, mode=world.mode)
        self.mirror.open(site)

    def run(self, rounds: int = 4) -> None:
        """Let it and all nodes work in turn, 200 ms each time."""
        for _ in range(rounds):
            self.mirror.step(self.world.now_ms)
            self.world.run(1, 200)
        self.mirror.step(self.world.now_ms)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def site(tmp_path: Path, world: World) -> Iterator[Site]:
    made = Site(tmp_path, 6, lambda: world.now_ms)
    yield made
    made.close()


@pytest.fixture
def scheduler(world: World, site: Site) -> Iterator[Scheduler]:
    made = Scheduler(world, site)
    set_distribution(made.mirror)
    made.mirror.step(world.now_ms)
    yield made
    set_distribution(None)


def key(number: int) -> str:
    return job_key(number, "acme.jobs", f"job{number}")


def last(site: Site, job_id: int = 1) -> tuple[str, str]:
    row = site.log(job_id)[-1]
    return row["result"], row["reason"]


def test_start_reaches_a_node_and_is_settled(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-1: within 5 s a node has the job, it is Startup with Success, and one row of the log is closed."""
    world.add("a", "b")
    scheduler.run()
    began = world.now_ms
    answer = site.operate("Start")
    assert (answer["result"], answer["version"]) == ("Waiting", 2)
    while last(site) != ("Success", ""):
        scheduler.run(1)
        assert world.now_ms - began < 5_000
    assert list(world.where()) == [1]
    (row,) = site.log()
    assert row["ended_ms"] is not None
    assert scheduler.mirror.describe(1) == {
        "node_id": "a",
        "address": "http://127.0.0.1/a",
        "attempt": 1,
        "not_before_ms": 0,
        "state": "Startup",
        "result": "Success",
        "reason": "",
        "error": "",
    }
    assert site.jobs.get(1)["enabled"] is True


def test_nodes_are_told_what_an_operation_says(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-13: the version goes along as the number of the operation, one more for each that is accepted."""
    world.add("a")
    site.jobs.get(1)["route_options"] = "tag=gpu"
    for number, (operation, wanted) in enumerate(
        [("Start", Wanted.STARTED), ("Restart", Wanted.STARTED), ("Pause", Wanted.STOPPED)], 2
    ):
        site.operate(operation, **({"cron": "0 0 2 * * ?"} if operation == "Restart" else {}))
        scheduler.run()
        record = world.state.jobs[key(1)].value
        assert (record.op_seq, record.operation, record.wanted) == (number, operation, wanted)
        assert (record.job_id, record.tag, record.updated_by) == (1, "gpu", "anna")
        assert record.operation_id == site.log()[-1]["id"]
        source = json.loads(record.source)
        assert (source["sha256"], source["signature"]) == ("a" * 64, "0123456789abcdef:signed")


def test_an_upload_alone_writes_nothing(scheduler: Scheduler, world: World) -> None:
    """OPS-1: a job that was never started needs no record."""
    world.add("a")
    scheduler.run()
    assert world.state.jobs == {}


def test_what_a_later_version_added_to_a_record_stays(scheduler: Scheduler, site: Site, world: World) -> None:
    world.add("a")
    site.operate("Start")
    scheduler.run()
    known = world.state.jobs[key(1)]
    world.scheduler.put_job(replace(known.value, more={"colour": "green"}), known.version)
    site.operate("Pause")
    scheduler.run()
    now = world.state.jobs[key(1)].value
    assert (now.op_seq, now.more) == (known.value.op_seq + 1, {"colour": "green"})


def test_pause_takes_the_job_from_its_node(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-5: after Pause no node has the job, and the operation is closed."""
    world.add("a")
    site.operate("Start")
    scheduler.run(6)
    site.operate("Pause")
    scheduler.run(6)
    assert last(site) == ("Success", "")
    assert world.where() == {}
    assert world.state.assignments == {}
    assert scheduler.mirror.describe(1)["state"] == "Pause"  # type: ignore[index]


def test_a_permanent_failure_puts_the_state_back(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-7: Failed with reason and text; the job is what it was, and fires no more."""
    (member,) = world.add("a")
    member.preparations.outcome = Prepared("sdk_mismatch", "protocol 1, not 2", True)
    site.operate("Start")
    assert site.jobs.get(1)["enabled"] is True
    scheduler.run(6)
    assert last(site) == ("Failed", "sdk_mismatch")
    assert site.log()[0]["error"] == "protocol 1, not 2"
    assert (site.job()["state"], site.jobs.get(1)["enabled"]) == ("Shutdown", False)
    assert world.state.assignments == {}
    member.preparations.outcome = Prepared()
    site.operate("Start")
    scheduler.run(6)
    assert last(site) == ("Success", "")


def test_a_transient_failure_shows_its_retries(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-6: while it is retried the operation waits, with the number of the attempt; it ends as the last one does."""
    for member in world.add("a", "b"):
        member.preparations.outcome = Prepared("console_unreachable", "no answer", False)
    site.operate("Start")
    scheduler.run(6)
    assert last(site) == ("Waiting", "retrying_1")
    assert site.log()[0]["ended_ms"] is None
    for member in world.members.values():
        member.preparations.outcome = Prepared()
    world.now_ms += 5_000
    scheduler.run(6)
    assert last(site) == ("Success", "")


def test_a_newer_operation_supersedes_an_older(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-8: the older one is closed as superseded and changes nothing; the newer one is what nodes do."""
    (member,) = world.add("a")
    member.preparations.outcome = Prepared("console_unreachable", "no answer", False)
    site.operate("Start")
    scheduler.run(6)
    member.preparations.outcome = Prepared()
    site.operate("Restart", cron="0 0 3 * * ?")
    scheduler.run(6)
    first, second = site.log()
    assert (first["result"], first["reason"]) == ("Failed", "superseded")
    assert (second["result"], second["reason"]) == ("Success", "")
    assert (site.job()["state"], site.jobs.get(1)["enabled"]) == ("Startup", True)
    assert world.state.assignments[key(1)].value.attempt == 1


def test_no_answer_in_time_and_a_late_one(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-11: after 60 s Failed(timeout), what is wanted stays; the late answer is in the log and changes no state."""
    (member,) = world.add("a")
    member.preparations.outcome = None
    site.operate("Start")
    scheduler.run(6)
    assert last(site) == ("Waiting", "executing")
    world.now_ms += TIMEOUT_MS
    scheduler.run(2)
    assert last(site) == ("Failed", "timeout")
    assert "within 60 s" in site.log()[0]["error"]
    assert (site.job()["state"], site.jobs.get(1)["enabled"]) == ("Startup", True)
    ended = site.log()[0]["ended_ms"]
    member.preparations.outcome = Prepared()
    again = Scheduler(world, site)  # as after a restart: it knows from the tables
    scheduler.backend.close()
    again.run(6)
    (row,) = site.log()
    assert (row["result"], row["reason"], row["ended_ms"]) == ("Failed", "timeout", ended)
    assert row["error"].endswith("answered later: Success")
    assert site.job()["version"] == 2


def test_the_time_counts_from_the_delivery(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-11: an operation long after the one before it is not closed before it was brought to the nodes."""
    (member,) = world.add("a")
    site.operate("Start")
    scheduler.run(6)
    world.now_ms += 2 * TIMEOUT_MS
    member.preparations.outcome = None
    site.operate("Restart", cron="0 0 4 * * ?")
    scheduler.mirror.step(world.now_ms)
    assert last(site)[0] == "Waiting"
    scheduler.run(6)
    assert last(site) == ("Waiting", "executing")


def test_what_is_being_begun_is_not_brought_to_nodes(
    scheduler: Scheduler, site: Site, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-9: nodes hear of an operation only when the scheduler has taken it; one that is refused leaves nothing."""
    world.add("a")
    scheduler.run(2)

    def refuse(job_id: int) -> None:
        world.now_ms += COMPARE_MS
        scheduler.mirror.step(world.now_ms)  # meanwhile, on another thread
        raise FieldError("schedule_conf", "cannot be used")

    monkeypatch.setattr(site.jobs, "start", refuse)
    with pytest.raises(RouteRefusedError, match="cannot be used"):
        site.operate("Start")
    scheduler.run(2)
    assert world.state.jobs == {}
    assert (site.job()["state"], site.job()["version"]) == ("Shutdown", 1)


def test_a_late_answer_to_an_older_operation(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-11: what a node says of an operation that another followed closes neither and changes no state."""
    (member,) = world.add("a")
    member.preparations.outcome = None
    site.operate("Start")
    scheduler.run(6)
    stale = world.state.statuses[key(1)]
    site.operate("Pause")
    scheduler.run(1)
    late = replace(stale.value, result=Result.FAILED, is_permanent=True, reason="late")
    known = world.state.statuses[key(1)]
    world.scheduler.put_status(late, known.version)
    scheduler.mirror.step(world.now_ms)
    assert site.job()["state"] == "Pause"
    scheduler.run(6)
    assert [(row["result"], row["reason"]) for row in site.log()] == [("Failed", "superseded"), ("Success", "")]


def test_with_the_store_down_operations_are_queued(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-12: Waiting(queued) at once, however long it takes; brought once after the store came back."""
    world.add("a")
    scheduler.run(2)
    scheduler.backend.suspend()
    answer = site.operate("Start")
    assert (answer["result"], answer["reason"]) == ("Waiting", "queued")
    world.now_ms += 10 * TIMEOUT_MS
    for _ in range(3):
        assert scheduler.mirror.step(world.now_ms) > 0
    assert last(site) == ("Waiting", "queued")
    written: list[int] = []
    put_job = scheduler.backend.put_job

    def count(record: Any, expected: int | None) -> None:
        written.append(record.op_seq)
        put_job(record, expected)

    scheduler.backend.put_job = count  # type: ignore[method-assign]
    scheduler.backend.resume()
    scheduler.run(6)
    assert last(site) == ("Success", "")
    assert written == [2]


def test_a_session_that_is_lost_begins_anew(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-12: after the loss of the scheduler's own session everything is read and written as before."""
    world.add("a")
    scheduler.run(2)
    scheduler.backend.lose()
    site.operate("Start")
    assert site.log()[0]["reason"] == "queued"
    scheduler.run(2)
    assert last(site) == ("Waiting", "queued")
    scheduler.backend.resume()
    scheduler.run(6)
    assert last(site) == ("Success", "")


def test_a_write_that_was_cut_off_is_made_once_more(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-12: a scheduler node that is killed after the commit leaves the operation to the next one."""
    world.add("a")
    scheduler.run(2)
    site.operate("Start")
    scheduler.backend.close()  # before its next step
    again = Scheduler(world, site)
    again.run(6)
    assert last(site) == ("Success", "")
    assert world.state.jobs[key(1)].version == 0


def test_two_scheduler_nodes_write_one_at_a_time(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-12: one of two brings the operations, both know the state; the other takes over when the first is gone."""
    world.add("a")
    other = Scheduler(world, site)
    scheduler.run(2)
    other.run(2)
    other.backend.put_job = None  # type: ignore[assignment, method-assign]
    site.operate("Start")
    for _ in range(8):
        scheduler.run(1)
        other.mirror.step(world.now_ms)
    assert last(site) == ("Success", "")
    assert other.mirror.describe(1) == scheduler.mirror.describe(1)
    del other.backend.put_job
    scheduler.backend.close()
    site.operate("Pause")
    world.now_ms += 1_000
    other.run(6)
    assert last(site) == ("Success", "")


def test_who_lost_its_session_writes_only_with_the_lock(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-12: a scheduler node whose session was lost unseen asks for the lock before it writes anything more."""
    world.add("a")
    scheduler.run(2)
    scheduler.backend.lose()
    other = Scheduler(world, site)
    other.mirror.step(world.now_ms)
    scheduler.backend.resume()  # between two of its steps
    scheduler.backend.put_job = None  # type: ignore[assignment, method-assign]
    site.operate("Start")
    scheduler.mirror.step(world.now_ms)
    assert world.state.jobs == {}
    other.run(6)
    assert last(site) == ("Success", "")


def test_a_job_without_a_node_says_why(scheduler: Scheduler, site: Site) -> None:
    """CLU-17: without an eligible node the operation waits, and says no_eligible_node."""
    world = scheduler.world
    world.add("a")
    site.jobs.get(1)["route_options"] = "tag=gpu"
    site.operate("Start")
    scheduler.run(6)
    assert last(site) == ("Waiting", "no_eligible_node")
    world.add("b", tags=("gpu",))
    scheduler.run(6)
    assert last(site) == ("Success", "")


def test_nodes_that_vanish_are_seen_dead(scheduler: Scheduler, site: Site, world: World) -> None:
    """CLU-7: the scheduler asks after the runs of a node whose registration is gone, once; its job goes elsewhere."""
    world.add("a", "b")
    site.operate("Start")
    scheduler.run(6)
    world.kill("a")
    scheduler.run(6)
    assert site.seen_dead == ["http://127.0.0.1/a"]
    assert world.where() == {1: "b"}
    assert last(site) == ("Success", "")


def test_a_node_that_came_back_at_once_is_not_seen_dead(scheduler: Scheduler, site: Site, world: World) -> None:
    """CLU-10: a node that joined again in a new session keeps the runs that it has."""
    (member,) = world.add("a")
    scheduler.run(2)
    member.backend.lose()
    member.backend.resume()
    world.run(2)
    scheduler.run(2)
    assert site.seen_dead == []
    assert [node["is_lost"] for node in scheduler.mirror.summary(world.now_ms)["nodes"]] == [False]


def test_a_node_that_is_back_is_lost_no_more(scheduler: Scheduler, site: Site, world: World) -> None:
    """CON-5: a node is listed once, as it is now."""
    world.add("a", "b")
    scheduler.run(2)
    world.kill("b")
    scheduler.run(2)
    assert [node["is_lost"] for node in scheduler.mirror.summary(world.now_ms)["nodes"]] == [False, True]
    world.add("b")
    scheduler.run(2)
    assert [node["is_lost"] for node in scheduler.mirror.summary(world.now_ms)["nodes"]] == [False, False]


def test_the_reset_of_a_first_node_reaches_the_tables(scheduler: Scheduler, site: Site, world: World) -> None:
    """CLU-1: jobs that the first node stopped are Shutdown for the scheduler too; a later Start works."""
    world.add("a")
    site.operate("Start")
    scheduler.run(6)
    world.kill("a")
    world.add("b", is_reset=True)
    scheduler.run(6)
    assert (site.job()["state"], site.jobs.get(1)["enabled"]) == ("Shutdown", False)
    assert [row["operation"] for row in site.log()] == ["Start", "Reset"]
    assert scheduler.mirror.describe(1)["state"] == JobState.SHUTDOWN  # type: ignore[index]
    assert world.where() == {}
    site.operate("Start")
    scheduler.run(6)
    assert last(site) == ("Success", "")
    assert world.where() == {1: "b"}


def test_records_of_deleted_jobs_go(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-12: the tables decide which jobs there are; operations on what is deleted are closed."""
    world.add("a")
    site.operate("Start", 1)
    site.operate("Start", 2)
    scheduler.run(6)
    site.operate("Pause", 2)
    site.database.transaction(lambda conn: conn.execute(delete(JOB)))
    world.now_ms += COMPARE_MS
    scheduler.run(6)
    assert world.state.jobs == {}
    assert world.where() == {}
    assert last(site, 2) == ("Failed", "job_deleted")


def test_a_store_that_lost_all_is_filled_again(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-12: what the tables say is started is started again when the records are gone."""
    world.add("a")
    site.operate("Start")
    scheduler.run(6)
    world.scheduler.delete_job(key(1), world.state.jobs[key(1)].version)
    world.now_ms += COMPARE_MS
    scheduler.run(6)
    assert world.where() == {1: "a"}


def test_a_rebalance_moves_jobs(scheduler: Scheduler, site: Site, world: World) -> None:
    """CLU-16: nothing moves until it is asked for; then loads are even, and no operation is logged."""
    world.add("a")
    for number in range(1, 7):
        site.operate("Start", number)
    scheduler.run(6)
    world.add("b")
    scheduler.run(6)
    assert set(world.where().values()) == {"a"}
    assert scheduler.mirror.rebalance() == 3
    scheduler.run(8)
    assert sorted(world.where().values()) == ["a", "a", "a", "b", "b", "b"]
    assert all(len(site.log(number)) == 1 for number in range(1, 7))
    world.add("c")
    scheduler.run(6)
    assert sorted(world.where().values()) == ["a", "a", "a", "b", "b", "b"]


def test_what_is_known_is_told_with_its_age(scheduler: Scheduler, site: Site, world: World) -> None:
    """CON-5: with the store down the last state is told, with its age; nodes that are gone say when they were seen."""
    world.add("a", "b", tags=("gpu",))
    site.operate("Start")
    scheduler.run(6)
    seen = world.now_ms
    world.kill("b")
    scheduler.run(1)
    scheduler.backend.suspend()
    world.now_ms += 5_000
    scheduler.mirror.step(world.now_ms)
    found = scheduler.mirror.summary(world.now_ms)
    assert (found["connection"], found["is_reachable"], found["age_ms"]) == ("suspended", False, 5_000)
    assert (found["mode"], found["master"], found["epoch"]) == ("master-slave-node", "a", 1)
    assert found["jobs"] == {"started": 1, "assigned": 1, "waiting": 0, "retrying": 0, "failed": 0}
    here, gone = found["nodes"]
    assert (here["node_id"], here["role"], here["jobs"], here["tags"]) == ("a", "Master", 1, ["gpu"])
    assert (here["is_lost"], here["last_seen_ms"]) == (False, None)
    assert (gone["node_id"], gone["is_lost"], gone["last_seen_ms"]) == ("b", True, seen)
    json.dumps(found)


def test_before_the_first_connection_nothing_is_known(world: World, site: Site) -> None:
    """CON-5: a scheduler node that never reached the store says so."""
    made = Scheduler(world, site)
    found = made.mirror.summary(world.now_ms)
    assert (found["is_reachable"], found["age_ms"], found["nodes"]) == (False, None, [])
    assert made.mirror.waiting_reason() == "queued"


def test_tables_from_a_backup_catch_up(scheduler: Scheduler, site: Site, world: World) -> None:
    """OPS-13: where the cluster knows later operations than the tables, the next one gets a later number yet."""
    world.add("a")
    site.operate("Start")
    scheduler.run(6)
    record = world.state.jobs[key(1)]
    world.scheduler.put_job(replace(record.value, op_seq=9, operation_id=77), record.version)
    scheduler.run(6)
    site.operate("Restart", cron="0 0 4 * * ?")
    assert site.job()["version"] == 3
    scheduler.run(6)
    assert site.job()["version"] == 10
    assert last(site) == ("Success", "")
    assert world.state.jobs[key(1)].value.op_seq == 10


def test_many_operations_are_brought_in_several_steps(
    scheduler: Scheduler, site: Site, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-12: what is too much for one step follows in the next; nothing waits for the comparison of all jobs."""
    monkeypatch.setattr("xwheel_cluster_zookeeper.mirror.MOST_WRITES", 2)
    world.add("a")
    scheduler.run(2)
    for number in range(1, 7):
        site.operate("Start", number)
    for number in range(1, 4):
        scheduler.mirror.step(world.now_ms)
        assert len(world.state.jobs) == 2 * number
        world.now_ms += 200
    scheduler.run(6)
    assert {last(site, number) for number in range(1, 7)} == {("Success", "")}


def test_without_any_server_nothing_blocks(world: World, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-12, CON-5: where nothing listens at ZooKeeper's address, operations are queued and no call waits for it."""
    waits: list[float] = []

    def waited(_: object, timeout_s: float) -> bool:
        waits.append(timeout_s)
        return False

    monkeypatch.setattr(
        "xwheel_cluster_zookeeper.zookeeper._answer", lambda _: pytest.fail("it asks ZooKeeper and waits")
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # bound, but it does not listen
        hosts = f"127.0.0.1:{listener.getsockname()[1]}"
        backend = ZooKeeperBackend(hosts, Paths("/none", Mode.MASTER_SLAVE), session_s=3)
        monkeypatch.setattr(backend._changed, "wait_for", waited, raising=False)
        mirror = Mirror(backend, ClusterView())
        mirror.open(site)
        set_distribution(mirror)
        try:
            for work in (
                lambda: mirror.step(world.now_ms),
                lambda: site.operate("Start"),
                lambda: mirror.step(world.now_ms),
                lambda: mirror.summary(world.now_ms),
            ):
                work()
            assert set(waits) <= {0}
            assert last(site) == ("Waiting", "queued")
        finally:
            set_distribution(None)
            mirror.close()
