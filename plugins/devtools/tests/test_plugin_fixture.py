"""U10: the fixture for authors of plugins, used as their tests use it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from xwheel import hookimpl
from xwheel.plugin import GlueRequest

from xwheel_devtools.testing import NodeSite

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["xwheel_devtools.testing.fixtures"]\n'
PLUGIN = """
from pathlib import Path

from xwheel import hookimpl


class LastOne:
    name = "LAST_ONE"

    def route(self, context):
        return context.addresses[-1:]


class FileAlarm:
    name = "file"

    def __init__(self, path):
        self.path = Path(path)

    def send(self, alarm):
        with self.path.open("a") as file:
            file.write(alarm.text)
        return "written"


@hookimpl
def xwheel_register_routers():
    return [LastOne()]


@hookimpl
def xwheel_register_alarms(config, options):
    return [FileAlarm(options["path"])]
"""
TEST = """
def test_router_and_alarm(xwheel_node, tmp_path):
    path = tmp_path / "alarms.txt"
    node = xwheel_node("mine.py", executors=2, options={"mine": {"path": str(path)}})
    node.send_alarms_to("file")
    run = node.run("hello", "Ada", route_strategy="LAST_ONE")
    assert (run["state"], run["message"], run["address"]) == ("succeeded", "hello Ada", node.addresses[-1])
    assert not node.alarms
    node.run("fail", "disk is full")
    (alarm,) = node.wait_for_alarms()
    assert "disk is full" in alarm.text
    assert alarm.text.splitlines()[0] == alarm.title
    assert node.wait_for_attempt("file")["answer"] == "written"
    assert "disk is full" in path.read_text()


def test_a_broken_router_fails_its_run_only(xwheel_node):
    class Broken:
        name = "BROKEN"
        def route(self, context):
            return ["http://10.9.9.9:1"]
    from xwheel import hookimpl
    class Plugin:
        @hookimpl
        def xwheel_register_routers(self):
            return [Broken()]
    node = xwheel_node(Plugin())
    run = node.run("hello", route_strategy="BROKEN")
    assert (run["state"], run["reason"]) == ("refused", "no_route")
    assert "which it was not given" in run["message"]
    assert node.run("hello")["state"] == "succeeded"
    assert [alarm.kind for alarm in node.wait_for_alarms()] == ["refused"]
"""


def test_u10_a_suite_of_a_plugins_author_uses_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.path.chmod(0o755)
    pytester.makeconftest(CONFTEST)
    for name, source in (("mine.py", PLUGIN), ("test_mine.py", TEST)):
        path = pytester.path / name
        path.write_text(textwrap.dedent(source))
        path.chmod(0o644)
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2)


def test_u10_the_site_logs_runs_and_takes_handlers(tmp_path: Path) -> None:
    from xwheel.executor import current_job, job

    @job("speak")
    def speak() -> str:
        current_job().log("a line of its log")
        return "spoken"

    class Shout:
        name = "SHOUT"

        def build(self, request: GlueRequest, handlers: object) -> Callable[[], str]:
            return request.source.upper

    class Plugin:
        @hookimpl
        def xwheel_register_glue_types(self) -> list[Shout]:
            return [Shout()]

    with NodeSite(tmp_path, Plugin(), handlers=[speak]) as site:
        run = site.run("speak")
        assert run["message"] == "spoken"
        assert "a line of its log" in site.log(run["id"])
        shouted = site.run("", glue_type="SHOUT", glue_source="hear", name="loud")
        assert (shouted["state"], shouted["message"]) == ("succeeded", "HEAR")


def test_u1_handlers_are_listed_and_an_unknown_one_is_a_line_in_both_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with NodeSite(tmp_path) as site:
        run = site.run("greet")
        assert (run["state"], run["reason"]) == ("refused", "executor_refused")
        by_executor = "refused, and 0 with it by now: no handler is called 'greet'; known: fail, hello"
        by_node = f"job {run['job_id']} greet 0: {site.addresses[0]} has no handler 'greet', so run {run['id']}"
        site.run("hello")
    lines = {record.name: record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert by_executor in lines["xwheel.executor.intake.endpoints"]
    assert by_node in lines["xwheel.scheduler.send.results"]
    assert "handlers: fail, hello" in caplog.text
