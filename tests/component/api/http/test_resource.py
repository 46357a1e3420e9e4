"""Resources take parts of the application by name: what they call them is what there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from tests.component.api.conftest import Api
from tests.support.parts import with_parts
from xwheel.api.app import ROUTES
from xwheel.api.http.resource import Resource
from xwheel.scheduler.listeners import RunFeed
from xwheel.scheduler.parts import ManagementParts, SharedParts


def is_of(part: object, hint: Any) -> bool:
    """Return whether a part is what a hint says, as far as a class says it, and no protocol."""
    if get_origin(hint) is Callable:
        return callable(part)
    kinds = get_args(hint) or (hint,)
    return any(getattr(kind, "_is_protocol", False) for kind in kinds) or isinstance(part, kinds)


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _ in ROUTES.values()), ids=lambda kind: kind.__name__)
def test_each_part_is_of_the_type_that_a_resource_says(api: Api, kind: type[Resource]) -> None:
    # tests have others in their place
    parts = with_parts(api.parts, listeners=object.__new__(RunFeed))
    made = kind(parts)
    for name, hint in get_type_hints(kind).items():
        part = getattr(made, name)
        assert name == "health" or part is getattr(parts, name), name
        assert is_of(part, hint), (name, part)


def test_a_resource_has_nothing_that_it_does_not_name(api: Api) -> None:
    class Small(Resource):
        """Takes nothing more."""

    assert vars(Small(api.parts)).keys() == {"db", "clock", "config", "_limit"}


def test_a_part_that_there_is_not_stops_the_start(api: Api) -> None:
    class Wrong(Resource):
        nothing: object

    with pytest.raises(AttributeError, match="nothing"):
        Wrong(api.parts)


def test_no_part_hides_another(api: Api) -> None:
    known = api.parts
    shared = SharedParts(known.config, api.db, known.plugins, "token", api.clock, known.secrets.keys)
    management = ManagementParts(shared, known.finisher)
    assert not vars(shared).keys() & vars(management).keys()
    assert vars(shared).keys() | vars(management).keys() <= vars(known).keys()
