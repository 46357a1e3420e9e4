"""Derives views from records, and messages of changes from those of new objects, so that a field is said once.

Nothing reads the derived fields one by one: views are made by :func:`xwheel.api.http.resource.view_of`, and changes
are taken as a table of the fields that were given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from operator import or_
from types import GenericAlias, NoneType
from typing import Any, TypeVar, cast, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

S = TypeVar("S", bound=Struct)


def fields_of(record: type, *names: str, without: Collection[str] = (), **types: Any) -> Callable[[type[S]], type[S]]:
    """Return a decorator that puts fields of a record before a view's own, with the record's types or other ``types``.

    The names are in order, several in a text; without any, all fields are shown but those ``without``.
    """
    hints = {**get_type_hints(record, include_extras=True), **types}
    return _beginning_with([(name, hints[name]) for name in " ".join(names).split() or hints if name not in without])


def changes_to(
    kind: type[Struct], *, without: Collection[str] = (), never_null: Collection[str] = ()
) -> Callable[[type[S]], type[S]]:
    """Return a decorator that puts the fields of a new object before a change's own; each may be left out.

    Null of those that are ``never_null`` means something for a new object alone.
    """
    hints = get_type_hints(kind, include_extras=True)
    for name in never_null:
        hints[name] = reduce(or_, (part for part in get_args(hints[name]) if part is not NoneType))
    return _beginning_with(
        [
            (name, hint | UnsetType, UNSET)
            for name, hint in hints.items()
            if name in kind.__struct_fields__ and name not in without
        ]
    )


def page_of(name: str, item: type[Struct], what: str, *, key: type = int) -> type[Struct]:
    """Return a page of a list; ``what`` says in words what items it has, and ``key`` is the type of a place in it."""
    text = f"A page of {what}; ``next`` is the ``after`` of the following one, null on the last."
    items: Any = GenericAlias(list, (item,))
    fields: list[Any] = [("items", items), ("next", key | None, None)]
    return msgspec.defstruct(name, fields, namespace={"__doc__": text}, frozen=True, kw_only=True)


def _beginning_with(fields: list[Any]) -> Callable[[type[S]], type[S]]:
    def extend(kind: type[S]) -> type[S]:
        own = msgspec.structs.fields(kind)
        made = msgspec.defstruct(
            kind.__name__,
            [*fields, *((field.name, field.type, *(() if field.required else (field.default,))) for field in own)],
            bases=kind.__bases__,
            module=kind.__module__,
            # what it says of itself to the OpenAPI document
            namespace={name: value for name, value in vars(kind).items() if name == "__doc__" or name.isupper()},
            frozen=True,
            kw_only=True,
        )
        return cast(type[S], made)

    return extend
