"""Load settings as a start does, in a process with plugins: ``python -m tests.support.settings_child FILE...``.

Prints what each file says wrongly, as one JSON object with the files' names as keys.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from xwheel.config import load_config
from xwheel.errors import XwheelError
from xwheel.plugin.discovery import survey_plugins


def errors_of(path: Path) -> Iterator[str]:
    """Yield what is wrong with a file of settings, and options that no plugin reads."""
    try:
        config = load_config(path)
    except XwheelError as error:
        yield str(error)
        return
    survey = survey_plugins(config)
    yield from map(str, survey.errors)
    yield from survey.warnings


if __name__ == "__main__":
    print(json.dumps({word: list(errors_of(Path(word))) for word in sys.argv[1:]}))
