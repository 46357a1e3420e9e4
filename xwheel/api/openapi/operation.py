"""What a responder takes and answers, said once next to it: the OpenAPI document is made of this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, TypeVar

import msgspec

F = TypeVar("F", bound=Callable[..., None])

ATTRIBUTE: Final = "operation"


@dataclass(frozen=True, slots=True)
class Operation:
    """What the OpenAPI document says of a method of a route; stands as a decorator on its responder.

    Attributes:
        answers: The message of each good answer by its status; None for an empty one.
        body: The message that is sent; ``dict`` for a table whose keys are checked elsewhere, None for no body.
        is_body_optional: An empty body counts as a message without fields.
        query: The message of the query; None if there is none.
        headers: Names of the request's headers that matter, of those in ``openapi.HEADERS``.
        problems: Kinds of failure besides those that every route shares.
        media: Content type of good answers.
        is_open: A plugin answers: with any good status, and with failures of its own.
    """

    answers: Mapping[int, type[msgspec.Struct] | None]
    _: KW_ONLY
    body: type[Any] | None = None
    is_body_optional: bool = False
    query: type[msgspec.Struct] | None = None
    headers: Sequence[str] = ()
    problems: Sequence[str] = ()
    media: str = "application/json"
    is_open: bool = False

    def __call__(self, responder: F) -> F:
        """Note this on a responder."""
        setattr(responder, ATTRIBUTE, self)
        return responder


def find_operation(responder: object) -> Operation | None:
    """Return what was noted on a responder, or None."""
    found = getattr(responder, ATTRIBUTE, None)
    return found if isinstance(found, Operation) else None
