"""Parts of the applications with others in place of some."""

from __future__ import annotations

import copy
from typing import Any

from xwheel.api.parts import ApiParts


def with_parts(parts: ApiParts, **others: Any) -> ApiParts:
    """Return the parts with others in place of those of the same names."""
    made = copy.copy(parts)
    assert all(hasattr(made, name) for name in others), others
    vars(made).update(others)
    return made
