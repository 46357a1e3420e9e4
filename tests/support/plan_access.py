"""A call of every function about tokens; see ``plan_cases``."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.plan_cases import Case
from tests.support.rows import NOW
from xwheel.storage.access import tokens


def cases() -> Iterator[Case]:
    """Give all calls."""
    yield Case("access.tokens.get_token", lambda conn: tokens.get_token(conn, "second"))
    yield Case("access.tokens.find_token", lambda conn: tokens.find_token(conn, "second"))
    yield Case("access.tokens.delete_tokens_of", lambda conn: tokens.delete_tokens_of(conn, 5))
    yield Case("access.tokens.update_used", lambda conn: tokens.update_used(conn, {1: NOW, 2: NOW}))
