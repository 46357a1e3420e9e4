"""The contract of a cluster's store, in memory and in ZooKeeper."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from conftest import Members
from records import assignment, drain, job, node, status
from xwheel_devtools.testing import wait_until

from xwheel_cluster_zookeeper.backend import ClusterBackend, Conflict, Link, MasterChange, SessionLost
from xwheel_cluster_zookeeper.model import ClusterState, Owner, Role, Wanted


def until(member: ClusterBackend, holds: Any) -> ClusterState:
    """Read until something holds of the state, and return it."""
    seen = -1
    for _ in range(100):
        seen = member.wait_for_change(seen, 0.2)
        state = member.read()
        if holds(state):
            return state
    raise AssertionError(f"never so: {state}")


def assign(number: int, expected: int | None = None, **changes: Any) -> MasterChange:
    value = assignment(number, **changes)
    return MasterChange(key=value.key, expected=expected, assignment=value)


def test_a_new_cluster_is_empty_and_connected(members: Members) -> None:
    one = members()
    assert one.connection().link is Link.CONNECTED
    assert one.connection().session == 1
    assert one.connection().timeout_ms == 3000
    state = one.read()
    assert (state.epoch.value.number, state.nodes, state.jobs) == (0, {}, {})


def test_nodes_come_change_and_go_with_their_session(members: Members) -> None:
    one, other = members(), members()
    joined = one.join(node("a", tags=("gpu",), more={"later": 1}))
    assert one.join(node("a")).path == joined.path  # an answer that was lost
    state = until(other, lambda state: state.nodes)
    assert state.nodes == {joined.path: joined}
    one.update_node(replace(joined, role=Role.MASTER))
    until(other, lambda state: state.nodes[joined.path].role is Role.MASTER)
    with pytest.raises(SessionLost):
        other.update_node(joined)
    one.leave()
    until(other, lambda state: not state.nodes)
    assert one.join(node("a")).path != joined.path
    one.close()
    until(other, lambda state: not state.nodes)


def test_a_drained_node_is_drained_until_it_is_resumed_whoever_is_there(members: Members) -> None:
    one, other = members(), members()
    name = "host/1: <ä>"
    for by in ("anna", "bert"):
        one.put_drain(drain(name, by=by))
        state = until(other, lambda state, by=by: [item.by for item in state.drained().values()] == [by])
    assert state.drained() == {name: drain(name, by="bert")}
    one.reset([])
    one.close()
    assert list(members().read().drained()) == [name]
    for _ in range(2):  # an answer that was lost
        other.delete_drain(drain(name).key)
    until(other, lambda state: not state.drains)


def test_jobs_are_written_at_the_version_that_was_read(members: Members) -> None:
    one, other = members(), members()
    one.put_job(job(1), None)
    with pytest.raises(Conflict):
        other.put_job(job(1), None)
    state = until(other, lambda state: state.jobs)
    (stored,) = state.jobs.values()
    assert stored.value == job(1)
    other.put_job(job(1, op_seq=2), stored.version)
    with pytest.raises(Conflict):
        one.put_job(job(1, op_seq=3), stored.version)
    state = until(one, lambda state: state.jobs[stored.value.key].value.op_seq == 2)
    with pytest.raises(Conflict):
        one.delete_job(stored.value.key, stored.version)
    one.delete_job(stored.value.key, state.jobs[stored.value.key].version)
    until(other, lambda state: not state.jobs)


def test_statuses_are_written_at_the_version_that_was_read(members: Members) -> None:
    one = members()
    one.put_status(status(1, error="ü" * 20_000), None)
    (stored,) = one.read().statuses.values()
    assert 8000 < len(stored.value.error.encode()) <= 8192
    one.put_status(status(1, op_seq=2), stored.version)
    with pytest.raises(Conflict):
        one.put_status(status(1, op_seq=3), stored.version)


def test_one_is_elected_and_the_next_when_it_withdraws_or_is_gone(members: Members) -> None:
    one, two, three = members(), members(), members()
    for name, member in (("a", one), ("b", two), ("c", three)):
        member.offer(name)
        member.offer(name)
        member.read()
    everyone = (one, two, three)

    def elected() -> list[ClusterBackend]:
        for member in everyone:
            if member.connection().link is Link.CONNECTED:
                member.read()
        return [member for member in everyone if member.is_elected()]

    assert elected() == [one]
    one.withdraw()
    assert wait_until(lambda: elected() == [two])
    two.close()
    assert wait_until(lambda: elected() == [three])
    one.offer("a")
    assert elected() == [three]


def test_twenty_elections_won_in_one_process_leave_no_thread(members: Members) -> None:
    """CLU-12: a node can win, lose and win the election 20 times in a row."""
    one, two = members(), members()
    threads = threading.active_count()
    epoch = one.read().epoch
    for number in range(1, 21):
        one.offer("a")
        until(one, lambda _: one.is_elected())
        epoch = one.take_epoch("a", 1000 + number, epoch)
        assert epoch.value.number == number
        one.withdraw()
        until(one, lambda _: not one.is_elected())
    assert until(two, lambda state: state.epoch.value.number == 20).epoch == epoch
    assert threading.active_count() <= threads


def test_an_epoch_is_taken_once(members: Members) -> None:
    one, two = members(), members()
    seen = two.read().epoch
    assert one.take_epoch("a", 5, seen).value.number == 1
    with pytest.raises(Conflict):
        two.take_epoch("b", 6, seen)


def test_a_master_writes_only_in_its_own_epoch(members: Members) -> None:
    """CLU-11: what an earlier master still writes fails as a whole."""
    old, new = members(), members()
    first = old.take_epoch("a", 1, old.read().epoch)
    assert old.commit(first, [assign(1), assign(2)]) == []
    state = until(new, lambda state: len(state.assignments) == 2 and state.epoch.value.number == 1)
    second = new.take_epoch("b", 2, state.epoch)
    with pytest.raises(Conflict):
        old.commit(first, [assign(3), assign(1, 0, node_id="z")])
    assert new.commit(second, [assign(3)]) == []
    state = until(old, lambda state: len(state.assignments) == 3)
    assert {item.value.node_id for item in state.assignments.values()} == {"a"}


def test_what_met_another_version_is_left_and_the_rest_is_written(members: Members) -> None:
    one = members()
    epoch = one.take_epoch("a", 1, one.read().epoch)
    one.commit(epoch, [assign(1), assign(2)])
    states = one.read().assignments
    key = assignment(1).key
    gone = MasterChange(key=assignment(9).key, expected=0)
    lost = MasterChange(key=key, expected=None, is_assignment=False, status=status(1, result="Waiting"))
    removed = MasterChange(key=key, expected=states[key].version)
    stale = assign(2, 7, node_id="z")
    assert one.commit(epoch, [gone, removed, stale, lost, assign(4)]) == [gone, stale]
    state = one.read()
    assert sorted(item.value.job_id for item in state.assignments.values()) == [2, 4]
    assert state.statuses[key].value.result == "Waiting"


def test_many_changes_are_written_in_order(members: Members) -> None:
    one = members()
    epoch = one.take_epoch("a", 1, one.read().epoch)
    assert one.commit(epoch, [assign(number) for number in range(350)]) == []
    assert len(one.read().assignments) == 350


def test_a_job_has_one_owner_until_its_session_ends(members: Members) -> None:
    one, two = members(), members()
    key = job(1).key
    one.own(Owner(key=key, node_id="a", epoch=1))
    one.own(Owner(key=key, node_id="a", epoch=2))
    with pytest.raises(Conflict):
        two.own(Owner(key=key, node_id="b", epoch=2))
    two.disown(key)
    assert until(two, lambda state: state.owners).owners[key].node_id == "a"
    one.disown(key)
    two.own(Owner(key=key, node_id="b", epoch=2))
    two.close()
    until(one, lambda state: not state.owners)


def test_those_that_join_do_it_one_after_the_other(members: Members) -> None:
    one, two = members(), members()
    with one.init_lock(1), pytest.raises(Conflict), two.init_lock(0.2):
        raise AssertionError("two hold it")
    with two.init_lock(5):
        pass


def test_one_scheduler_writes_jobs_and_another_follows(members: Members) -> None:
    one, two = members(), members()
    assert one.mirror_lock()
    assert one.mirror_lock()
    assert not two.mirror_lock()
    one.close()
    assert wait_until(two.mirror_lock)


def test_a_reset_leaves_the_jobs_alone(members: Members) -> None:
    one = members()
    epoch = one.take_epoch("a", 1, one.read().epoch)
    one.put_job(job(1), None)
    one.commit(epoch, [assign(1)])
    one.put_status(status(1), None)
    one.own(Owner(key=job(1).key, node_id="a", epoch=1))
    one.reset([job(1, wanted=Wanted.STOPPED)])
    state = until(one, lambda state: not state.owners and not state.assignments)
    assert state.statuses == {}
    assert [item.value.wanted for item in state.jobs.values()] == [Wanted.STOPPED]


def test_a_wait_ends_with_a_change_or_its_time(members: Members) -> None:
    one, two = members(), members()
    one.read()
    seen = one.wait_for_change(-1, 0)
    assert one.wait_for_change(seen, 0.05) == seen
    two.put_job(job(1), None)
    assert one.wait_for_change(seen, 10) > seen
