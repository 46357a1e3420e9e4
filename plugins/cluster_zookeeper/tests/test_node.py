"""Nodes of a cluster: joining, leading, having jobs, and what they do without ZooKeeper."""

from __future__ import annotations

import logging
from functools import partial
from itertools import pairwise

import pytest
from records import assignment, drain, job
from world import World, at_once

from xwheel_cluster_zookeeper.backend import Conflict, Disconnected, Link, MasterChange
from xwheel_cluster_zookeeper.model import JobState, JobStatus, Mode, Owner, Result, Role, Wanted
from xwheel_cluster_zookeeper.preparations import Prepared


def test_the_first_node_stops_all_jobs_where_it_shall_and_registers_before_others_look() -> None:
    """CLU-1: under the lock of those that join it resets all jobs, and is there before the lock is free."""
    world = World()
    world.put(1, 2)
    (first,) = world.add("a", is_reset=True)
    seen: list[int] = []
    join = first.backend.join

    def joining(node: object) -> object:
        assert world.store.lock.locked()
        seen.append(len(world.store.nodes))
        joined = join(node)  # type: ignore[arg-type]
        assert world.store.lock.locked()
        return joined

    first.backend.join = joining  # type: ignore[method-assign, assignment]
    world.run()
    assert seen == [0]
    assert {item.value.wanted for item in world.state.jobs.values()} == {Wanted.STOPPED}
    assert (world.state.assignments, world.where()) == ({}, {})
    world.put(1, op_seq=2)
    world.add("b", is_reset=True)
    world.run()
    assert world.state.jobs[job(1).key].value.wanted is Wanted.STARTED


def test_the_first_node_goes_on_with_jobs_where_it_shall() -> None:
    """CLU-1: with ``on_first_node = "resume"`` jobs that should run are assigned."""
    world = World()
    world.put(1, 2)
    world.add("a")
    world.run()
    assert world.where() == {1: "a", 2: "a"}


def test_of_two_nodes_that_start_at_once_exactly_one_resets() -> None:
    """CLU-2: a hundred times."""
    for _ in range(100):
        world = World()
        world.put(1)
        members = world.add("a", "b", is_reset=True)
        at_once([partial(member.node.step, world.now_ms) for member in members])
        assert len(world.state.nodes) == 2
        # each reset writes the job once more
        assert world.state.jobs[job(1).key].version == 1


def test_one_node_is_master_and_the_others_are_slaves() -> None:
    """CLU-4."""
    world = World()
    world.add("a", "b", "c")
    world.run()
    assert world.masters() == ["a"]
    assert sorted(node.role for node in world.state.nodes.values()) == [Role.MASTER, Role.SLAVE, Role.SLAVE]
    assert world.state.epoch.value.node_id == "a"


def test_in_a_standby_cluster_the_others_are_backups_and_have_no_job() -> None:
    """CLU-4, CLU-19: the master alone has jobs; another one takes over all of them when it is lost."""
    world = World(Mode.STANDBY)
    world.put(1, 2, 3)
    world.add("a", "b")
    world.run()
    assert sorted(node.role for node in world.state.nodes.values()) == [Role.BACKUP, Role.MASTER]
    assert set(world.where().values()) == {"a"}
    assert "backup" in world.members["b"].node.refuse(99)
    gone = world.kill("a")
    world.run()
    assert world.where() == {1: "b", 2: "b", 3: "b"}
    gone.node.step(world.now_ms)
    assert gone.node.jobs == frozenset()


def test_a_lost_masters_jobs_go_to_survivors_and_theirs_stay() -> None:
    """CLU-5: another is master, has looked at all jobs, and those on survivors are not touched."""
    world = World()
    world.add("a", "b", "c")
    world.run()
    world.put(*range(1, 10))
    world.run()
    before = world.where()
    assert sorted(before.values()) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    versions = {key: item.version for key, item in world.state.assignments.items()}
    world.kill("a")
    world.run()
    after = world.where()
    assert world.masters() == ["b"]
    assert all(after[job_id] == name for job_id, name in before.items() if name != "a")
    assert set(after) == set(before)
    moved = {key for key, item in world.state.assignments.items() if versions[key] != item.version}
    assert len(moved) == 3


def test_master_and_slave_die_together() -> None:
    """CLU-6: both sets of jobs go to the survivors."""
    world = World()
    world.add("a", "b", "c")
    world.run()
    world.put(*range(1, 10))
    world.run()
    world.kill("a")
    world.kill("b")
    world.run()
    assert set(world.where().values()) == {"c"}
    assert len(world.where()) == 9


def test_a_node_that_leaves_gives_its_jobs_away_at_once() -> None:
    """CLU-8."""
    world = World()
    world.put(1, 2)
    one, two = world.add("a", "b")
    world.run()
    two.node.leave()
    del world.members["b"]
    assert two.preparations.closed
    assert "being stopped" in two.node.refuse(1)
    assert next(iter(world.state.nodes.values())).node_id == "a"
    world.run(2)
    assert world.where() == {1: "a", 2: "a"}
    assert one.lost == two.lost == 0


def test_without_an_answer_of_zookeeper_no_new_run_is_taken_after_two_thirds_of_the_session() -> None:
    """CLU-9: suspended for longer, the node starts nothing; with the same session it goes on as before."""
    world = World()
    world.put(1)
    (one,) = world.add("a")
    world.run()
    assert one.node.refuse(1) == ""
    joined = world.state.nodes
    one.backend.suspend()
    world.now_ms += 1999
    world.run(2, 0)
    assert one.node.refuse(1) == ""
    world.now_ms += 1
    assert "has not answered" in one.node.refuse(1)
    assert "has not answered" in one.node.refuse(2)
    one.backend.resume()
    assert one.node.refuse(1) == ""
    world.run()
    assert world.state.nodes == joined
    assert one.lost == 0


def test_a_suspended_master_writes_nothing() -> None:
    """CLU-9."""
    world = World()
    one, _ = world.add("a", "b")
    world.run()
    one.backend.suspend()
    world.put(1)
    world.run(3)
    assert world.state.assignments == {}
    one.backend.resume()
    world.run()
    assert len(world.where()) == 1


def test_a_lost_session_ends_everything_and_the_node_joins_anew() -> None:
    """CLU-10, CLU-19: no run is taken at once; then a new znode, and only what is given to that one."""
    world = World()
    one, two = world.add("a", "b")
    world.run()
    world.put(1, 2)
    world.run()
    old = next(path for path, node in world.state.nodes.items() if node.node_id == "b")
    (job_id,) = two.node.jobs
    two.backend.lose()
    assert "no session" in two.node.refuse(job_id)  # before any step
    two.node.step(world.now_ms)
    assert (two.node.jobs, two.node.role, two.lost) == (frozenset(), None, 1)
    one.node.step(world.now_ms)
    one.node.step(world.now_ms)
    assert one.node.jobs == {1, 2}
    two.backend.resume()
    world.run()
    new = next(path for path, node in world.state.nodes.items() if node.node_id == "b")
    assert new > old
    assert world.where() == {1: "a", 2: "a"}  # no churn
    assert "not this node's" in two.node.refuse(job_id)


def test_n32_between_a_new_session_and_joining_again_no_run_is_taken() -> None:
    """The connection is there again before the node's next step saw that the session is another one."""
    world = World()
    (one,) = world.add("a")
    world.run()
    world.put(1)
    world.run()
    assert one.node.refuse(1) == ""
    one.backend.lose()
    one.backend.resume()
    assert one.backend.connection().link is Link.CONNECTED
    assert "no session" in one.node.refuse(1)
    assert "no session" in one.node.refuse(99)  # nor one that is run by hand
    world.run()
    assert one.node.refuse(1) == ""


def test_a_node_that_came_back_does_not_take_what_its_earlier_session_had() -> None:
    """Its name is the same; what it had is the master's to give again."""
    world = World()
    world.put(1)
    (one,) = world.add("a")
    world.run()
    (path,) = world.state.nodes
    one.backend.lose()
    one.backend.resume()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one.node, "_lead", lambda *_: None)  # no master yet
        world.run()
    assert next(iter(world.state.nodes)) != path
    assert world.state.assignments[job(1).key].value.node_path == path
    assert world.where() == {}
    world.run()
    assert world.where() == {1: "a"}


def test_a_node_whose_registration_is_gone_joins_anew() -> None:
    """As somebody deleted its znode while its session goes on."""
    world = World()
    world.put(1)
    (one,) = world.add("a")
    world.run()
    (path,) = world.state.nodes
    with world.store.changed:
        del world.store.nodes[path]
        world.store.note()
    one.node.step(world.now_ms)
    assert (one.lost, one.node.jobs) == (1, frozenset())
    world.run()
    (new,) = world.state.nodes
    assert new != path
    assert world.where() == {1: "a"}


def test_a_master_whose_session_was_lost_in_between_leads_no_more() -> None:
    """CLU-10, CLU-11: a frozen master that thaws finds another, and changes nothing."""
    world = World()
    world.put(1, 2)
    frozen, _ = world.add("a", "b")
    world.run()
    del world.members["a"]
    frozen.backend.lose()
    world.run()
    assert world.masters() == ["b"]
    before = dict(world.state.assignments)
    frozen.backend.resume()
    frozen.node.step(world.now_ms)
    assert frozen.node.role is Role.SLAVE
    assert world.state.assignments == before


def test_a_master_whose_epoch_was_taken_lets_go() -> None:
    """CLU-11: its decision fails as a whole, whatever it thinks of itself."""
    world = World()
    one, _ = world.add("a", "b")
    world.run()
    world.scheduler.take_epoch("stranger", world.now_ms, world.state.epoch)
    world.put(1)
    one.node.step(world.now_ms)
    assert world.state.assignments == {}
    assert not one.node.is_healthy
    world.run(15)
    assert world.masters() == ["b"]
    assert len(world.where()) == 1


def test_a_node_that_fails_to_join_tries_ever_later_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """CLU-13: attempts are spaced from one second to thirty, and its health is red."""
    world = World()
    (one,) = world.add("a")
    times: list[int] = []

    def fails(node: object) -> object:
        times.append(world.now_ms)
        raise Conflict("not now")

    one.backend.join = fails  # type: ignore[method-assign, assignment]
    world.run(3000, 100)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert 500 <= gaps[0] <= 1100
    assert max(gaps) <= 30_100
    assert gaps[-1] >= 15_000
    assert len(times) < 25
    assert not one.node.is_healthy
    assert "not now; again in" in caplog.text


def test_a_master_that_cannot_write_lets_another_lead() -> None:
    """CLU-13: it offers leadership to others in between."""
    world = World()
    one, _ = world.add("a", "b")
    world.run()

    def fails(*_: object) -> list[MasterChange]:
        raise Disconnected("the disk of ZooKeeper is full")

    one.backend.commit = fails  # type: ignore[method-assign, assignment]
    world.put(1)
    world.run(15)
    assert world.masters() == ["b"]
    assert len(world.where()) == 1


def test_a_status_that_somebody_else_wrote_meanwhile_costs_no_leadership() -> None:
    world = World()
    (one,) = world.add("a")
    world.run()
    write = one.backend.put_status
    refused: list[int] = []

    def put_status(status: JobStatus, expected: int | None) -> None:
        if len(refused) < 2:
            refused.append(status.op_seq)
            raise Conflict("it has changed meanwhile")
        write(status, expected)

    one.backend.put_status = put_status  # type: ignore[method-assign]
    world.put(1)
    world.run(6)
    assert len(refused) == 2
    assert world.where() == {1: "a"}
    assert world.status(1).result is Result.SUCCESS
    assert world.state.epoch.value.number == 1
    assert one.node.is_healthy


def test_without_zookeeper_the_node_says_where_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    """CLU-14: every ten seconds, and it joins by itself when it is there."""
    world = World()
    (one,) = world.add("a")
    one.backend.lose()
    with caplog.at_level(logging.WARNING):
        world.run(250, 100)
    assert caplog.text.count("waiting for ZooKeeper at memory (lost)") == 3
    assert not one.node.is_healthy
    one.backend.resume()
    world.run(2)
    assert one.node.is_healthy
    assert world.masters() == ["a"]


def test_thirty_jobs_on_three_nodes_are_ten_each() -> None:
    """CLU-15."""
    world = World()
    world.add("a", "b", "c")
    world.run()
    world.put(*range(1, 31))
    world.run()
    assert sorted(list(world.where().values()).count(name) for name in "abc") == [10, 10, 10]


def test_a_job_for_a_tag_waits_for_a_node_that_has_it() -> None:
    """CLU-17."""
    world = World()
    world.add("a")
    world.put(1, tag="gpu")
    world.run()
    assert (world.status(1).result, world.status(1).reason) == (Result.WAITING, "no_eligible_node")
    world.add("b", tags=("gpu",))
    world.run()
    assert world.where() == {1: "b"}


def test_an_operation_is_told_step_by_step() -> None:
    """OPS-1, rows 6 and 7: Executing while the package is prepared, then Startup and Success."""
    world = World()
    (one,) = world.add("a")
    one.preparations.outcome = None
    world.put(1)
    world.run()
    assert (world.status(1).job_state, world.status(1).result) == (JobState.SHUTDOWN, Result.EXECUTING)
    assert "being prepared here" in one.node.refuse(1)
    one.preparations.outcome = Prepared()
    world.run(2)
    assert (world.status(1).job_state, world.status(1).result) == (JobState.STARTUP, Result.SUCCESS)
    assert world.state.owners[job(1).key].node_id == "a"
    assert one.node.refuse(1) == ""


def test_a_paused_job_is_let_go() -> None:
    """OPS-5, row 10."""
    world = World()
    (one,) = world.add("a")
    world.put(1)
    world.run()
    world.put(1, wanted=Wanted.STOPPED, operation="Pause", op_seq=2)
    world.run()
    assert (world.status(1).job_state, world.status(1).result) == (JobState.PAUSE, Result.SUCCESS)
    assert world.status(1).op_seq == 2
    assert (world.where(), world.state.assignments, dict(world.state.owners)) == ({}, {}, {})
    assert one.node.refuse(1) == ""  # run by hand, any node may


def test_a_restart_stays_on_its_node_and_takes_runs_meanwhile() -> None:
    """OPS-3."""
    world = World()
    world.add("a", "b")
    world.put(1, 2)
    world.run()
    before = world.where()
    here = world.members[before[1]]
    here.preparations.outcome = None
    world.put(1, operation="Restart", op_seq=2, source='{"new": 1}')
    world.run()
    assert world.where() == before
    assert here.node.refuse(1) == ""
    here.preparations.outcome = Prepared()
    world.run(2)
    assert world.where() == before
    assert (world.status(1).result, world.status(1).op_seq) == (Result.SUCCESS, 2)


def test_a_transient_failure_is_tried_again_on_another_node() -> None:
    """OPS-6: after 5, 15 and 45 seconds, three times at most."""
    world = World()
    bad, good = world.add("a", "b")
    world.run()
    bad.preparations.outcome = good.preparations.outcome = Prepared("store_unreachable", "no store", False)
    world.put(1)
    world.run(3)
    status = world.status(1)
    assert (status.result, status.reason, status.attempt) == (Result.RETRYING, "store_unreachable", 1)
    began_ms = world.now_ms
    places = [world.state.assignments[job(1).key].value.node_id]
    good.preparations.outcome = bad.preparations.outcome
    while world.status(1).result is not Result.FAILED and world.now_ms < began_ms + 120_000:
        world.run(1, 500)
        held = world.state.assignments.get(job(1).key)
        if held is not None and held.value.node_id != places[-1]:
            places.append(held.value.node_id)
    assert 60_000 <= world.now_ms - began_ms <= 75_000
    assert world.status(1).result is Result.FAILED
    assert places[:2] == ["b", "a"] or places[:2] == ["a", "b"]
    assert world.state.assignments == {}


def test_a_permanent_failure_ends_the_operation_at_once() -> None:
    """OPS-7."""
    world = World()
    (one,) = world.add("a")
    one.preparations.outcome = Prepared("checksum_mismatch", "other bytes", True)
    world.put(1)
    world.run()
    status = world.status(1)
    assert (status.result, status.reason, status.job_state) == (Result.FAILED, "checksum_mismatch", JobState.SHUTDOWN)
    assert (world.state.assignments, world.where()) == ({}, {})
    assert len(one.preparations.begun) == 1


def test_a_newer_operation_ends_what_was_pending() -> None:
    """OPS-8."""
    world = World()
    (one,) = world.add("a")
    one.preparations.outcome = Prepared("store_unreachable", "no store", False)
    world.put(1)
    world.run(3)
    assert world.status(1).result is Result.RETRYING
    one.preparations.outcome = Prepared()
    world.put(1, operation="Restart", op_seq=2)
    world.run(3)
    assert (world.status(1).result, world.status(1).op_seq, world.status(1).attempt) == (Result.SUCCESS, 2, 1)


def test_an_operation_is_not_said_to_be_done_before_its_node_was_decided() -> None:
    world = World()
    (one,) = world.add("a")
    world.put(1)
    world.run()
    world.put(1, operation="Restart", op_seq=2)
    one.node._compare(world.state, world.now_ms)  # before the master looks
    assert (world.status(1).result, world.status(1).op_seq) == (Result.SUCCESS, 1)


def test_a_job_is_not_taken_while_another_session_owns_it() -> None:
    world = World()
    world.put(1)
    world.scheduler.own(Owner(key=job(1).key, node_id="ghost", epoch=0))
    (one,) = world.add("a")
    world.run()
    assert world.where() == {}
    assert "not this node's" in one.node.refuse(1)
    world.scheduler.disown(job(1).key)
    world.run(2)
    assert world.where() == {1: "a"}


def test_a_decision_of_an_earlier_master_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """Row 15."""
    world = World()
    (one,) = world.add("a")
    world.put(1)
    world.run()
    world.scheduler.take_epoch("b", world.now_ms, world.state.epoch)
    (path,) = world.state.nodes
    key = job(1).key
    for epoch in (7, 3):
        change = assignment(1, path, epoch=epoch)
        known = world.state.assignments[key]
        world.scheduler.commit(world.state.epoch, [MasterChange(key=key, expected=known.version, assignment=change)])
        one.node._compare(world.state, world.now_ms)
    assert "a decision of epoch 3 is ignored, 7 was seen" in caplog.text


def test_a_node_that_is_not_connected_takes_part_in_nothing() -> None:
    world = World()
    (one,) = world.add("a")
    assert one.node.refuse(1)
    assert one.backend.connection().link is Link.CONNECTED
    assert one.node.role is None


def test_a_drained_node_gives_its_jobs_away_and_stays_a_member() -> None:
    """P12: jobs go to others, none is on two; a node that joins again is drained still, until it is resumed."""
    world = World()
    world.add("a", "b")
    world.put(*range(1, 7))
    world.run()
    world.scheduler.put_drain(drain("b"))
    for _ in range(8):
        world.run(1)
        world.where()
    assert set(world.where().values()) == {"a"}
    assert {node.node_id for node in world.state.nodes.values()} == {"a", "b"}
    world.kill("b")
    world.add("b")
    world.run()
    world.put(7)
    world.run()
    assert set(world.where().values()) == {"a"}
    world.scheduler.delete_drain(drain("b").key)
    world.put(8)
    world.run()
    assert world.where()[8] == "b"


def test_a_drained_master_of_a_standby_cluster_hands_over() -> None:
    """P12: to a backup that is not drained; where there is none it goes on."""
    world = World(Mode.STANDBY)
    world.put(1, 2, 3)
    world.add("a", "b")
    world.run()
    world.scheduler.put_drain(drain("a"))
    world.run(8)
    assert (world.masters(), set(world.where().values())) == (["b"], {"b"})
    world.scheduler.put_drain(drain("b"))
    world.run(8)
    assert (world.masters(), set(world.where().values())) == (["b"], {"b"})
    world.scheduler.delete_drain(drain("a").key)
    world.run(8)
    assert (world.masters(), set(world.where().values())) == (["a"], {"a"})


def test_a_node_that_is_being_stopped_takes_no_run_of_its_own_jobs() -> None:
    world = World()
    world.add("a")
    world.put(1)
    world.run()
    node = world.members["a"].node
    assert node.refuse(1) == ""
    node.drain()
    assert node.refuse(1) == "this node is being stopped and takes no runs"
