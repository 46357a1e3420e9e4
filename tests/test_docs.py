"""The reference pages say what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from tests.support.paths import ROOT
from xwheel import errors
from xwheel.config import Config
from xwheel.config.sections import Section

DOCS = ROOT / "docs"


def config_page() -> str:
    """Return the reference of all settings, as it must stand in ``docs/reference/config.md``."""
    lines = [
        "# Settings",
        "",
        "Order: default < TOML file (`--config`, `XWHEEL_CONFIG`) < environment (`XWHEEL_SECTION__KEY`) < arguments.",
        "An unknown key stops the start and names the nearest known one. Durations end in `_ms` or `_s`.",
        "This page is compared with the code by `tests/test_docs.py`, which can also write it:",
        "`python -m tests.test_docs`.",
    ]
    for name, field in Config.model_fields.items():
        section = field.annotation
        assert isinstance(section, type)
        assert issubclass(section, Section)
        lines += [
            "",
            f"## `[{name}]`",
            "",
            f"{section.__doc__}",
            "",
            "| key | default | meaning |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{key}` | {_default(item.get_default(call_default_factory=True))} | {item.description} |"
            for key, item in section.model_fields.items()
        ]
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined or isinstance(value, SecretStr):
        return "none"
    return f"`{value}`" if str(value) else "empty"


def test_every_setting_stands_in_the_reference() -> None:
    assert (DOCS / "reference" / "config.md").read_text() == config_page()


def test_every_setting_has_a_description() -> None:
    for section in Config.model_fields.values():
        for key, item in section.annotation.model_fields.items():  # type: ignore[union-attr]
            assert item.description, key


def test_every_error_stands_in_the_reference() -> None:
    page = (DOCS / "reference" / "errors.md").read_text()
    for name, item in vars(errors).items():
        if isinstance(item, type) and issubclass(item, errors.XwheelError):
            assert f"`{name}`" in page, name


PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("fragment", sorted((ROOT / "changelog.d").glob("*")), ids=lambda path: path.name)
def test_changelog_fragments_are_named_for_the_tool(fragment: Path) -> None:
    assert re.fullmatch(r"\+[a-z0-9-]+\.(feature|bugfix|change|removal|doc)\.md|README\.md", fragment.name)


if __name__ == "__main__":
    (DOCS / "reference" / "config.md").write_text(config_page())
