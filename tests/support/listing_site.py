"""Somebody who types the commands of a page: a node, an executor and a folder for their files."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self
from unittest import mock

from xwheel_devtools.testing.processes import NodeProcess, XwheelProcess, wait_until

from tests.support.plugin_homes import lay_plugin, plugin_home
from xwheel.cli import main
from xwheel.embedded import EmbeddedScheduler

PLUGINS: Final = ("egress", "glue_http", "glue_script", "router_extra")
COMMAND_S: Final = 60
UP: Final = {"xwheel server": "(executor API on)", "xwheel executor": "(is registered)"}
"""Commands that go on, and what they say when they are ready."""

CHANNELS: Final = """
from xwheel import hookimpl


class Taken:
    def __init__(self, name):
        self.name = name

    def send(self, alarm):
        return "taken"


@hookimpl
def xwheel_register_alarms():
    return [Taken("email"), Taken("dingtalk")]
"""
HANDLERS: Final = '''
from xwheel.executor import JobContext, job


@job("greet")
def greet(ctx: JobContext) -> str:
    return f"hello {ctx.param}"


@job("settle")
def settle() -> None:
    """Settle all accounts."""


@job("mail")
def mail() -> None:
    """Mail a report."""
'''


def run_shell(command: str, folder: Path, variables: Mapping[str, str]) -> str:
    """Type a command, which must end well, and return what it prints."""
    done = subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class ListingSite:
    """A node with all our plugins and an executor of the group ``orders``; its ``with`` block stops them.

    Attributes:
        node: The node.
        embedded: The folder of an embedded scheduler.
        variables: The environment in which commands are typed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "node").mkdir(mode=0o700)
        lay_plugin(folder / "channels", "listed_channels", CHANNELS)
        path = ":".join(map(str, [*(plugin_home(name) for name in PLUGINS), folder / "channels"]))
        with ExitStack() as stack:
            self.node = stack.enter_context(NodeProcess(folder / "node", PYTHONPATH=path))
            for app_name in ("orders", "shop"):
                self.node.call("POST", "groups", {"app_name": app_name})
            for number, name in enumerate(("nightly", "nightly report"), start=1):
                self.node.call("POST", "jobs", {"group_id": number, "name": name, "handler": "greet"})
            (folder / "executor").mkdir()
            (folder / "executor" / "our_jobs.py").write_text(HANDLERS)
            stack.enter_context(
                XwheelProcess(
                    folder / "executor",
                    "executor",
                    "our_jobs",
                    PYTHONPATH=path,
                    XWHEEL_EXECUTOR__APP_NAME="orders",
                    XWHEEL_EXECUTOR__ADMIN_ADDRESSES=f'["{self.node.executor_url}"]',
                    XWHEEL_EXECUTOR__ACCESS_TOKEN=self.node.executor_token,
                    XWHEEL_EXECUTOR__PORT="0",
                    XWHEEL_EXECUTOR__LEAVE_S="0",
                    XWHEEL_EXECUTOR__ALLOWED_GLUE_TYPES='["GLUE_SHELL", "GLUE_PYTHON", "GLUE_HTTP"]',
                )
            )
            wait_until(lambda: self.node.call("GET", "executors")["items"])
            self.embedded = folder / "embedded"
            stack.enter_context(EmbeddedScheduler(self.embedded, announce=None))
            self._stack = stack.pop_all()
        self.variables = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": path,
            "XWHEEL_URL": self.node.url,
            "XWHEEL_TOKEN": self.node.token,
        }

    def facts(self) -> dict[str, str]:
        """Return where everything is."""
        return {
            "url": self.node.url,
            "port": self.node.url.rpartition(":")[2],
            "folder": str(self.folder / "node"),
            "database": f"sqlite:///{self.folder / 'node' / 'xwheel.db'}",
            "executor_api": self.node.executor_url,
            "executor": self.node.call("GET", "executors")["items"][0]["address"],
            "embedded": str(self.embedded),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class Reader:
    """One who follows a page in a folder of its own; the end of the ``with`` block ends what was left running.

    Args:
        site: What there is before.
        folder: An empty folder.
        words: What to write in place of words of the page. Names of the site's facts in braces, and ``{here}`` for
            the folder, may stand in it.
        variables: Environment besides the site's, in the same way.
    """

    def __init__(self, site: ListingSite, folder: Path, words: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self.folder = folder
        facts = {**site.facts(), "here": str(folder)}
        given = {"http://127.0.0.1:8080": "{url}", "/etc/xwheel": "{here}", **words}
        self.words = {word: ours.format(**facts) for word, ours in given.items()}
        ours = {name: value.format(**facts) for name, value in variables.items()}
        self.variables = {**site.variables, "XDG_CONFIG_HOME": str(folder / "config"), **ours}
        self._running = ExitStack()
        folder.mkdir(mode=0o700)

    def adapt(self, text: str) -> str:
        """Return a text of the page with the words of this test."""
        pattern = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in self.words)
        return re.sub(pattern, lambda found: self.words[found[0]], text)

    def save(self, name: str, text: str) -> None:
        """Save a file of the page."""
        path = self.folder / name
        path.write_text(self.adapt(text), "utf-8")
        path.chmod(0o700 if text.startswith("#!") else 0o600)

    def type(self, text: str) -> str:
        """Type commands of the page, which must end well, and return what they print.

        What would go on is started; a node is stopped again, since there is one already. Other commands of xwheel run
        in this process: the pages have dozens, and each would take half a second to start.
        """
        printed = []
        for line in self.adapt(text).replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if going_on := UP.get(" ".join(words[:2])):
                self._start(words[1:], going_on)
            elif words[:2] == ["pip", "install"]:
                continue
            elif words[:1] == ["xwheel"]:
                # who logs in elsewhere is asked for a token
                entered = self.variables["XWHEEL_TOKEN"] + "\n" if words[1:3] == ["login", "--url"] else ""
                printed.append(self._call(words[1:], entered))
            elif words[:1] == ["echo"] and words[2:4] == ["|", "xwheel"]:
                printed.append(self._call(words[4:], words[1] + "\n"))
            else:
                printed.append(run_shell(line, self.folder, self.variables))
        return "".join(printed)

    def _call(self, words: list[str], entered: str = "") -> str:
        out, err = io.StringIO(), io.StringIO()
        status: object = None
        with (
            mock.patch.dict(os.environ, self.variables),
            mock.patch.object(sys, "argv", ["xwheel", *words]),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(entered.encode()))),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main.main()
            except SystemExit as ended:
                status = ended.code
        assert not status, f"{shlex.join(words)}\n{out.getvalue()}{err.getvalue()}"
        return out.getvalue()

    def _start(self, words: list[str], ready: str) -> None:
        settings = {name: value for name, value in self.variables.items() if name.startswith("PYTHON")}
        ports = {f"XWHEEL_{name}": "0" for name in ("API__PORT", "API__EXECUTOR_PORT", "EXECUTOR__PORT")}
        process = XwheelProcess(self.folder, *words, **settings, **ports, XWHEEL_EXECUTOR__LEAVE_S="0")
        self._running.enter_context(process)
        process.find(ready)
        if words[0] == "server":
            self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
