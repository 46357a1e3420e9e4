"""``@job``, the registry, contexts and addresses."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import executor_app
from xwheel.errors import ConfigError, ExecutorError, HandlerNotFoundError, JobKilledError, JobTimeoutError
from xwheel.executor import JobContext, current_job, job, load_handlers, load_targets
from xwheel.executor.handlers import MARK, HandlerKind, HandlerRegistry
from xwheel.executor.parts import advertised_address
from xwheel.executor.running.process import _environment
from xwheel.wire.messages import TriggerRequest


@job("plain")
def plain() -> None: ...


@job("with-context")
def with_context(ctx: JobContext) -> None: ...


@job("async")
async def coroutine(ctx: JobContext | None = None) -> None: ...


def test_handlers_know_what_they_are() -> None:
    facts = [(getattr(f, MARK).kind, getattr(f, MARK).takes_context) for f in (plain, with_context, coroutine)]
    assert facts == [(HandlerKind.THREAD, False), (HandlerKind.THREAD, True), (HandlerKind.ASYNC, True)]


@pytest.mark.parametrize(
    ("name", "function", "options"),
    [
        ("", plain, {}),
        (" x", plain, {}),
        ("x" * 256, plain, {}),
        ("x", plain, {"parallel": 0}),
        ("x", lambda a, b: None, {}),
        ("x", lambda *, key: None, {}),
        ("x", lambda: None, {"process": True}),
        ("x", coroutine, {"process": True}),
    ],
)
def test_handlers_that_cannot_work_are_refused(name: str, function: Any, options: dict[str, Any]) -> None:
    before = getattr(function, MARK, None)
    with pytest.raises(ConfigError, match=r"^@job\("):
        job(name, **options)(function)
    assert getattr(function, MARK, None) is before


def test_the_registry_takes_functions_modules_and_lists() -> None:
    module = types.ModuleType("somewhere")
    module.__dict__.update(plain=plain, other=3, same=plain)
    for source in (plain, module, [plain, 3], {"a": plain}):
        registry = HandlerRegistry([source])
        assert list(registry._handlers) == ["plain"]
        assert registry.get("plain") is plain


def test_the_registry_refuses_doubles_and_nothing() -> None:
    @job("plain")
    def another() -> None: ...

    with pytest.raises(ConfigError, match="handler 'plain' is both"):
        HandlerRegistry([plain, another])
    for nothing in (types.ModuleType("empty"), 3, "text", []):
        with pytest.raises(ConfigError, match="holds no @job handler"):
            HandlerRegistry([nothing])
    with pytest.raises(HandlerNotFoundError, match=r"job handler \[x\] not found\."):
        HandlerRegistry([plain]).get("x")


def test_handlers_are_loaded_by_name() -> None:
    assert load_handlers("tests.support.executor_app") is executor_app
    assert load_handlers("tests.support.executor_app:HANDLERS") is executor_app.HANDLERS
    assert load_handlers("tests.support.executor_app:quick") is executor_app.quick
    for target in ("no_such_module", "tests.support.executor_app:nothing", "", "tests.support:"):
        if target == "tests.support:":
            continue
        with pytest.raises(ConfigError):
            load_handlers(target)


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def raw(self, text: str) -> None:
        self.lines.append(text)


def test_a_context_tells_and_waits() -> None:
    sink = Lines()
    context = JobContext(TriggerRequest(job_id=1, run_id=2, created_ms=3, param="p", attempt=4), sink)
    assert (context.param, context.attempt, context.shard_index, context.shard_total) == ("p", 4, 0, 1)
    context.log("x")
    assert sink.lines == ["x"]
    context.wait(0)
    assert not context.cancelled
    context.cancel(JobTimeoutError)
    assert context.cancelled
    with pytest.raises(JobTimeoutError):
        context.wait(60)
    context.cancel(JobKilledError)
    with pytest.raises(JobKilledError):
        context.wait(60)


def test_outside_a_handler_there_is_no_current_job() -> None:
    with pytest.raises(ExecutorError, match="no current job"):
        current_job()


@pytest.mark.parametrize(
    ("configured", "host", "address"),
    [
        ("", "10.1.2.3", "http://10.1.2.3:9999/"),
        ("", "::1", "http://[::1]:9999/"),
        ("http://Outside:80", "10.1.2.3", "http://outside:80/"),
        ("https://outside/base/", "10.1.2.3", "https://outside:443/base/"),
        ("", "0.0.0.0", "http://127.0.0.1:9999/"),
    ],
)
def test_addresses(configured: str, host: str, address: str) -> None:
    assert advertised_address(configured, host, 9999, ["not a url", "http://127.0.0.1:1"]) == address


def test_an_address_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"executor\.address"):
        advertised_address("outside:9999", "127.0.0.1", 9999, [])


def test_children_do_not_inherit_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XWHEEL_EXECUTOR__ACCESS_TOKEN", "canary")
    monkeypatch.setenv("OTHER", "kept")
    found = _environment("00-1-2-3", None)
    assert "canary" not in found.values()
    assert (found["OTHER"], found["TRACEPARENT"]) == ("kept", "00-1-2-3")


@pytest.mark.processes
def test_importing_the_sdk_is_light() -> None:
    code = (
        "import sys; from xwheel.executor import job, JobContext; "
        "print([m for m in ('sqlalchemy', 'falcon', 'waitress', 'requests', 'pycurl', 'pydantic', 'pluggy',"
        " 'xwheel.scheduler', 'xwheel.storage', 'xwheel.config') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.processes
def test_a_running_executor_loads_no_scheduler() -> None:
    code = (
        "import sys; from xwheel.executor import Executor; "
        "print([m for m in sys.modules if m.split('.')[0] in ('sqlalchemy', 'alembic')"
        " or m.startswith(('xwheel.storage', 'xwheel.scheduler', 'xwheel.api'))])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_p8_a_scheduler_that_names_no_planned_time_leaves_that_of_its_trigger() -> None:
    sink = Lines()
    foreign = JobContext(TriggerRequest(job_id=1, run_id=2, created_ms=3), sink)
    own = JobContext(TriggerRequest(job_id=1, run_id=2, created_ms=3, planned_ms=1), sink)
    assert (foreign.planned_ms, foreign.knows_planned) == (3, False)
    assert (own.planned_ms, own.knows_planned) == (1, True)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small application: its module ``u1_app`` imports those with the handlers."""
    head = "from xwheel.executor import job\n\n\n"
    (tmp_path / "u1_app.py").write_text("import u1_tasks\nfrom u1_deep import mail\n")
    (tmp_path / "u1_tasks.py").write_text(head + "@job('greet')\ndef greet(): ...\n")
    (tmp_path / "u1_deep").mkdir()
    (tmp_path / "u1_deep" / "__init__.py").write_text("")
    (tmp_path / "u1_deep" / "mail.py").write_text(
        head + "for name in ('mail', 'post'):\n    @job(name)\n    def send(): ...\n"
    )
    (tmp_path / "u1_other.py").write_text(head + "@job('other')\ndef other(): ...\n")
    (tmp_path / "u1_twin.py").write_text("import u1_tasks\n" + head + "@job('greet')\ndef greet(): ...\n")
    (tmp_path / "u1_empty.py").write_text("import json\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("u1_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (["u1_app"], ["greet", "mail", "post"]),
        (["u1_app", "u1_other"], ["greet", "mail", "other", "post"]),
        (["u1_other", "u1_tasks"], ["greet", "other"]),
        (["u1_app:u1_tasks", "u1_other:other"], ["greet", "other"]),
        (["u1_other", "u1_empty"], ["other"]),
    ],
)
def test_u1_what_a_named_module_imports_is_registered(shop: Path, targets: list[str], names: list[str]) -> None:
    assert HandlerRegistry(load_targets(targets)).names == names


def test_u1_handlers_of_one_name_are_both_named(shop: Path) -> None:
    with pytest.raises(ConfigError, match="handler 'greet' is both u1_t.*greet and u1_t.*greet"):
        HandlerRegistry(load_targets(["u1_twin"]))


def test_u1_modules_without_handlers_are_refused(shop: Path) -> None:
    with pytest.raises(ConfigError, match="u1_empty: no @job handler is there, nor in what is imported there"):
        load_targets(["u1_empty"])
