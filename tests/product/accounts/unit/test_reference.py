"""The page of the API has every field of the messages about people."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel_accounts.api.messages import (
    AccountChange,
    AccountCreate,
    NewAccountView,
    OwnTokenCreate,
    PasswordChange,
    PasswordReset,
    SessionItem,
    SessionView,
    SettingInput,
    SignInInput,
)

from tests.unit.api.test_pages import API, table_of


@pytest.mark.parametrize(
    "kind", [OwnTokenCreate, SignInInput, PasswordChange, SettingInput, AccountCreate, AccountChange, PasswordReset]
)
def test_the_page_has_every_field(kind: type[Any]) -> None:
    rows = [row for row in table_of(kind) if not row.startswith(("| `after`", "| `limit`"))]
    assert [row for row in rows if row not in API] == []


@pytest.mark.parametrize("view", [NewAccountView, SessionView, SessionItem])
def test_the_page_has_every_field_of_answers(view: type[Any]) -> None:
    assert [name for name in view.__struct_fields__ if f"`{name}`" not in API] == []
