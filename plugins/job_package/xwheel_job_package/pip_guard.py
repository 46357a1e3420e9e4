"""pip in another Python, which fetches nothing that a package names by its address.

``python -I pip_guard.py ARGUMENTS`` runs the pip whose folder is in ``XWHEEL_PIP``. pip obeys ``Requires-Dist: name @
URL`` of any package whatever its options say, and has none against that; here such a requirement is refused where it
is read, also by the pip that pip starts for a build. If pip changes so that this cannot be done, nothing is installed.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute()
ROOT = "XWHEEL_PIP"


class PipFinder:
    """Finds pip in its folder, and nothing else there."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where pip is."""
        del path
        return PathFinder.find_spec(name, [os.environ[ROOT]], target) if name == "pip" else None


def guard() -> None:
    """Let pip refuse requirements that name an address.

    Raises:
        SystemExit: This pip cannot be guarded.
    """
    try:
        from pip._internal.utils import misc
        from pip._vendor.packaging import requirements
    except ImportError as error:
        raise SystemExit(f"this pip is not known to xwheel: {error}; set the option installer to uv") from None
    kind: Any = requirements.Requirement
    read = kind.__init__

    def checked(self: Any, text: str, *more: Any, **named: Any) -> None:
        read(self, text, *more, **named)
        if self.url is not None:
            raise requirements.InvalidRequirement(f"the requirement {self.name} names a place, which is never fetched")

    kind.__init__ = checked
    is_there = hasattr(misc, "get_runnable_pip")
    owner: Any = misc
    if not is_there:
        from pip._internal import build_env

        owner, is_there = build_env, hasattr(build_env, "get_runnable_pip")
    try:
        kind("a @ file:///a")
    except requirements.InvalidRequirement:
        pass
    else:
        is_there = False
    if not is_there:
        raise SystemExit("this pip cannot be kept from fetching by address; set the option installer to uv")
    owner.get_runnable_pip = lambda: str(HERE)


def main() -> None:
    """Run pip."""
    # a pip that pip starts has this folder first, whose files are no modules of pip's
    sys.path[:] = [item for item in sys.path if Path(item).absolute() != HERE.parent]
    sys.meta_path.insert(0, PipFinder)
    guard()
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
