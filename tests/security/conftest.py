"""The applications of the unit tests, with two groups that have a token each."""

from __future__ import annotations

from tests.component.api.conftest import api, billing, orders

__all__ = ["api", "billing", "orders"]
