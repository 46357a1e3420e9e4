"""Where the router ASSIGNED sends runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from records import assignment, job, node, status
from xwheel.plugin import NoExecutorYetError, RouteError
from xwheel_devtools.testing import check_router, sample_executors, sample_job, sample_route_context

from xwheel_cluster_zookeeper.model import Owner, Result, Role, Stored, Wanted
from xwheel_cluster_zookeeper.router import Assigned, tag_of
from xwheel_cluster_zookeeper.view import NOTHING, ClusterView

EXECUTORS = sample_executors(3)
NODES = {
    f"node-{number:010}": node(f"n{number}", path=f"node-{number:010}", address=f"{item.address}/")
    for number, item in enumerate(EXECUTORS)
}
PATHS = list(NODES)
KEY = job(1).key


def router(**changes: object) -> Assigned:
    view = ClusterView()
    known = {
        "nodes": NODES,
        "jobs": {KEY: Stored(job(1), 0)},
        "assignments": {KEY: Stored(assignment(1, PATHS[1], node_id="n1"), 0)},
        "owners": {KEY: Owner(key=KEY, node_id="n1", epoch=1)},
    }
    view.update(replace(NOTHING, **{**known, **changes}), 1)  # type: ignore[arg-type]
    return Assigned(view)


def choose(made: Assigned, options: str = "", **more: object) -> list[str]:
    context = sample_route_context(EXECUTORS, sample_job(id=1, route_options=options), **more)  # type: ignore[arg-type]
    return [item.address for item in made.route(context)]


def test_the_contract_holds() -> None:
    view = ClusterView()
    address = {f"node-{number:010}": f"http://10.0.{number // 250}.{number % 250 + 1}:9999" for number in range(300)}
    nodes = {path: node(path, path=path, address=found) for path, found in address.items()}
    view.update(replace(NOTHING, nodes=nodes), 1)
    check_router(Assigned(view))


def test_a_run_goes_to_the_node_that_has_the_job() -> None:
    """CLU-15: the executor whose address the assigned node registered gets the run, no matter who else is there."""
    assert choose(router()) == [EXECUTORS[1].address]
    elsewhere = {KEY: Stored(assignment(1, PATHS[2], node_id="n2"), 1)}
    owners = {KEY: Owner(key=KEY, node_id="n2", epoch=1)}
    assert choose(router(assignments=elsewhere, owners=owners)) == [EXECUTORS[2].address]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"assignments": {}}, "^no node has the job$"),
        (
            {
                "assignments": {},
                "statuses": {KEY: Stored(status(1, result=Result.WAITING, reason="no_eligible_node"), 0)},
            },
            r"no node has the job: Waiting\(no_eligible_node\)",
        ),
        ({"nodes": {}}, "node n1, which had the job, is gone"),
        ({"owners": {}}, "node n1 has the job and is not ready for it yet"),
        ({"owners": {KEY: Owner(key=KEY, node_id="n0", epoch=1)}}, "node n1 has the job and is not ready for it yet"),
        (
            {"nodes": {PATHS[1]: node("n1", path=PATHS[1], address="http://other:1")}},
            "no executor of the group has registered as http://other:1",
        ),
    ],
)
def test_where_no_node_has_the_job_the_reason_is_said(changes: dict[str, object], words: str) -> None:
    """CLU-17: a started job that no node has runs nowhere, and the run says why; it may wait for a node."""
    with pytest.raises(NoExecutorYetError, match=words):
        choose(router(**changes))


@pytest.mark.parametrize("jobs", [{}, {KEY: Stored(job(1, wanted=Wanted.STOPPED), 0)}])
def test_a_job_that_is_started_waits_until_its_cluster_knows(jobs: dict[str, object]) -> None:
    """CLU-17: its start is on its way to the nodes; a node would refuse the run meanwhile."""
    context = sample_route_context(EXECUTORS, sample_job(id=1, glue_type="PACKAGE"))
    with pytest.raises(NoExecutorYetError, match="its cluster does not know it yet"):
        router(jobs=jobs, assignments={}).route(context)


def test_no_run_waits_for_a_job_whose_start_failed() -> None:
    statuses = {KEY: Stored(status(1, result=Result.FAILED, reason="import_failed"), 0)}
    with pytest.raises(RouteError, match=r"no node has the job: Failed\(import_failed\)") as caught:
        choose(router(assignments={}, statuses=statuses))
    assert not isinstance(caught.value, NoExecutorYetError)


def test_a_job_that_is_not_started_runs_anywhere_by_hand() -> None:
    """OPS-14: a stopped job runs on the eligible node with the fewest runs."""
    stopped = {KEY: Stored(job(1, wanted=Wanted.STOPPED), 0)}
    loads = {EXECUTORS[0].address: 2, EXECUTORS[1].address: 3, EXECUTORS[2].address: 1}
    made = router(jobs=stopped, assignments={})
    assert choose(made, load=loads.__getitem__) == [EXECUTORS[2].address]
    tagged = {**NODES, PATHS[1]: replace(NODES[PATHS[1]], tags=("gpu",))}
    made = router(jobs={}, assignments={}, nodes=tagged)
    assert choose(made, "tag=gpu", load=loads.__getitem__) == [EXECUTORS[1].address]
    with pytest.raises(RouteError, match="no node of the cluster could run it by hand"):
        choose(made, "tag=big")


def test_a_run_by_hand_goes_to_no_suspect_while_others_are_well() -> None:
    suspected = replace(EXECUTORS[2], suspect_until_ms=2)
    loads = {EXECUTORS[0].address: 3, EXECUTORS[1].address: 2, suspected.address: 0}
    context = sample_route_context([*EXECUTORS[:2], suspected], sample_job(id=1), load=loads.__getitem__, now_ms=1)
    assert router(jobs={}, assignments={}).route(context) == [EXECUTORS[1]]


def test_in_standby_a_run_by_hand_goes_to_the_master() -> None:
    """OPS-14: in a standby cluster the master alone runs jobs."""
    nodes = {path: replace(item, role=Role.BACKUP) for path, item in NODES.items()}
    nodes[PATHS[2]] = replace(nodes[PATHS[2]], role=Role.MASTER)
    assert choose(router(jobs={}, assignments={}, nodes=nodes)) == [EXECUTORS[2].address]


@pytest.mark.parametrize("options", ["gpu", "tag=", "tag=a b", "tag=" + "x" * 65, "TAG=x", "tag=x\n"])
def test_options_are_a_tag_or_nothing(options: str) -> None:
    with pytest.raises(RouteError, match="tag=NAME"):
        router().check(options)
    assert tag_of(options) == ""
