"""The page about security names tests that exist, and every rule."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:tests|plugins)/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists()
    assert not name or f"def {name}(" in (ROOT / path).read_text()


def test_every_rule_and_test_of_the_list_is_there() -> None:
    assert {int(number) for number in re.findall(r"\bR(\d+)", PAGE)} == set(range(1, 16))
    assert set(re.findall(r"\bT(\d+)", PAGE)) == {"2", "3", "5", "6", "7", "8", "10", "11", "12", "13", "14", "17"}
    assert len(NAMED) > 30
