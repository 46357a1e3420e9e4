"""The pages say what the code says: settings, errors, and names of modules, paths, tests and functions."""

from __future__ import annotations

import builtins
import importlib
import re
from collections.abc import Iterator
from functools import cache
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


PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("fragment", sorted((ROOT / "changelog.d").glob("*")), ids=lambda path: path.name)
def test_changelog_fragments_are_named_for_the_tool(fragment: Path) -> None:
    assert re.fullmatch(r"\+[a-z0-9-]+\.(feature|bugfix|change|removal|doc)\.md|README\.md", fragment.name)


NAMING_PAGES = [
    *PAGES,
    *sorted((ROOT / "changelog.d").glob("*.md")),
    *sorted((ROOT / "plugins").glob("*/README.md")),
]
TREES = ("xwheel", "tests", "plugins", "benchmarks", "docs", "changelog.d", ".ci")
FULL_PATH = re.compile(rf"(?<![\w/.*-])((?:{'|'.join(map(re.escape, TREES))})/[\w./*-]*[\w*/])(?:::(\w+))?")
DOTTED = re.compile(r"(?<![\w/.@*-])((?:xwheel|xwheel_\w+|tests|benchmarks)(?:\.\w+)+)(?![\w.]*/)")
FILE_SUFFIXES = {"toml", "db", "key", "yaml", "json", "example"}
# `storage/runs.py`, `runs.py`; and `storage/runs`, `scheduler/check/`
SHORT_FILE = re.compile(r"`([\w./-]+\.(?:pyx?|pyi))(?:::(\w+))?`")
SHORT_PATH = re.compile(r"`([a-z_]\w*(?:/[a-z_]\w*)+/?|[a-z_]\w*/)`")
MEDIA_TYPES = ("application/", "text/")
MODULE = re.compile(r"\b(?:[Mm]odule|[Ff]older)s? `(\w+)`|`(\w+)`(?:'s)? (?:module|folder)\b")
MEMBER = re.compile(r"`([A-Z][a-z]\w*)\.(_?[a-z]\w*)(?:\([^`]*\))?`")
FUNCTION = re.compile(r"`(?:\w+\.)*(_?[a-z][a-z0-9_]*)\([^`]*\)`")
TEST = re.compile(r"`(test_\w+)`")
SAVED = re.compile(r"Save this as `([^`]+)`")


@cache
def tree() -> frozenset[str]:
    """Return the path of each file and folder of ours, with a slash before it."""
    found = [path for top in TREES for path in (ROOT / top).rglob("*") if "__pycache__" not in path.parts]
    return frozenset(f"/{path.relative_to(ROOT)}" for path in found)


@cache
def source() -> str:
    """Return all of our code."""
    endings = {".py", ".pyx"}
    return "\n".join((ROOT / path[1:]).read_text() for path in sorted(tree()) if Path(path).suffix in endings)


def defines(kind: str, name: str) -> bool:
    return bool(re.search(rf"^ *(?:async )?{kind} {name}\b", source(), re.MULTILINE))


def ends(short: str) -> bool:
    """Return whether a file or folder has this path at its end."""
    return any(path.endswith(f"/{short.rstrip('/')}") for path in tree())


def missing_dotted(name: str) -> bool:
    """Return whether no module, and no attribute of one, has this name."""
    parts = name.split(".")
    if parts[-1] in FILE_SUFFIXES or parts[0].startswith("xwheel_"):
        return parts[0].startswith("xwheel_") and not ends("/".join(parts[:2]) + ".py")
    for count in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:count])
        if place.with_suffix(".py").exists() or (place / "__init__.py").exists():
            found: Any = importlib.import_module(".".join(parts[:count])) if count < len(parts) else None
            for part in parts[count:]:
                if not hasattr(found, part):
                    return True
                found = getattr(found, part)
            return False
    return True


def wrong_names(text: str) -> Iterator[str]:
    """Yield what a page names and the tree does not have."""
    saved = set(SAVED.findall(text))
    for path, test in FULL_PATH.findall(text):
        found = list(ROOT.glob(path.rstrip("/"))) if "*" in path else [ROOT / path]
        if not found or not found[0].exists():
            yield path
        elif test and f"def {test}(" not in found[0].read_text():
            yield f"{path}::{test}"
    for path, test in SHORT_FILE.findall(text):
        if path not in saved and not ends(path):
            yield path
        elif test and not defines("def", test):
            yield f"{path}::{test}"
    for path in SHORT_PATH.findall(text):
        if not path.startswith(MEDIA_TYPES) and not (ends(path) or ends(f"{path}.py")):
            yield path
    yield from (name for name in DOTTED.findall(text) if missing_dotted(name))
    for before, after in MODULE.findall(text):
        if not (ends(before or after) or ends(f"{before or after}.py")):
            yield before or after
    for name, member in MEMBER.findall(text):
        if not defines("class", name) or not re.search(rf"\b(?:def |self\.){member}\b", source()):
            yield f"{name}.{member}"
    for name in FUNCTION.findall(text):
        if not (hasattr(builtins, name) or defines("def", name)):
            yield f"{name}()"
    yield from (name for name in TEST.findall(text) if not (defines("def", name) or ends(f"{name}.py")))


@pytest.mark.parametrize("page", NAMING_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    assert not list(wrong_names(page.read_text()))


@pytest.mark.parametrize(
    "wrong",
    [
        "see xwheel.scheduler.claim",
        "`xwheel.plugin.NoSuchName`",
        "python -m benchmarks.nothing",
        "`xwheel/listener/server.py`",
        "tests/unit/test_nothing.py",
        "`tests/test_docs.py::test_nothing_such`",
        "`plugins/nothing/README.md`",
        "`scheduler/claim.py`",
        "`storage/tables.py`",
        "`offspring.py`",
        "`scheduler/alarm/`",
        "`alarm/desk`",
        "the module `firing`",
        "the `trigger_pool` module",
        "`Completer.no_such_method`",
        "`no_such_function()`",
        "`test_no_such_thing`",
    ],
)
def test_a_wrong_name_is_found(wrong: str) -> None:
    assert list(wrong_names(wrong))


def test_right_names_and_other_words_pass() -> None:
    right = (
        "xwheel.cron.parse, `scheduler/plan/claim.py`, `plan/claim`, `storage/`, `tests/security/test_page.py`, "
        "the module `claim`, `xwheel.toml`, `application/json`, `repr()`, `/api/v1/jobs`, Save this as `mine.py`"
    )
    assert not list(wrong_names(right + " and again `mine.py`"))


if __name__ == "__main__":
    (DOCS / "reference" / "config.md").write_text(config_page())
