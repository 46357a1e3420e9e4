"""What the console's tests have, for pages of other plugins: a node, a browser, and an eye on both."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

NAME: Final = "console_site"
HOME: Final = Path(__file__).resolve().parents[2] / "plugins" / "console" / "tests" / "conftest.py"


def console_tests() -> ModuleType:
    """Load the console's ``conftest`` as ``console_site``: a plugin's own tests have a ``conftest`` themselves."""
    if NAME not in sys.modules:
        spec = spec_from_file_location(NAME, HOME)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[NAME] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[NAME])
    return sys.modules[NAME]
