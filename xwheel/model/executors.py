"""Executor groups and the executors in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SHARED_SECRET: Final = 0  # in place of a secret's id: the token that all executors share
# in place of a secret's id: what was proven is a group's token, of which only a digest is known
NO_SECRET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorGroup:
    """Executors that share an app name."""

    id: int
    app_name: str
    title: str
    # how many runs of the group may be dispatching or running at once, on all executors and nodes together; 0 for no
    # limit
    max_running: int
    created_ms: int
    updated_ms: int
    # names that its executors run and that need no plugin here; the jobs' sources go to them
    glue_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredExecutor:
    """One executor process as the registry knows it."""

    id: int
    group_id: int
    address: str  #: normalised base URL without trailing slash; the key of routing
    registered_as: str  #: the address as the executor spelled it
    kind: str  #: ``xwheel`` if it speaks our batch calls, otherwise ``foreign``
    #: wire generation, 1 to 4 (``reference: xxl-job-protocol``), which decides ``/run`` or ``/trigger``; 5 for one of
    #: xwheel that takes runs before they are due
    generation: int
    instance: str  #: journal identity of an xwheel executor, empty for foreign ones
    boot: str  #: changes with each start of an xwheel executor, empty for foreign ones
    seen_ms: int  #: last beat that the database knows
    #: after a failed send: routed to only if there is no other executor, until this time
    suspect_until_ms: int
    #: what an xwheel executor says of itself, for routers; empty for foreign ones
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    #: the executor secret that it registered with, and is called with: an id, ``SHARED_SECRET`` or ``NO_SECRET``; None
    #: if a node of an older version wrote it: such nodes know only the shared one
    secret_id: int | None = None
    earlier_secret_id: int | None = None  #: another secret that was proven at the address before, or None
    release: str | None = None  #: of the application whose code declares jobs there; None if it declares none
    declared: str | None = None  #: digest of what it declares; None as well
    by_hand: bool = False  #: it is here because a person entered its address, and did not register itself


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteredAddress:
    """The address of an executor as a person entered it for a group."""

    group_id: int
    address: str  # normalised base URL
    secret_id: int  # the group's executor secret that it is called with, or ``NO_SECRET`` for none
    error: str = ""  # why no run goes there, empty while it answers


class Reporter(NamedTuple):
    """Who reports runs from outside. The secret that came with the report tells it."""

    group_id: int | None  #: the group that the secret or token belongs to; None for the token that all executors share

    def may_report(self, group_id: int, secret_id: int | None) -> bool:
        """Return whether it may report a run.

        A group reports its own runs. The shared token reports the runs that were sent under the shared token.
        ``group_id`` is the run's, and ``secret_id`` what it was sent under, as :class:`RegisteredExecutor` has it.
        """
        if self.group_id is not None:
            return self.group_id == group_id
        return secret_id in (None, SHARED_SECRET)
