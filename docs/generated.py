"""Pages that are made of the code each time the site is: the list of modules and the OpenAPI document.

``python docs/generated.py`` writes them without the site; they are kept nowhere.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).parent / "reference"


def modules_page() -> str:
    """Return the list of all modules as a page."""
    lines = [
        "# Modules",
        "",
        "Where to find what: each module of `xwheel`, the first line of its docstring, and the names others may use.",
        "`CONTRIBUTING.md` lists the folders as a fire passes through them.",
    ]
    for init in sorted((ROOT / "xwheel").rglob("__init__.py")):
        folder = init.parent
        lines += ["", f"## `{folder.relative_to(ROOT)}`", "", f"{_first_line(init)}", ""]
        modules = [path for path in sorted(folder.glob("*.py*")) if path != init and path.suffix in (".py", ".pyx")]
        lines += ["| module | what is there | names |", "|---|---|---|"] if modules else []
        lines += [f"| `{path.name}` | {_first_line(path)} | {_names(path)} |" for path in modules]
    return "\n".join(lines) + "\n"


def _first_line(path: Path) -> str:
    """Return the first sentence of a module's docstring, without the markup of Sphinx."""
    found = re.match(r'(?:#[^\n]*\n)*"""(.*?)(?:\n\n|""")', path.read_text(), re.DOTALL)
    if not found:
        raise ValueError(f"{path} has no docstring")
    text = " ".join(found[1].split())
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`").replace("|", "\\|")


def _names(path: Path) -> str:
    """Return the classes, functions and constants that a module has for others."""
    pattern = r"^(?:class|def|async def|cdef class|cpdef \w+) ([A-Za-z]\w*)|^([A-Z][A-Z0-9_]+)(?:: [^=\n]+)? = "
    found = re.findall(pattern, path.read_text(), re.MULTILINE)
    return ", ".join(dict.fromkeys(f"`{name or constant}`" for name, constant in found))


def openapi_document() -> str:
    """Return the OpenAPI document of a node without plugins, as it serves it."""
    from tests.support.bare_app import DOCUMENT

    return json.dumps(DOCUMENT, indent=1, ensure_ascii=False) + "\n"


def write_all() -> None:
    """Write the pages next to those that are written by hand."""
    sys.path.insert(0, str(ROOT))
    (REFERENCE / "modules.md").write_text(modules_page(), "utf-8")
    (REFERENCE / "openapi.json").write_text(openapi_document(), "utf-8")


if __name__ == "__main__":
    write_all()
