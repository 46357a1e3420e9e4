"""What holds after whatever happens to a cluster."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from states import Cluster, keys

from xwheel_cluster_zookeeper.master import MasterSettings
from xwheel_cluster_zookeeper.model import JobState, Mode, Result, Wanted

NODES = ["n1", "n2", "n3", "n4"]
TAGS = ["", "", "gpu", "big"]
HAVE = [(), ("gpu",), ("gpu", "big")]
JOBS = keys(12)

EVENTS = st.one_of(
    st.tuples(
        st.just("join"), st.sampled_from(NODES), st.sampled_from([(), ("gpu",), ("gpu", "big")]), st.integers(0, 3)
    ),
    st.tuples(st.just("lose"), st.sampled_from(NODES)),
    st.tuples(st.just("start"), st.sampled_from(JOBS), st.sampled_from(TAGS)),
    st.tuples(st.just("pause"), st.sampled_from(JOBS)),
    st.tuples(st.just("forget"), st.sampled_from(JOBS)),
    st.tuples(st.just("execute"), st.sampled_from(JOBS)),
    st.tuples(st.just("work"), st.sampled_from(JOBS)),
    st.tuples(st.just("retry"), st.sampled_from(JOBS)),
    st.tuples(st.just("fail"), st.sampled_from(JOBS)),
    st.tuples(st.just("elect"), st.sampled_from(NODES)),
    st.tuples(st.just("rebalance")),
    st.tuples(st.just("drain"), st.sampled_from(NODES)),
    st.tuples(st.just("resume"), st.sampled_from(NODES)),
    st.tuples(st.just("pass"), st.integers(1, 60_000)),
)


def happen(made: Cluster, event: tuple) -> None:  # noqa: C901 -- one line for each event
    match event:
        case ("join", node_id, tags, slots):
            made.join(node_id, tags=tags, slots=slots)
        case ("lose", node_id):
            made.lose(node_id)
        case ("start", key, tag):
            made.order(key, tag=tag)
        case ("pause", key):
            made.order(key, wanted=Wanted.STOPPED)
        case ("forget", key):
            made.jobs.pop(key, None)
        case ("execute", key) if key in made.assignments and key in made.jobs:
            made.say(key, Result.EXECUTING)
        case ("work", key) if key in made.assignments and key in made.jobs:
            made.work(key)
        case ("retry", key) if key in made.assignments and key in made.jobs:
            made.say(key, Result.RETRYING)
        case ("fail", key) if key in made.assignments and key in made.jobs:
            made.say(key, Result.FAILED, JobState.SHUTDOWN, is_permanent=True)
        case ("elect", node_id):
            made.elect(node_id)
        case ("rebalance",):
            made.mark()
        case ("drain", node_id):
            made.drain(node_id)
        case ("resume", node_id):
            made.resume(node_id)
        case ("pass", ms):
            made.now += ms


def check(made: Cluster) -> None:
    """Each started job has one node that lives and may have it, or it is said why not."""
    newest = {node.node_id: path for path, node in sorted(made.nodes.items())}
    if made.settings.mode is Mode.STANDBY:
        newest = {name: path for name, path in newest.items() if name == made.epoch.node_id}
    nodes = {path: made.nodes[path] for path in newest.values()}
    loads = dict.fromkeys(nodes, 0)
    for key, stored in made.assignments.items():
        item, job = stored.value, made.jobs[key].value
        if job.wanted is Wanted.STOPPED:
            continue
        assert item.node_path in nodes
        assert item.op_seq == job.op_seq
        assert not job.tag or job.tag in nodes[item.node_path].tags
        assert item.attempt <= 4
    for stored in made.assignments.values():
        if stored.value.node_path in loads:
            loads[stored.value.node_path] += 1
    for path, node in nodes.items():
        assert not node.slots or loads[path] <= node.slots
    drained = {path for path, node in nodes.items() if node.node_id in made.state().drained()}
    room = {path for path, node in nodes.items() if not node.slots or loads[path] < node.slots} - drained
    for key, stored in made.jobs.items():
        tag = stored.value.tag
        better = [path for path in room if not tag or tag in nodes[path].tags]
        if stored.value.wanted is Wanted.STARTED:
            check_place(made, key, better, drained)


def check_place(made: Cluster, key: str, better: list[str], drained: set[str]) -> None:
    """A drained node has a job, or none has it, only where no other may have it."""
    if key in made.assignments:
        assert made.assignments[key].value.node_path not in drained or not better
        return
    status = made.statuses[key].value
    assert status.op_seq == made.jobs[key].value.op_seq
    assert status.result in {Result.FAILED, Result.WAITING}
    assert status.result is Result.FAILED or not better


@given(st.lists(EVENTS, max_size=40), st.sampled_from(Mode))
@settings(max_examples=300)
def test_whatever_happens_each_started_job_has_one_living_node(events: list[tuple], mode: Mode) -> None:
    """CLU-15, CLU-17: after joins, losses, operations and failures in any order; and there is nothing left to do."""
    made = Cluster(settings=MasterSettings(mode=mode))
    for event in events:
        happen(made, event)
        made.step()
        check(made)


@given(st.lists(EVENTS, max_size=40))
def test_what_happens_between_two_looks_is_seen_at_once(events: list[tuple]) -> None:
    """CLU-6: a master that saw nothing of what happened does the same as one that saw all of it: it compares."""
    made = Cluster()
    for event in events:
        happen(made, event)
    made.step()
    check(made)


@given(st.lists(EVENTS, max_size=30), st.integers(1, 4))
def test_jobs_stay_where_they_are_when_nodes_join(events: list[tuple], count: int) -> None:
    """CLU-16: whatever was before, new nodes get only what had none, or was on a drained node for want of others."""
    made = Cluster()
    for event in events:
        happen(made, event)
        made.step()
    drained = made.state().drained()
    before = {key: stored.value for key, stored in made.assignments.items() if stored.value.node_id not in drained}
    made.join(*[f"new{number}" for number in range(count)], tags=("gpu", "big"))
    made.step()
    assert {key: made.assignments[key].value for key in before} == before


@given(st.integers(1, 6), st.integers(0, 40), st.lists(st.integers(0, 5), max_size=5), st.integers(0, 4))
def test_loads_are_even_where_every_node_may_have_every_job(nodes: int, jobs: int, lost: list[int], later: int) -> None:
    """CLU-15, CLU-16: what is placed again fills the emptiest; a rebalance makes loads differ by one at most."""
    made = Cluster()
    made.join(*[f"n{number}" for number in range(nodes)])
    made.order(*keys(jobs))
    made.step()
    made.work()
    loads = made.loads().values()
    assert max(loads) - min(loads) <= 1
    made.lose(*[f"n{number}" for number in lost if number != 0])
    made.join(*[f"m{number}" for number in range(later)])
    made.step()
    made.work()
    before = {key: made.node_of(key) for key in made.assignments}
    marked = made.mark()
    made.step()
    loads = made.loads().values()
    assert max(loads) - min(loads) <= 1
    assert {key for key in before if made.node_of(key) != before[key]} == set(marked)
