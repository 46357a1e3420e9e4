"""Pages of the tutorial as programs: their files are saved, their commands run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.executors import ROOT, wait_until

STOP_S = 60
COMMAND_S = 240
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"[Ss]ave this as `([^`]+)`")


class Tutorial:
    """A page and somebody who follows it.

    Args:
        page: Its name below ``docs/``.
        folder: The empty folder that it asks for.
        variables: Environment of its commands; what the page exports is added.
        words: What to write in place of words of the page, such as its ports.
    """

    def __init__(self, page: str, folder: Path, variables: Mapping[str, str], words: Mapping[str, str]) -> None:
        self.folder = folder
        self.variables = dict(variables)
        self.words = dict(words)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.shells: list[str] = []
        """What is to be typed, block by block."""
        self.outputs: list[str] = []
        """What is to be seen, block by block."""
        text = (ROOT / "docs" / page).read_text("utf-8")
        self.files: dict[str, str] = {}
        before = 0
        for found in _BLOCK.finditer(text):
            language, content = found.groups()
            if language in {"sh", "text"}:
                (self.shells if language == "sh" else self.outputs).append(content)
            else:
                # the last paragraph before it says where it goes
                self.files[_FILE.findall(text[before : found.start()])[-1]] = content
            before = found.end()

    def adapt(self, text: str) -> str:
        """Return a text of the page with this test's own words."""
        pattern = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in self.words)
        return re.sub(pattern, lambda found: self.words[found[0]], text)

    def save_files(self) -> None:
        """Save what the page says to save."""
        for name, content in self.files.items():
            (self.folder / name).write_text(self.adapt(content), "utf-8")

    def type(self, commands: str) -> subprocess.CompletedProcess[str]:
        """Run commands of the page, stop at the first that fails."""
        return subprocess.run(
            ["/bin/sh", "-ec", self.adapt(commands)],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )

    def start(self, command: str, log: str) -> subprocess.Popen[bytes]:
        """Start what the page leaves running in a terminal."""
        with (self.folder / log).open("ab") as file:
            process = subprocess.Popen(
                ["/bin/sh", "-c", re.sub(r"^(\w+=\S+ )*", r"\g<0>exec ", self.adapt(command), count=1)],
                cwd=self.folder,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._processes.append(process)
        return process

    def said(self, log: str, pattern: str) -> str:
        """Wait until a process says something, and return the pattern's group."""

        def look() -> re.Match[str] | None:
            text = (self.folder / log).read_text("utf-8")
            assert all(process.poll() is None for process in self._processes), text
            return re.search(pattern, text)

        return str(wait_until(look, COMMAND_S)[1])

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Press Ctrl-C, which must end it well."""
        self._processes.remove(process)
        process.terminate()
        assert process.wait(STOP_S) == 0

    def close(self) -> None:
        """End what still runs."""
        for process in self._processes:
            process.kill()
            process.wait(STOP_S)
