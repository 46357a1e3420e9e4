"""What somebody does to an object: handed to the recorder of a plugin in the transaction that does it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from xwheel.model.access import Actor, current_actor


class AuditOutcome(StrEnum):
    """What came of what somebody wanted."""

    DONE = "done"
    REFUSED = "refused"
    """They may not do it, or it is not known who they are."""

    FAILED = "failed"
    """They may, and it did not work."""


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to one object.

    Attributes:
        action: What is done, as ``job.edit``: the kind of object, and the verb.
        kind: Kind of the object.
        object_id: Its id or name.
        group_id: The group that it belongs to; None for what belongs to none, or to all.
        before: How it was, as a record or a mapping; None for what is new.
        after: How it is; None for what is gone.
        outcome: What came of it.
        actor: Who does it.
        at_ms: When it happened; None for now.
    """

    action: str
    kind: str
    object_id: object
    group_id: int | None = None
    before: object = None
    after: object = None
    outcome: AuditOutcome = AuditOutcome.DONE
    actor: Actor = msgspec.field(default_factory=current_actor)
    at_ms: int | None = None


def clean(text: str, most: int) -> str:
    """Return a text as every database keeps it: without NUL and halves of pairs, and this long at most."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:most]
