"""The house's rules that a machine can check: who may import whom, and where each library lives."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "xwheel"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = {
    0: {
        "errors",
        "private_files",
        "model",
        "alarm_model",
        "clock",
        "cron",
        "calendars",
        "ring",
        "_ring",
        "_ring_py",
        "_cron",
    },
    1: {
        "wire",
        "config",
        "config_sections",
        "service",
        "listener",
        "egress",
        "signals",
        "memory",
        "node_locks",
        "plugin_threads",
    },
    2: {"plugin"},
    3: {"storage", "builtin"},
    4: {"scheduler", "executor"},
    5: {"api", "console", "manifest", "scaffold"},
    6: {
        "__init__",
        "pipeline",
        "server",
        "node",
        "cli",
        "cli_cron",
        "cli_token",
        "cli_secret",
        "testing",
        "quickstart",
        "__main__",
    }
    | {
        "cli_group",
        "cli_job",
        "cli_rule",
        "cli_run",
        "cli_alarm",
        "cli_plugins",
        "cli_apply",
        "cli_remote",
        "cli_connection",
        "cli_fields",
        "cli_output",
    },
}
LAYER_OF = {room: layer for layer, rooms in LAYERS.items() for room in rooms}

# library to the places that may import it
HOMES = {
    "sqlalchemy": ("storage/",),
    "alembic": ("storage/",),
    "falcon": ("api/", "console/", "executor/server.py"),
    "cryptography": ("storage/sealing.py",),
    "pluggy": ("plugin/",),
    "packaging": ("plugin/",),
    "requests": ("wire/curl.py", "wire/rest.py"),
    "pycurl": ("wire/http.py", "wire/curl.py", "wire/multi_client.py", "egress/"),
    "certifi": ("egress/",),
    "holidays": ("calendars.py",),
    "croniter": ("cron.py", "_cron_"),
    "waitress": ("listener/",),
    "typer": ("cli.py", "cli_"),
    "rich": ("cli_output.py", "quickstart/"),
    "yaml": ("manifest/",),
}
MAX_LINES = 600


def room_of(path: Path) -> str:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "_cron" if name.startswith("_cron_") else name


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


def own_rooms(path: Path) -> set[str]:
    rooms = {name.split(".")[1] for name in imports(path) if name.startswith("xwheel.")}
    rooms = {"_cron" if room.startswith("_cron_") else room for room in rooms}
    return {room for room in rooms if room in LAYER_OF}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    mine = room_of(path)
    assert mine in LAYER_OF, f"{mine} has no layer: the design must say where it belongs"
    for room in own_rooms(path) - {mine}:
        assert LAYER_OF[room] < LAYER_OF[mine] or LAYER_OF[mine] == LAYER_OF[room] != 4, (
            f"{path}: {mine} imports {room}"
        )
        assert room != "builtin", f"{path}: builtin plugins are discovered, never imported"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_libraries_stay_at_home(path: Path) -> None:
    where = str(path.relative_to(PACKAGE))
    for name in imports(path):
        homes = HOMES.get(name.split(".")[0])
        assert homes is None or where.startswith(homes), (
            f"{where} imports {name}; it lives in {', '.join(homes)}"
        )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_wall_clock_is_looked_at_in_one_place(path: Path) -> None:
    if path.name == "clock.py":
        return
    found = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    assert not found & {
        "time.time",
        "time.time_ns",
        "datetime.now",
        "datetime.utcnow",
        "date.today",
        "datetime.today",
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_reads_the_environment_at_import(path: Path) -> None:
    if path.name == "ring.py":
        return  # the one module whose import depends on it
    for node in _module_level(tree_of(path)):
        assert not (isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}), (
            f"{path}:{node.lineno}"
        )


def _module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Everything that runs when a module is imported: not the bodies of functions."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("scheduler/*.py")), ids=lambda path: path.name)
def test_no_stage_imports_another(path: Path) -> None:
    stages = {item.stem for item in PACKAGE.glob("scheduler/*.py")} - {"handover", "ports", "__init__"}
    used = {name.split(".")[2] for name in imports(path) if name.startswith("xwheel.scheduler.")}
    assert not used & stages, f"{path.name}: the composition root wires stages"


def test_modules_stay_readable() -> None:
    files = [
        *MODULES,
        *PACKAGE.rglob("*.pyx"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
    ]
    long = {
        str(path.relative_to(ROOT)): n
        for path in files
        if (n := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert not long


def test_forbidden_calls_are_nowhere() -> None:
    """Rules R11 and R12: nothing that turns data into code."""
    for path in MODULES:
        for name in imports(path):
            assert name.split(".")[0] not in {"pickle", "marshal", "shelve", "dill"}, path
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, f"{path}:{node.lineno}"


def test_the_sdk_loads_no_scheduler() -> None:
    code = (
        "import sys, xwheel.executor; "
        "bad = [m for m in sys.modules if m.split('.')[0] in ('sqlalchemy', 'alembic') "
        "or m.startswith(('xwheel.storage', 'xwheel.scheduler'))]; print(bad)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
