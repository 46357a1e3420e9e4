"""What a responder takes and answers, said once beside it: the OpenAPI document is made of this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

F = TypeVar("F", bound=Callable[..., None])

ATTRIBUTE: Final = "operation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the OpenAPI document says of a method of a route.

    Attributes:
        answers: The message of each good answer by its status; None for an empty one.
        body: The message that is sent; ``dict`` for a table whose keys others judge, None for no body.
        is_body_optional: An empty body counts as a message without fields.
        query: The message of the query, None if it is not looked at.
        headers: Names of the request's headers that matter, of those in ``openapi.HEADERS``.
        problems: Kinds of failure beside those that every route shares.
        media: Content type of good answers.
    """

    answers: Mapping[int, type[msgspec.Struct] | None]
    body: type[Any] | None = None
    is_body_optional: bool = False
    query: type[msgspec.Struct] | None = None
    headers: Sequence[str] = ()
    problems: Sequence[str] = field(default=())
    media: str = "application/json"


def operation(
    answers: Mapping[int, type[msgspec.Struct] | None],
    *,
    body: type[Any] | None = None,
    is_body_optional: bool = False,
    query: type[msgspec.Struct] | None = None,
    headers: Sequence[str] = (),
    problems: Sequence[str] = (),
    media: str = "application/json",
) -> Callable[[F], F]:
    """Note on a responder what it takes and answers; see :class:`Operation`."""
    noted = Operation(
        answers=answers,
        body=body,
        is_body_optional=is_body_optional,
        query=query,
        headers=headers,
        problems=problems,
        media=media,
    )

    def note(responder: F) -> F:
        setattr(responder, ATTRIBUTE, noted)
        return responder

    return note


def find_operation(responder: object) -> Operation | None:
    """Return what was noted on a responder, or None."""
    found = getattr(responder, ATTRIBUTE, None)
    return found if isinstance(found, Operation) else None
