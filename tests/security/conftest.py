"""The applications with what is installed next to the core, and two groups that have a token each."""

from __future__ import annotations

from tests.product.accounts.conftest import api, billing, orders

__all__ = ["api", "billing", "orders"]
