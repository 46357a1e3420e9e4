"""The pages say what the code says: settings, errors, and names of modules, paths, tests and functions."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import runpy
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from tests.support.paths import DOCS, DOCS_PAGES, MADE_WITH_THE_SITE, ROOT
from xwheel import errors
from xwheel.cli.plugin_commands import INDEX
from xwheel.config.loading import SETTINGS, all_settings
from xwheel.config.sections import Section
from xwheel.plugin.hookspecs import BROUGHT
from xwheel.plugin.registries import HINTS


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
    for name, field in sorted(all_settings().model_fields.items()):
        section = field.annotation
        assert isinstance(section, type)
        assert issubclass(section, Section)
        lines += ["", f"## `[{name}]`", "", f"{section.__doc__}", "", "| key | default | meaning |", "|---|---|---|"]
        lines += [
            f"| `{key}` | {_default(section.model_fields[key].get_default(call_default_factory=True))} | {words} |"
            for key, words in _meanings(section).items()
        ]
    return "\n".join(lines) + "\n"


def _meanings(section: type[Section]) -> dict[str, str]:
    """Return by key the text that follows a setting; no process reads these, so pydantic need not either."""
    (written,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(written, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(written.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined or isinstance(value, SecretStr):
        return "none"
    return f"`{value}`" if str(value) else "empty"


def test_every_setting_stands_in_the_reference() -> None:
    assert (DOCS / "reference" / "config.md").read_text() == config_page()


def test_the_list_of_modules_has_each_with_its_first_line() -> None:
    program = runpy.run_path(str(DOCS / "generated.py"))
    page = program["modules_page"]()
    for path in (ROOT / "xwheel").rglob("*.py"):
        assert path.name == "__init__.py" or f"| `{path.name}` | " in page, path


def test_every_setting_has_a_description() -> None:
    for name, field in all_settings().model_fields.items():
        section: Any = field.annotation
        assert list(_meanings(section)) == list(section.model_fields), name


def test_every_error_stands_in_the_reference() -> None:
    page = (DOCS / "reference" / "errors.md").read_text()
    for name, item in vars(errors).items():
        if isinstance(item, type) and issubclass(item, errors.XwheelError):
            assert f"`{name}`" in page, name


def test_u15_the_page_on_speed_names_the_benchmarks_that_make_bench_leaves_out() -> None:
    recipe = re.search(r"^bench:.*?(?=^\n)", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    assert recipe is not None
    page = (DOCS / "explanation" / "performance.md").read_text()
    said = re.search(r"`make bench` gives most figures of your machine;(.*?)are run one by one", page, re.DOTALL)
    assert said is not None
    programs = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "report.finish()" in path.read_text()}
    made = {name for name in programs if re.search(rf"\b{name}\b", recipe[0])}
    assert {name.removeprefix("benchmarks.") for name in re.findall(r"`([\w.]+)`", said[1])} == programs - made


PAGES = [*sorted(ROOT.glob("*.md")), *DOCS_PAGES]


def test_links_lead_somewhere() -> None:
    assert [
        (str(page.relative_to(ROOT)), target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists() and Path(target).name not in MADE_WITH_THE_SITE
    ] == []


def test_changelog_fragments_are_named_for_the_tool() -> None:
    right = re.compile(r"\+[a-z0-9-]+\.(feature|bugfix|change|removal|doc)\.md|README\.md")
    names = [fragment.name for fragment in (ROOT / "changelog.d").glob("*")]
    assert [name for name in names if not right.fullmatch(name)] == []


NAMING_PAGES = [
    # what was released is history
    *(page for page in PAGES if page.name != "CHANGELOG.md"),
    *sorted((ROOT / "changelog.d").glob("*.md")),
    *sorted((ROOT / "plugins").glob("*/README.md")),
]
TREES = ("xwheel", "tests", "plugins", "benchmarks", "docs", "changelog.d", ".ci")
FULL_PATH = re.compile(rf"(?<![\w/.*-])((?:{'|'.join(map(re.escape, TREES))})/[\w./*-]*[\w*/])(?:::(\w+))?")
DOTTED = re.compile(r"(?<![\w/.@*-])((?:xwheel|tests|benchmarks)(?:\.\w+)+)(?![\w.]*/)")
FILE_SUFFIXES = {"toml", "db", "key", "yaml", "json", "example"}
# `storage/runs.py`, `runs.py`; and `storage/runs`, `scheduler/check/`
SHORT_FILE = re.compile(r"`([\w./-]+\.(?:pyx?|pyi))(?:::(\w+))?`")
SHORT_PATH = re.compile(r"`([a-z_]\w*(?:/[a-z_]\w*)+/?|[a-z_]\w*/)`")
MEDIA_TYPES = ("application/", "text/")
MODULE = re.compile(r"\b(?:[Mm]odule|[Ff]older)s? `(\w+)`|`(\w+)`(?:'s)? (?:module|folder)\b")
MEMBER = re.compile(r"`([A-Z][a-z]\w*)\.(_?[a-z]\w*)(?:\([^`]*\))?`")
FUNCTION = re.compile(r"`(?:\w+\.)*(_?[a-z][a-z0-9_]*)\([^`]*\)`")
TEST = re.compile(r"`(test_\w+)`")
IMPORT = re.compile(r"from (xwheel[\w.]*) import (?:\(([^)]*)\)|([^\n#(\\]+))")
# functions of other products, with which pages compare
THEIRS = {"apply_async", "crontab", "solar", "timedelta"}
SAVED = re.compile(r"Save this as `([^`]+)`")


@cache
def tree() -> frozenset[str]:
    """Return the path of each file and folder of ours, with a slash before it."""
    found = [path for top in TREES for path in (ROOT / top, *(ROOT / top).rglob("*"))]
    return frozenset(f"/{path.relative_to(ROOT)}" for path in found if "__pycache__" not in path.parts)


@cache
def source() -> str:
    """Return all of our code."""
    endings = {".py", ".pyx"}
    return "\n".join((ROOT / path[1:]).read_text() for path in sorted(tree()) if Path(path).suffix in endings)


def defines(kind: str, name: str) -> bool:
    return bool(re.search(rf"^ *(?:async )?(?:{kind}) {name}\b", source(), re.MULTILINE))


def ends(short: str) -> bool:
    """Return whether a file or folder has this path at its end."""
    return any(path.endswith(f"/{short.rstrip('/')}") for path in tree())


def has_dotted(name: str) -> bool:
    """Return whether this is a module's name, that of something in a module, or a file's."""
    parts = name.split(".")
    if parts[-1] in FILE_SUFFIXES or name in {BROUGHT, HINTS, INDEX, SETTINGS}:
        return True
    for count in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:count])
        if any(path.exists() for path in (place.with_suffix(".py"), place.with_suffix(".pyx"), place / "__init__.py")):
            found: Any = importlib.import_module(".".join(parts[:count])) if count < len(parts) else None
            return all((found := getattr(found, part, None)) is not None for part in parts[count:])
    return False


def has_path(path: str, test: str = "") -> bool:
    """Return whether a path from the root exists, and has this test."""
    found = next(iter(ROOT.glob(path.rstrip("/"))), None)
    return found is not None and (not test or f"def {test}(" in found.read_text())


def has_short(path: str, test: str = "") -> bool:
    """Return whether a short path leads to one of our files or folders, with or without its ending."""
    found = path.startswith(MEDIA_TYPES) or ends(path) or ends(f"{path}.py")
    return found and (not test or defines("def", test))


def has_member(name: str, member: str) -> bool:
    return defines("class", name) and bool(re.search(rf"\b(?:def |self\.){member}\b", source()))


def has_function(name: str) -> bool:
    return name in THEIRS or hasattr(builtins, name) or defines("def", name)


def has_imports(module: str, several: str, names: str) -> bool:
    """Return whether a listing may import these names."""
    found = [name.split()[0] for name in (several or names).replace("\n", " ").split(",") if name.strip()]
    if module.startswith("xwheel_"):  # a plugin's package; it is not installed next to the core's tests
        path = module.replace(".", "/")
        is_there = ends(f"{path}/__init__.py") or ends(f"{path}.py")
        return is_there and all(defines("class|def", name) for name in found)
    return all(hasattr(importlib.import_module(module), name) or has_dotted(f"{module}.{name}") for name in found)


CHECKS: list[tuple[re.Pattern[str], Callable[..., bool]]] = [
    (FULL_PATH, has_path),
    (SHORT_FILE, has_short),
    (SHORT_PATH, has_short),
    (MODULE, lambda before, after: has_short(before or after)),
    (DOTTED, has_dotted),
    (MEMBER, has_member),
    (FUNCTION, has_function),
    (IMPORT, has_imports),
    (TEST, lambda name: has_function(name) or has_short(name)),
]


def wrong_names(text: str) -> Iterator[str]:
    """Yield what a page names and the tree does not have."""
    saved = set(SAVED.findall(text))
    for pattern, exists in CHECKS:
        for found in pattern.finditer(text):
            groups = [group or "" for group in found.groups()]
            if groups[0] not in saved and not exists(*groups):
                yield "::".join(filter(None, groups))


def test_what_a_page_names_exists() -> None:
    wrong = {str(page.relative_to(ROOT)): list(wrong_names(page.read_text())) for page in NAMING_PAGES}
    assert {page: names for page, names in wrong.items() if names} == {}


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
        "`Finisher.no_such_method`",
        "`no_such_function()`",
        "from xwheel.plugin import hookimpl, no_such_name",
        "from xwheel_egress import (\n    NoSuchClient,\n)",
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


def test_every_folder_stands_in_the_list_for_contributors() -> None:
    listed = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "xwheel").rglob("__init__.py")}
    inside = {"xwheel", "xwheel/storage/schema/migrations", "xwheel/storage/schema/migrations/versions"}
    assert [name for name in map(str, folders) if name not in inside and f"`{name}`" not in listed] == []


def test_the_wheels_of_a_checkout_have_each_distribution_that_an_extra_names() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name.partition("[")[0] for extra in extras.values() for name in extra if name.startswith("xwheel-")}
    assert "pip wheel --no-deps --wheel-dir wheels . plugins/*/" in (ROOT / "README.md").read_text()
    built = {tomllib.loads(path.read_text())["project"]["name"] for path in ROOT.glob("plugins/*/pyproject.toml")}
    assert named
    assert named <= built


if __name__ == "__main__":
    (DOCS / "reference" / "config.md").write_text(config_page())
