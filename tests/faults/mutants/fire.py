"""Mutants of the last step before bytes leave: what is due is sent without one of the fence's questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection

from tests.faults.mutants.patches import Patches, swapped
from xwheel.model import PARTITIONS
from xwheel.scheduler.fire.fence import Fence
from xwheel.scheduler.plan.adopt import AdoptLoop
from xwheel.scheduler.plan.claim import ClaimLoop
from xwheel.scheduler.records import Batch, Routed
from xwheel.storage import runs
from xwheel.storage.runs import QueuedRun

Planned = dict[int, tuple[int, int, int]]
"""Run id to partition, epoch and the revision of its job."""

SAME: Final = 0
"""The epoch that both sides of a comparison get, so that nothing is compared."""


class _HeldLease:
    """Stands in for a lease inside a transaction: no row is asked for or locked, these partitions count as ours."""

    def __init__(self, epochs: Mapping[int, int]) -> None:
        self._epochs = epochs

    def lock(self, conn: Connection) -> Mapping[int, int]:
        del conn
        return self._epochs


def no_fence(patches: Patches) -> None:
    """What is due is sent as it was routed: no one asks whether it is planned, whose it is, or whether its job changed.

    The rows are written as ever, whatever state they have meanwhile, so that answers and checks go on. Limits of groups
    and cluster-wide block strategies still hold, and what was adopted is still read, planned or not, before it is
    routed: those are other guards.
    """
    routed = _Routed(patches, epochs_too=True)

    def lock_planned(_original: object) -> Callable[[Connection, Sequence[int]], Planned]:
        def lock_planned(conn: Connection, ids: Sequence[int]) -> Planned:
            del conn
            return {run_id: (SAME, SAME, routed.revisions[run_id]) for run_id in ids}

        return lock_planned

    patches.replace(runs, "lock_planned", lock_planned)


def epoch_unchecked(patches: Patches) -> None:
    """No transaction compares epoch or owner of a partition with its lease row, nor locks that row.

    The fence lets pass what is planned in any partition, under any epoch. A claim writes under the epochs that it
    planned with, an adoption under those that memory knows, no matter who holds the partitions meanwhile.
    """
    _Routed(patches, epochs_too=True)

    def lock_planned(
        original: Callable[[Connection, Sequence[int]], Planned],
    ) -> Callable[[Connection, Sequence[int]], Planned]:
        def lock_planned(conn: Connection, ids: Sequence[int]) -> Planned:
            return {run_id: (SAME, SAME, revision) for run_id, (_, _, revision) in original(conn, ids).items()}

        return lock_planned

    def write(original: Callable[..., object]) -> Callable[..., object]:
        def _write(
            self: ClaimLoop, conn: Connection, batch: object, now_ms: int, *, recheck: bool, known: bool
        ) -> object:
            with swapped(self, "lease", _HeldLease(batch.epochs)):  # type: ignore[attr-defined]
                return original(self, conn, batch, now_ms, recheck=recheck, known=known)

        return _write

    def adopt(
        original: Callable[[AdoptLoop, Connection, Sequence[int]], list[QueuedRun]],
    ) -> Callable[[AdoptLoop, Connection, Sequence[int]], list[QueuedRun]]:
        def _adopt(self: AdoptLoop, conn: Connection, ids: Sequence[int]) -> list[QueuedRun]:
            with swapped(self, "lease", _HeldLease(self.lease.epochs)):
                return original(self, conn, ids)

        return _adopt

    patches.replace(runs, "lock_planned", lock_planned)
    patches.replace(ClaimLoop, "_write", write)
    patches.replace(AdoptLoop, "_adopt", adopt)


def revision_unchecked(patches: Patches) -> None:
    """The fence does not compare the revision of a job with the one that was routed: an edit meanwhile does not count.

    What was planned before is sent as the job was then. A stop, a pause or an edit of the schedule cancels the planned
    rows besides, and those still fall out by their state.
    """
    routed = _Routed(patches, epochs_too=False)

    def lock_planned(
        original: Callable[[Connection, Sequence[int]], Planned],
    ) -> Callable[[Connection, Sequence[int]], Planned]:
        def lock_planned(conn: Connection, ids: Sequence[int]) -> Planned:
            return {
                run_id: (partition, epoch, routed.revisions[run_id])
                for run_id, (partition, epoch, _) in original(conn, ids).items()
            }

        return lock_planned

    patches.replace(runs, "lock_planned", lock_planned)


class _Routed:
    """Knows with which revisions of their jobs the runs of the latest fence were routed; fences are of one thread.

    Args:
        patches: Gets the fence.
        epochs_too: Every partition counts as ours there, under the one epoch that is compared with itself.
    """

    def __init__(self, patches: Patches, *, epochs_too: bool) -> None:
        self.revisions: dict[int, int] = {}
        lease = _HeldLease(dict.fromkeys(range(PARTITIONS), SAME))
        kept = self

        def fence(
            original: Callable[[Fence, Connection, Sequence[Routed], int], Batch],
        ) -> Callable[[Fence, Connection, Sequence[Routed], int], Batch]:
            def _fence(self: Fence, conn: Connection, routed: Sequence[Routed], now_ms: int) -> Batch:
                kept.revisions = {item.run.id: item.job.revision for item in routed}
                with swapped(self, "lease", lease if epochs_too else self.lease):
                    return original(self, conn, routed, now_ms)

            return _fence

        patches.replace(Fence, "_fence", fence)
