"""Write a project to start from: jobs, settings, and a test on a running node."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from xwheel.errors import FieldError

PLACES: Final = {
    "README.md": "README.md.txt",
    "jobs.py": "jobs.py.txt",
    "settings.toml": "settings.toml.txt",
    "test_jobs.py": "test_jobs.py.txt",
    ".gitignore": "gitignore.txt",
}


def write_application(home: Path) -> list[Path]:
    """Write the project into a folder that is new or empty, and return its files.

    Raises:
        FieldError: There is something in the folder, or it cannot be made.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        if any(home.iterdir()):
            raise FieldError("PATH", f"{home} is not empty, and nothing is overwritten: name a new folder")
        templates = files("xwheel_devtools.scaffold") / "files" / "application"
        name = home.resolve().name or "jobs"
        for path, place in PLACES.items():
            text = Template((templates / place).read_text(encoding="utf-8")).substitute(name=name)
            (home / path).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise FieldError("PATH", f"{home} is a file: name a new folder") from None
    except OSError as error:
        raise FieldError("PATH", f"cannot write {home}: {error.strerror}") from error
    return [home / path for path in PLACES]


def next_steps(home: Path) -> list[str]:
    """Return the commands to go on with, for a shell in which ``xwheel`` was called."""
    found = shutil.which("python")
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    python = "python" if is_ours else shlex.quote(sys.executable)
    steps = [f"{python} jobs.py", f"{python} -m pytest"]
    return steps if home.resolve() == Path.cwd() else [f"cd {shlex.quote(str(home))}", *steps]
