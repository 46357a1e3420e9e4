"""ASSIGNED: a job of a package runs on the node of the cluster that has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from xwheel.plugin import NoExecutorYetError, RegisteredExecutor, RouteContext, RouteError
from xwheel_job_package.glue import PACKAGE

from xwheel_cluster_zookeeper.model import JobStatus, NodeRecord, Result
from xwheel_cluster_zookeeper.view import ClusterView

NAME: Final = "ASSIGNED"
_TAG: Final = re.compile(r"(tag=[A-Za-z0-9][A-Za-z0-9._-]{0,63})?")


class Assigned:
    """The executor whose address the job's node has registered; asks no one.

    Args:
        view: What this scheduler node knows of the cluster.
    """

    name = NAME
    asks = False

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def check(self, options: str) -> None:
        """Refuse options that are no tag."""
        if not _TAG.fullmatch(options):
            raise RouteError(
                "route_options of ASSIGNED must be empty, or tag=NAME for nodes with that tag only:"
                " a name has at most 64 letters, digits, dots, dashes and underscores"
            )

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the executor of the node that has the job; of any that may, for one that is run by hand."""
        place = self._view.find(context.job.id)
        if place is None or not place.is_wanted:
            if context.job.enabled and context.job.glue_type == PACKAGE:
                raise NoExecutorYetError("the job is started, and its cluster does not know it yet")
            return self._any(context)
        if place.assignment is None:
            is_over = place.status is not None and place.status.result is Result.FAILED
            raise (RouteError if is_over else NoExecutorYetError)(f"no node has the job{_why(place.status)}")
        if place.node is None:
            raise NoExecutorYetError(f"node {place.assignment.node_id}, which had the job, is gone")
        if not place.is_taken:
            raise NoExecutorYetError(f"node {place.node.node_id} has the job and is not ready for it yet")
        return [_executor_of(place.node, context)]

    def _any(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the executor with the fewest runs among those of nodes that may run the job by hand."""
        tag = tag_of(context.job.route_options)
        addresses = {node.address.rstrip("/") for node in self._view.nodes(tag)}
        found = [item for item in context.trusted if item.address.rstrip("/") in addresses]
        if not found:
            raise RouteError("the job is not started, and no node of the cluster could run it by hand")
        return [min(found, key=lambda item: context.load(item.address))]


def _executor_of(node: NodeRecord, context: RouteContext) -> RegisteredExecutor:
    """Return a node's executor."""
    address = node.address.rstrip("/")
    found = next((item for item in context.executors if item.address.rstrip("/") == address), None)
    if found is None:
        raise NoExecutorYetError(
            f"node {node.node_id} has the job, but no executor of the group has registered as {address}"
        )
    return found


def tag_of(options: str) -> str:
    """Return the tag that a job's route options ask for, or nothing."""
    return options.removeprefix("tag=") if _TAG.fullmatch(options) else ""


def _why(status: JobStatus | None) -> str:
    if status is None:
        return ""
    return f": {status.result.value}" + (f"({status.reason})" if status.reason else "")
