"""What must stand nowhere in the code, found in its syntax tree.

Not a proof, since Python can hide anything: it keeps the honest from slipping.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

IMPORTS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "jinja2", "mako"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
SHELLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "pty.spawn",
    "commands.getoutput",
}
YAML = {"load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all"}
UNSAFE_TLS = {"ssl._create_unverified_context", "ssl.CERT_NONE"}
SECRET = re.compile(r"token|secret|passw|digest|signature|api_?key|hmac", re.IGNORECASE)
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")


def findings(source: str) -> Iterator[str]:
    """Yield ``line: what`` for everything in a module that is forbidden."""
    for node in ast.walk(ast.parse(source)):
        for what in _of(node):
            yield f"{getattr(node, 'lineno', 0)}: {what}"


def _of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (f"import {item.name}" for item in names if item.name.split(".")[0] in IMPORTS)
        case ast.ImportFrom(module=str(module), names=names):
            if module.split(".")[0] in IMPORTS:
                yield f"import {module}"
            whole = {f"{module}.{item.name}" for item in names}
            yield from sorted(whole & (SHELLS | UNSAFE_TLS | {f"yaml.{name}" for name in YAML}))
        case ast.Call():
            yield from _of_call(node)
        case ast.Attribute() if ast.unparse(node) in UNSAFE_TLS:
            yield ast.unparse(node)
        case ast.BinOp(left=left, op=ast.Mod()) if isinstance(left, ast.JoinedStr):
            yield f"a text made at run time is formatted: {ast.unparse(node)[:60]}"
        case ast.Compare():
            yield from _of_comparison(node)


def _of_call(node: ast.Call) -> Iterator[str]:
    name = ast.unparse(node.func)
    if name in BUILTINS or name in SHELLS or name in {f"builtins.{item}" for item in BUILTINS}:
        yield name
    if name.startswith(("os.spawn", "os.posix_spawn")):
        yield name
    if name.startswith("yaml.") and name.removeprefix("yaml.") in YAML:
        yield name
    for keyword in node.keywords:
        value = keyword.value
        is_false = isinstance(value, ast.Constant) and value.value is False
        if keyword.arg == "shell" and not is_false:
            yield "shell="
        if keyword.arg in {"verify", "check_hostname"} and is_false:
            yield f"{keyword.arg}=False"
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"format", "format_map"}:
        yield from _of_format(node.func)


def _of_format(function: ast.Attribute) -> Iterator[str]:
    """A text may format what it is given; a foreign text reaches into the objects that it is given."""
    owner = function.value
    is_ours = isinstance(owner, ast.Constant) and isinstance(owner.value, str)
    is_constant = isinstance(owner, ast.Name | ast.Attribute) and CONSTANT.fullmatch(
        owner.id if isinstance(owner, ast.Name) else owner.attr
    )
    is_log_formatter = isinstance(owner, ast.Name) and owner.id == "self"  # logging.Handler.format
    if not (is_ours or is_constant or is_log_formatter):
        yield f"foreign template: {ast.unparse(function)[:60]}"


def _of_comparison(node: ast.Compare) -> Iterator[str]:
    """Secrets are compared by ``hmac.compare_digest``, which takes the same time wherever they differ."""
    sides = [node.left, *node.comparators]
    plain = not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
    if plain and not any(isinstance(side, ast.Constant) for side in sides):
        for side in sides:
            name = side.id if isinstance(side, ast.Name) else side.attr if isinstance(side, ast.Attribute) else ""
            # constants, types and the ids of secrets are no secrets
            if SECRET.search(name) and not name[:1].isupper() and not name.endswith("_id"):
                yield f"secret compared: {ast.unparse(node)[:60]}"
