"""A copy of the checkout, in which one mistake at a time is made and the tests run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants import Mistake
from tests.mutants.catalogue import StaleError, changed

A_TEST_S: Final = 60
ALL_TESTS_S: Final = 300
NO_TESTS: Final = 5
"""pytest's exit status when it found none."""
_ENDED: Final = re.compile(r"^\d+ (?:passed|skipped|deselected)\b.* in [0-9.]+s", re.MULTILINE)
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)
# what git does not know and tests need
MADE: Final = ("xwheel/*.so", "plugins/console/vendor/node_modules", ".venv")
BROWSER: Final = "console"
"""The environment that has one; pages of other plugins are tried in it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run of tests."""

    failed: bool
    output: str

    @property
    def first(self) -> str:
        """The first test that failed, or how the output ends."""
        found = _FAILED.search(self.output)
        return found[1] if found else self.output.strip()[-200:].rpartition("\n")[2]


class Copy:
    """A copy of a checkout."""

    def __init__(self, root: Path, place: Path) -> None:
        """Copy what git knows, what it would take, and what was compiled.

        Args:
            root: The checkout.
            place: A folder that does not exist.
        """
        self._place = place
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():  # not one that was deleted since the commit
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, place / name)
        for made in (found for pattern in MADE for found in root.glob(pattern)):
            new = place / made.relative_to(root)
            new.parent.mkdir(parents=True, exist_ok=True)
            if made.is_dir():
                new.symlink_to(made)
            else:
                shutil.copy2(made, new)
        self._interpreters = root / ".venv"

    def run(self, tests: Sequence[str], *, stop: bool = True, keep_bytecode: bool = False) -> Ran:
        """Run tests, each with the interpreter of its place; a hang counts as a failure.

        Args:
            tests: Which, as paths in the checkout.
            stop: Whether the first failure ends the run.
            keep_bytecode: Whether later runs use what is compiled now: only while no mistake is made.

        Raises:
            StaleError: There are no such tests.
        """
        for home, mine in _by_home(tests).items():
            options = [*(["-x"] if stop else []), f"--timeout={A_TEST_S}"]
            ran = self._pytest(home, [*options, *mine], keep_bytecode)
            if ran.failed:
                return ran
        return Ran(failed=False, output="")

    @contextmanager
    def made(self, mistake: Mistake) -> Iterator[None]:
        """Make a mistake, until the end of the block.

        Raises:
            StaleError: It does not fit the code, or cannot be compiled.
        """
        file = self._place / mistake.file
        before, times = file.read_text(encoding="utf-8"), file.stat()
        compiled = {path: path.read_bytes() for path in self._place.glob("xwheel/*.so")}
        text = changed(before, mistake)
        try:
            file.write_text(text, encoding="utf-8")
            # not the second in which the copy was made: bytecode is told apart by time and size
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns - 3600 * 10**9))
            if file.suffix in {".pyx", ".pxd"}:
                self._compile(mistake)
            yield
        finally:
            file.write_text(before, encoding="utf-8")
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
            if file.suffix in {".pyx", ".pxd"}:
                for path, content in compiled.items():
                    path.write_bytes(content)

    def check_imports(self, tests: Sequence[str]) -> None:
        """Check that the tests would import the copy, not the checkout that an environment was installed from.

        Raises:
            StaleError: They would not.
        """
        for home in _by_home(tests):
            names = ["xwheel", *(path.name for path in self._place.glob("plugins/*/xwheel_*") if path.is_dir())]
            code = (
                "import importlib.util, sys; "
                "print(*(importlib.util.find_spec(name).origin for name in sys.argv[1:]), sep='\\n')"
            )
            shown = subprocess.run(
                [self._python(home), "-c", code, *[name for name in names if self._is_here(name)]],
                cwd=self._folder(home),
                env=self._environment(keep_bytecode=False),
                capture_output=True,
                text=True,
                check=True,
            )
            for origin in shown.stdout.splitlines():
                if not Path(origin).is_relative_to(self._place):
                    raise StaleError(f"tests of {home or 'the core'} import {origin}, not the copy")

    def _is_here(self, name: str) -> bool:
        return (self._place / name).is_dir() or any(self._place.glob(f"plugins/*/{name}"))

    def _folder(self, home: str) -> Path:
        return self._place / "plugins" / home.partition(":")[0] if home else self._place

    def _python(self, home: str) -> str:
        if not home:
            return sys.executable
        return str(self._interpreters / "plugins" / home.rpartition(":")[2] / "bin" / "python")

    def _environment(self, *, keep_bytecode: bool) -> dict[str, str]:
        # before the finders of editable installs, which know the checkout
        places = [self._place, *sorted(self._place.glob("plugins/*/"))]
        given = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)), "EXAMPLES": "mutants"}
        given.pop("PYTHONDONTWRITEBYTECODE", None)
        return given if keep_bytecode else {**given, "PYTHONDONTWRITEBYTECODE": "1"}

    def _pytest(self, home: str, arguments: Sequence[str], keep_bytecode: bool) -> Ran:
        command = [self._python(home), "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *arguments]
        with subprocess.Popen(
            command,
            cwd=self._folder(home),
            env=self._environment(keep_bytecode=keep_bytecode),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=ALL_TESTS_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return Ran(failed=True, output=f"no end after {ALL_TESTS_S} s")
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode == NO_TESTS:
            raise StaleError(f"no tests in {' '.join(arguments)}")
        # a process that ends in the middle of a test can have the status 0
        return Ran(failed=process.returncode != 0 or not _ENDED.search(output), output=output)

    def _compile(self, mistake: Mistake) -> None:
        for made in self._place.glob("xwheel/*.c*"):
            if made.suffix in {".c", ".cpp"}:
                made.unlink()  # of an earlier mistake, and newer than this one's file
        built = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"],
            cwd=self._place,
            env={**os.environ, "XWHEEL_REQUIRE_EXTENSIONS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise StaleError(f"{mistake.file} does not compile ({mistake.why}): {built.stderr[-500:]}")


def _by_home(tests: Sequence[str]) -> dict[str, list[str]]:
    """Group tests by where they run, the core first: '' for the core, ``NAME:ENVIRONMENT`` for a plugin."""
    found: dict[str, list[str]] = {}
    for test in sorted(tests, key=lambda test: test.startswith("plugins/")):
        first, *rest = test.split("/", maxsplit=2)
        if first != "plugins":
            found.setdefault("", []).append(test)
            continue
        name, inside = rest
        environment = BROWSER if inside.startswith("tests/pages") else name
        found.setdefault(f"{name}:{environment}", []).append(inside)
    return found
