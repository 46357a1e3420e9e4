"""The list of what runs on servers names tests that are there: of one that is not, pytest runs none at all."""

from __future__ import annotations

import re

import pytest

from tests.support.backends import PLACES
from tests.support.paths import ROOT


@pytest.mark.parametrize("place", [None, "tests/product/console/test_reader.py::test_gone"])
def test_each_place_is_there(place: str | None) -> None:
    missing = [item for item in ([place] if place else PLACES) if not _is_there(item)]
    assert missing == ([place] if place else [])


def _is_there(place: str) -> bool:
    file, _, name = place.partition("[")[0].partition("::")
    path = ROOT / file
    return path.exists() and (not name or bool(re.search(rf"^def {name}\(", path.read_text("utf-8"), re.MULTILINE)))
