"""A node, executors, plugins and the alarms that were sent, in the test's own process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Self

from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.plugin import hookimpl
from xwheel_alarms import Alarm, AlarmKind

from xwheel_devtools.testing.processes import NodeCalls, wait_until
from xwheel_devtools.testing.samples import strangers

APP_NAME: Final = "demo"
CAPTURE: Final = "captured"
NOT_CAPTURED: Final = {AlarmKind.RECOVERED, AlarmKind.TEST, AlarmKind.NOT_RUN, AlarmKind.STILL_RUNNING}
"""What no rule asks for, and what a rule asks for with a time."""

TOKEN_WORDS: Final = "management token (shown once): "  # noqa: S105 -- what stands before one


@job("hello")
def hello(context: JobContext) -> str:
    """Say hello to the run's parameter."""
    return f"hello {context.param}".rstrip()


@job("fail")
def fail(context: JobContext) -> str:
    """Fail, and say the run's parameter."""
    raise RuntimeError(context.param or "this handler always fails")


class NodeSite(NodeCalls):
    """A scheduler node with an SQLite database, and executors with handlers; its ``with`` block stops them.

    Of the plugins that are installed here, those that come with xwheel are loaded, and those that are named. All alarms
    that a rule would send go to the list ``alarms``, without grouping.

    Args:
        folder: Where database and data directories are made.
        plugins: Files of plugins, modules, other objects with hooks, or names of installed plugins.
        options: Tables of options by plugin.
        executors: How many there are.
        handlers: Functions with ``@job``; ``hello`` and ``fail`` are there besides.
        settings: Further settings by section; an executor here leaves at once, for which ``executor.leave_s`` is 0.

    Attributes:
        url: Where the management API listens.
        token: A management token.
        executor_url: Where executors register.
        alarms: What was captured, in the order in which it was sent.
        addresses: Where the executors listen, sorted as routers get them.
    """

    def __init__(
        self,
        folder: Path,
        *plugins: object,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        executors: int = 1,
        handlers: Sequence[Callable[..., object]] = (),
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        from xwheel.node.node import Node  # not for those who only have the executor
        from xwheel.wire.http.rest import RestClient

        folder.mkdir(parents=True, exist_ok=True)
        capture = _Capture()
        self.alarms: list[Alarm] = capture.alarms
        installed = {item for item in plugins if isinstance(item, str) and not item.endswith(".py")}
        given = dict(_named(item) for item in plugins if item not in installed)
        token = secrets.token_urlsafe(32)
        sections: dict[str, dict[str, Any]] = {
            "api": {"port": 0, "executor_port": 0, "executor_token": token},
            "database": {"url": f"sqlite:///{folder / 'node.db'}"},
            # what plugins keep there, too, and not where the tests were started
            "executor": {"leave_s": 0, "data_dir": str(folder / "executor")},
            "plugins": {"disabled": sorted(strangers() - installed), "options": dict(options or {})},
        }
        for section, values in (settings or {}).items():
            sections[section] = {**sections.get(section, {}), **values}
        config = build_config(sections)
        said: list[str] = []
        with ExitStack() as stack:
            self._node = Node(config, said.append, given={**given, CAPTURE: capture})
            self._node.start()
            stack.callback(self._node.stop)
            self.url = f"http://127.0.0.1:{self._node.management.port}"
            self.executor_url = f"http://127.0.0.1:{self._node.executors.port}"
            self.token = next(words for words in said if TOKEN_WORDS in words).removeprefix(TOKEN_WORDS)
            self._client = RestClient(self.url, self.token, timeout_s=60)
            self._group = self.call("POST", "groups", {"app_name": APP_NAME, "title": "Demo"})["id"]
            self.send_alarms_to(CAPTURE)
            # as they are, since what was given is no installed plugin
            types = self._node.scheduler.core.plugins.glue_types
            self._executors = [
                stack.enter_context(
                    Executor(
                        config,
                        handlers=[hello, fail, *handlers],
                        glue_types=types,
                        allowed_glue_types=sorted(types),
                        app_name=APP_NAME,
                        admin_addresses=[self.executor_url],
                        access_token=token,
                        host="127.0.0.1",
                        port=0,
                        data_dir=folder / f"executor-{number}",
                        stop_timeout_s=5,
                    )
                )
                for number in range(executors)
            ]
            self.addresses = sorted(item.address.rstrip("/") for item in self._executors)
            wait_until(lambda: all(item.is_registered for item in self._executors))
            self._stack = stack.pop_all()

    def run(self, handler: str = "hello", param: str = "", **fields: Any) -> dict[str, Any]:
        """Make a job, run it once, wait for its end, and return the run as the management API shows it.

        Args:
            handler: The handler that it names.
            param: The run's parameter.
            fields: Fields of the job, such as ``route_strategy``.
        """
        number = len(self.call("GET", "jobs?limit=1000")["items"])
        known = {"group_id": self._group, "name": f"{handler} {number}", "handler": handler}
        made = self.call("POST", "jobs", {**known, **fields})
        return self.wait_for_run(self.start_run(made["id"], param=param))

    def log(self, run_id: int) -> str:
        """Return a run's log."""
        return str(self.call("GET", f"runs/{run_id}/log")["content"])

    def send_alarms_to(self, channel: str, *receivers: str) -> None:
        """Let a channel send all alarms at once, each by itself."""
        target = {"channel": channel, "receivers": list(receivers)}
        self.call(
            "POST", "alarms/rules", {"kinds": sorted(set(AlarmKind) - NOT_CAPTURED), "targets": [target], "window_s": 0}
        )

    def wait_for_alarms(self, count: int = 1) -> list[Alarm]:
        """Wait until this many alarms were captured, and return all."""
        wait_until(lambda: len(self.alarms) >= count)
        return list(self.alarms)

    def wait_for_attempt(self, channel: str) -> dict[str, Any]:
        """Wait until a channel has tried to send an alarm, and return the newest attempt, with what it answered."""

        def found() -> Any:
            items = self.call("GET", "alarms/attempts?limit=1000")["items"]
            return next((item for item in items if item["channel"] == channel and item["state"] != "waiting"), None)

        attempt: dict[str, Any] = wait_until(found)
        return attempt

    def close(self) -> None:
        """Stop the executors, and the node after them."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Capture:
    """A plugin whose alarm channel keeps what it is to send."""

    name = CAPTURE

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []

    def send(self, alarm: Alarm) -> str:
        self.alarms.append(alarm)
        return "captured"

    @hookimpl
    def xwheel_register_alarms(self) -> list[_Capture]:
        return [self]


def _named(plugin: object) -> tuple[str, object]:
    """Return a plugin with its name: its file's, its module's or its class's."""
    if isinstance(plugin, str | Path):
        return Path(plugin).stem, Path(plugin)
    if isinstance(plugin, ModuleType):
        return plugin.__name__.rpartition(".")[2], plugin
    return type(plugin).__name__.lower(), plugin
