"""The house's rules that a machine can check: who may import whom, and where each library lives."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "xwheel"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = {
    0: {
        "errors",
        "model",
        "clock",
        "calendars",
        "cron",
        "extras",
        "guessing",
        "private_files",
        "ring",
        "_ring",
        "_ring_py",
        "timer",
        "_timer",
        "_timer_py",
    },
    1: {"wire", "config", "runtime"},
    2: {"plugin"},
    3: {"storage", "builtin"},
    4: {"scheduler", "executor"},
    5: {"alarms", "access"},
    6: {"api"},
    7: {"node"},
    # embedded puts node and executor into one process, and is part of no command
    8: {"__init__", "__main__", "cli", "embedded"},
}
LAYER_OF = {room: layer for layer, rooms in LAYERS.items() for room in rooms}

# library to the places that may import it
HOMES = {
    "sqlalchemy": ("storage/",),
    "alembic": ("storage/",),
    "falcon": ("api/", "executor/intake/endpoints.py"),
    "cryptography": ("runtime/sealing.py",),
    "pluggy": ("plugin/",),
    "packaging": ("plugin/",),
    "pycurl": ("wire/http/",),
    "certifi": ("wire/http/",),
    "holidays": ("calendars.py",),
    "croniter": ("cron/",),
    "waitress": ("runtime/http_server.py",),
    "typer": ("cli/",),
    "rich": ("cli/",),
    "yaml": (),
}


def where(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where things live"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


STAGES = ("plan", "route", "fire", "send", "check", "finish", "upkeep")
"""Folders of the scheduler that a fire passes through, in this order, after ``cluster``."""

NEXT_TO_STAGES = {"jobs", "runs", "scripts"}
"""Folders of the scheduler that know of stages, and of which no stage knows."""


def own_rooms(path: Path) -> set[str]:
    rooms = {name.split(".")[1] for name in imports(path) if name.startswith("xwheel.")}
    return {room for room in rooms if room in LAYER_OF}


def test_imports_point_down() -> None:
    wrong = []
    for path in MODULES:
        mine = room_of(path)
        if mine not in LAYER_OF:
            wrong.append(f"{where(path)}: {mine} has no layer: the design must say where it belongs")
            continue
        for room in own_rooms(path) - {mine}:
            if not (LAYER_OF[room] < LAYER_OF[mine] or LAYER_OF[mine] == LAYER_OF[room] != 4):
                wrong.append(f"{where(path)}: {mine} imports {room}")
            if room == "builtin":
                wrong.append(f"{where(path)}: builtin plugins are discovered, never imported")
    assert wrong == []


def test_the_stages_of_a_fire_import_forward() -> None:
    wrong = []
    for path in MODULES:
        stage = scheduler_folder(name_of(path))
        if stage not in STAGES and stage != "cluster":
            continue
        earlier = set(STAGES if stage == "cluster" else STAGES[: STAGES.index(stage)])
        wrong += sorted(
            {
                f"{where(path)}: {stage} imports {folder}"
                for folder in map(scheduler_folder, imports(path))
                if folder in earlier | NEXT_TO_STAGES
            }
        )
    assert wrong == []


def scheduler_folder(module: str) -> str:
    """Return the folder of the scheduler that a module is in, or an empty text."""
    parts = module.split(".")
    is_there = parts[:2] == ["xwheel", "scheduler"] and len(parts) > 2
    return parts[2] if is_there and (PACKAGE / "scheduler" / parts[2]).is_dir() else ""


def test_settings_know_no_process() -> None:
    """The settings are read before there is one, and by programs that need no more of xwheel."""
    allowed = LAYERS[0] | {"config"}
    assert [
        f"{where(path)}: config imports {room}"
        for path in MODULES
        if room_of(path) == "config"
        for room in own_rooms(path) - allowed
    ] == []


def test_libraries_stay_at_home() -> None:
    wrong = []
    for path in MODULES:
        for name in imports(path):
            homes = HOMES.get(name.split(".")[0])
            if homes is not None and not where(path).startswith(homes):
                wrong.append(f"{where(path)} imports {name}; it lives in {', '.join(homes)}")
    assert wrong == []


def test_the_wall_clock_is_looked_at_in_one_place() -> None:
    clocks = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today", "datetime.today"}
    assert [
        f"{where(path)}:{node.lineno}"
        for path in MODULES
        if path.name != "clock.py"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in clocks
    ] == []


def test_nothing_reads_the_environment_at_import() -> None:
    assert [
        f"{where(path)}:{node.lineno}"
        for path in MODULES
        if path.name != "ring.py"  # the one module whose import depends on it
        for node in _module_level(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    ] == []


def _module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Everything that runs when a module is imported: not the bodies of functions."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def test_a_folder_says_what_happens_there() -> None:
    folders = sorted({path.parent for path in MODULES})
    assert [where(path) for path in folders if not ast.get_docstring(tree_of(path / "__init__.py"))] == []


def test_no_module_imports_itself_in_a_circle() -> None:
    """What is imported when a module loads; what a function imports when it runs may not come round either."""
    graph = {name_of(path): {name for name in imports(path) if name.startswith("xwheel.")} for path in MODULES}
    graph = {
        name: {found for item in used for found in [_module(item, graph)] if found} for name, used in graph.items()
    }
    done: set[str] = set()
    for start in graph:
        _walk(start, graph, [], done)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _module(name: str, graph: dict[str, set[str]]) -> str | None:
    """Return the module that a dotted name is, or is in; None for a folder's face, which only hands names on."""
    found = name if name in graph else name.rpartition(".")[0]
    return found if found in graph and not (PACKAGE.parent / found.replace(".", "/")).is_dir() else None


def _walk(name: str, graph: dict[str, set[str]], way: list[str], done: set[str]) -> None:
    assert name not in way, " -> ".join([*way[way.index(name) :], name])
    if name in done:
        return
    for used in sorted(graph[name]):
        _walk(used, graph, [*way, name], done)
    done.add(name)


def test_each_class_has_a_name_of_its_own() -> None:
    found = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_a_run_can_be_followed_through_the_scheduler() -> None:
    """An editor that meets ``Any`` or a callable of any arguments does not know what comes next."""
    assert [
        f"{where(path)}:{node.lineno}"
        for path in MODULES
        if room_of(path) == "scheduler"
        for node in ast.walk(tree_of(path))
        if _says_anything(node)
    ] == []


def _says_anything(node: ast.AST) -> TypeGuard[ast.expr]:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Callable":
        return "..." in ast.unparse(node.slice)
    return isinstance(node, ast.Name) and node.id == "Any"


def test_forbidden_calls_are_nowhere() -> None:
    """Rules R11 and R12: nothing that turns data into code."""
    for path in MODULES:
        for name in imports(path):
            assert name.split(".")[0] not in {"pickle", "marshal", "shelve", "dill"}, path
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, f"{path}:{node.lineno}"


PLUGINS = ROOT / "plugins"
PLUGIN_FILES = sorted(PLUGINS.glob("*/*/*.py"))
# these go with one version of xwheel alone: the tools start nodes and read their tables, as does what pages are told of
# changes; alarms and logs have rows next to those of runs, reports count these; commands and files are checked
# as the API checks jobs
OF_ONE_VERSION = {
    "accounts",
    "alarms",
    "commands",
    "console",
    "devtools",
    "job_versions",
    "jobs_as_code",
    "openapi",
    "reports",
    "run_logs",
    "why",
    "xxl_calls",
}


def test_plugins_import_only_public_parts_of_the_core() -> None:
    public = {"xwheel", "xwheel.cron", "xwheel.executor", "xwheel.plugin"}
    wrong = []
    for path in PLUGIN_FILES:
        if path.relative_to(PLUGINS).parts[0] in OF_ONE_VERSION:
            continue
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found = {node.module for node in tree if isinstance(node, ast.ImportFrom) and node.module}
        bad = {name for name in found if name.split(".")[0] == "xwheel"} - public
        if path.parent.name != "tests":
            bad |= {name for name in found if name.split(".")[0] == "xwheel_devtools"}
        wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in sorted(bad)]
    assert wrong == []


def test_the_core_imports_no_plugin() -> None:
    packages = {path.name for path in PLUGINS.glob("*/xwheel_*")}
    assert {"xwheel_alarms", "xwheel_devtools", "xwheel_jobs_as_code", "xwheel_run_logs"} <= packages
    assert [
        f"{where(path)} imports {name}" for path in MODULES for name in imports(path) if name.split(".")[0] in packages
    ] == []


def test_the_core_names_no_plugin() -> None:
    """Only the default of ``plugins.trusted`` does."""
    names = {f"xwheel-{path.name.replace('_', '-')}" for path in PLUGINS.glob("*/")}
    assert {"xwheel-router-extra", "xwheel-devtools"} <= names
    assert [
        f"{where(path)} names {name}"
        for path in MODULES
        if where(path) != "config/sections.py"
        for name in sorted(names)
        if name in path.read_text(encoding="utf-8")
    ] == []


@pytest.mark.processes
def test_the_sdk_loads_no_scheduler() -> None:
    code = (
        "import sys, xwheel.executor; "
        "bad = [m for m in sys.modules if m.split('.')[0] in ('sqlalchemy', 'alembic') "
        "or m.startswith(('xwheel.storage', 'xwheel.scheduler'))]; print(bad)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
