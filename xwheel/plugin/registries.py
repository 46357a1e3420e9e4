"""A read-only table from name to plugin object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import msgspec

from xwheel.errors import UnknownNameError
from xwheel.plugin.validation import read_entries

T = TypeVar("T")
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
HINTS: Final = "xwheel.hints"
"""Entry points that name a mapping: kind of object to its names, and each to how its plugin is installed."""


def where_it_comes_from(kind: str, name: str) -> str:
    """Return how to install what brings a name, or an empty text if no distribution here knows."""
    return next((hints[kind][name] for hints in _all_hints() if name in hints.get(kind, {})), "")


@cache
def _all_hints() -> Sequence[Mapping[str, Mapping[str, str]]]:
    """Return the hints of all distributions; one that cannot be read is logged once, and has none."""
    return read_entries(HINTS, lambda found: msgspec.convert(found, dict[str, dict[str, str]]))


class Registry(Mapping[str, T], Generic[T]):
    """Objects of one kind, such as ``router``, by name; a look-up is one dict access.

    ``owners`` says which distribution and entry point brought each name, ``trusted`` has the names that distributions
    brought which ``plugins.trusted`` names.
    """

    def __init__(
        self,
        kind: str,
        objects: Mapping[str, T] = NOTHING,
        owners: Mapping[str, str] = NOTHING,
        trusted: Collection[str] = (),
    ) -> None:
        self.kind = kind
        self._objects = dict(objects)
        self.owners = dict(owners)
        self.trusted = frozenset(trusted)

    def with_objects(self, objects: Mapping[str, T], owner: str, trusted: Collection[str]) -> Registry[T]:
        """Return a table that holds further objects of one owner, too."""
        return Registry(
            self.kind,
            {**self._objects, **objects},
            {**self.owners, **dict.fromkeys(objects, owner)},
            {*self.trusted, *trusted},
        )

    def __getitem__(self, name: str) -> T:
        """Return the object; raises :class:`UnknownNameError`, a ``KeyError``, so that ``get`` works."""
        try:
            return self._objects[name]
        except KeyError:
            known = tuple(sorted(self._objects))
            raise UnknownNameError(self.kind, name, known, where_it_comes_from(self.kind, name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)
