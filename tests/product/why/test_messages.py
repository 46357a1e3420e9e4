"""What the call takes and says; the page of the API has it."""

from __future__ import annotations

import msgspec
import pytest
from xwheel_why import messages
from xwheel_why.facts import Cause, Kind
from xwheel_why.messages import WhyQuery

from tests.support.paths import DOCS
from tests.unit.api.test_pages import API, table_of

HOWTO = (DOCS / "howto" / "why.md").read_text(encoding="utf-8")
VIEWS = (messages.WhyView, messages.WhyStage, messages.WhyRun, messages.WhyEvidence)


def test_every_field_stands_in_the_page_with_its_limit() -> None:
    for row in table_of(WhyQuery):
        assert row in API, row


@pytest.mark.parametrize("view", VIEWS)
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name


@pytest.mark.parametrize("kind", [Kind, Cause])
def test_every_cause_is_explained(kind: type[Kind | Cause]) -> None:
    for word in kind:
        assert f"| `{word}` |" in HOWTO, word
