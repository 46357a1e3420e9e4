"""Where things lie in a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
DATA: Final = ROOT / "tests" / "data"
MADE_WITH_THE_SITE: Final = {"modules.md", "openapi.json"}
"""By ``docs/generated.py``; they may be there or not."""

DOCS_PAGES: Final = [page for page in sorted(DOCS.rglob("*.md")) if page.name not in MADE_WITH_THE_SITE]
