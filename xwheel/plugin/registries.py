"""A read-only table from name to plugin object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar

from xwheel.errors import UnknownNameError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Objects of one kind by name; a look-up is one dict access.

    Args:
        kind: What the objects are, for messages: ``router``.
        objects: The objects by name.
        owners: Which distribution and entry point brought each name.
        trusted: Names that a distribution brought which ``plugins.trusted`` names.
    """

    def __init__(
        self,
        kind: str,
        objects: Mapping[str, T],
        owners: Mapping[str, str],
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
        """Return the object.

        Raises:
            UnknownNameError: The name is not registered (a ``KeyError``, so ``get`` works).
        """
        try:
            return self._objects[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, tuple(sorted(self._objects))) from None

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)
