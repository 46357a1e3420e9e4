"""A secret that may be stored is shown, however its start ends."""

from __future__ import annotations

import pytest

from xwheel.errors import DatabaseUnreachableError
from xwheel.node.first_secrets import UNKNOWN, make_executor_token
from xwheel.storage.database.engine import CommitUnknownError, Database


def test_one_whose_commit_may_still_be_under_way_is_shown_when_the_start_is_given_up(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look finds nothing, and the next try is cut before its COMMIT: the first COMMIT may still take effect."""
    lines: list[str] = []
    secret = make_executor_token(lines.append)
    errors = [CommitUnknownError("the connection broke at COMMIT"), DatabaseUnreachableError("away")]

    def cut(work: object) -> None:
        del work
        raise errors.pop(0)

    monkeypatch.setattr(db, "transaction", cut)
    with pytest.raises(CommitUnknownError):
        secret.ensure(db)
    with pytest.raises(DatabaseUnreachableError):
        secret.ensure(db)
    secret.show_unknown()
    assert lines == [f"executor token ({UNKNOWN}): {secret.value}"]
