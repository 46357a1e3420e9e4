"""Mistakes that no test notices, and why that is right: the change makes no difference that anyone can observe."""

from __future__ import annotations

from typing import Final

EXPLAINED: Final[dict[str, str]] = {}
"""From the mistake's ``why`` to the reason."""
