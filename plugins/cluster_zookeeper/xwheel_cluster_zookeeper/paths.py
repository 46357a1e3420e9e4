"""Where everything is in ZooKeeper: one tree for each mode, below a root that is a setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xwheel_cluster_zookeeper.model import Mode

NODE_PREFIX: Final = "node-"
OFFER_PREFIX: Final = "offer-"


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of one cluster.

    Attributes:
        root: Such as ``/xwheel``.
        mode: Which of the two trees.
    """

    root: str
    mode: Mode

    @property
    def tree(self) -> str:
        """The cluster's tree."""
        return f"{self.root.rstrip('/')}/{self.mode}"

    def of(self, kind: str, name: str = "") -> str:
        """Return the path of a kind, or of one of its children."""
        return f"{self.tree}/{kind}/{name}" if name else f"{self.tree}/{kind}"


NODES: Final = "nodes"
JOBS: Final = "jobs"
ASSIGNMENTS: Final = "assignments"
STATUSES: Final = "status"
OWNERS: Final = "owners"
DRAINS: Final = "drains"
SELECTOR: Final = "selector"
INIT_LOCK: Final = "initLock"
MIRROR_LOCK: Final = "mirrorLock"
EPOCH: Final = "leaderEpoch"
FOLDERS: Final = (NODES, JOBS, ASSIGNMENTS, STATUSES, OWNERS, DRAINS, SELECTOR)
