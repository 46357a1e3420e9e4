"""What somebody does to an object: handed to the recorder of a plugin in the transaction that does it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from xwheel.model.access import Actor, current_actor


class AuditOutcome(StrEnum):
    """What came of what somebody wanted."""

    DONE = "done"
    REFUSED = "refused"  #: they may not do it, or it is not known who they are
    FAILED = "failed"  #: they may, and it did not work


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to one object."""

    action: str  #: what is done, as ``job.edit``: the kind of object, and the verb
    kind: str  #: kind of the object
    object_id: object  #: its id or name
    group_id: int | None = None  #: the group that it belongs to; None for what belongs to none, or to all
    before: object = None  #: how it was, as a record or a mapping; None for what is new
    after: object = None  #: how it is; None for what is gone
    outcome: AuditOutcome = AuditOutcome.DONE  #: what came of it
    actor: Actor = msgspec.field(default_factory=current_actor)  #: who does it
    at_ms: int | None = None  #: when it happened; None for now


def clean(text: str, most: int) -> str:
    """Return a text as every database keeps it: without NUL and halves of pairs, and this long at most."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:most]
