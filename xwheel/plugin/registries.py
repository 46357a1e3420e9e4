"""A read-only table from name to plugin object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Generic, TypeVar

from xwheel.errors import UnknownNameError

T = TypeVar("T")


SHIPPED: Final[Mapping[str, Mapping[str, str]]] = {
    "router": dict.fromkeys(
        (
            "BUSYOVER",
            "CONSISTENT_HASH",
            "FAILOVER",
            "LABELS",
            "LABELS_ASKING",
            "LEAST_FREQUENTLY_USED",
            "LEAST_LOADED",
            "LEAST_RECENTLY_USED",
            "STICKY",
            "WEIGHTED",
        ),
        "xwheel-router-extra",
    ),
    "glue type": {
        "GLUE_HTTP": "xwheel-glue-http",
        "GLUE_NODEJS": "xwheel-glue-script",
        "GLUE_PHP": "xwheel-glue-script",
        "GLUE_POWERSHELL": "xwheel-glue-script",
        "GLUE_PYTHON": "xwheel-glue-script",
        "GLUE_PYTHON2": "xwheel-glue-script",
        "GLUE_SHELL": "xwheel-glue-script",
    },
    "alarm channel": {"email": "xwheel-alarm-email", "sms": "xwheel-alarm-sms"},
    "log store": {"s3": "xwheel-log-s3", "sql": "xwheel-log-sql"},
}
"""Kind to the names that distributions of ours bring next to the core, and which brings each."""

XXL: Final = frozenset({"xwheel-alarm-email", "xwheel-glue-script", "xwheel-router-extra"})
"""What the extra ``xxl`` brings."""


def where_it_comes_from(kind: str, name: str) -> str:
    """Return how to install what brings a name, or an empty text if it is none of ours."""
    found = SHIPPED.get(kind, {}).get(name)
    if found is None:
        return ""
    wanted = "'xwheel[xxl]'" if found in XXL else found
    return f"{name} comes with {found}: pip install {wanted} next to each node" + (
        " and each executor that runs it" if kind == "glue type" else ""
    )


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
            known = tuple(sorted(self._objects))
            raise UnknownNameError(self.kind, name, known, where_it_comes_from(self.kind, name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)
