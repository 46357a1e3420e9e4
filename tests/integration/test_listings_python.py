"""The listings of pages that are programs, run as they stand with what the page says is around them."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyxxl import ExecutorConfig
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import StaticPool
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server
from werkzeug.wrappers import Response
from xwheel_devtools.testing import NodeSite, wait_until

from tests.support.listings import one_listing, runs
from tests.support.paths import ROOT
from tests.support.plugin_homes import plugin_home
from tests.support.ports import free_port
from xwheel.config import Config, build_config
from xwheel.executor import Executor, JobContext, job

TOKEN = "Vb7qLw20-token-of-the-listings"
APP_NAME = "demo"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeSite]:
    folder = tmp_path_factory.mktemp("node")
    with NodeSite(folder, executors=0, settings={"api": {"executor_token": TOKEN}}) as made:
        yield made


@pytest.fixture
def settings(node: NodeSite, tmp_path: Path) -> dict[str, Any]:
    """What the executors of these tests are told."""
    return {
        "app_name": APP_NAME,
        "admin_addresses": [node.executor_url],
        "access_token": TOKEN,
        "port": 0,
        "data_dir": tmp_path / "executor",
        "stop_timeout_s": 5,
        "leave_s": 0,
    }


Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that runs a listing as a module, with names that the page takes for granted."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(page: str, beginning: str, **names: object) -> ModuleType:
        listing = one_listing(page, beginning)
        module = ModuleType(f"listing_{listing.line}")
        path = tmp_path / f"{module.__name__}.py"
        path.write_text(listing.text, "utf-8")
        module.__dict__.update(names)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(listing.text, str(path), "exec"), module.__dict__)
        return module

    return run


@runs("README.md", "from xwheel.executor import JobContext, job")
def test_the_job_of_the_readme(node: NodeSite, settings: dict[str, Any], load: Load) -> None:
    module = load("README.md", "from xwheel.executor import JobContext, job")
    with Executor(handlers=[module], **settings):
        run = node.run("greet", "world")
        assert (run["state"], run["message"]) == ("succeeded", "done")
        assert "hello, world" in node.log(run["id"])


@pytest.mark.processes
@runs("docs/howto/executor.md", "from xwheel.executor import JobContext, current_job, job")
def test_the_three_kinds_of_handlers(node: NodeSite, settings: dict[str, Any], load: Load) -> None:
    module = load("docs/howto/executor.md", "from xwheel.executor import JobContext, current_job, job")
    with Executor(handlers=[module], **settings):
        run = node.run("report")
        assert run["message"] == '{"rows":42}'
        assert "shard 0 of 1" in node.log(run["id"])
        assert [node.run(name)["state"] for name in ("fetch", "convert")] == ["succeeded"] * 2


@runs("docs/howto/executor.md", "# gunicorn.conf.py")
def test_the_hook_of_gunicorn(
    node: NodeSite, settings: dict[str, Any], load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ModuleType("my_app")
    executor = app.executor = Executor(handlers=[hello], **settings)
    monkeypatch.setitem(sys.modules, "my_app", app)
    load("docs/howto/executor.md", "# gunicorn.conf.py").post_fork(None, None)
    try:
        wait_until(lambda: node.call("GET", "executors")["items"])
        assert node.run("hello")["message"] == "hello"
    finally:
        executor.stop()


TIMER_PAGE = "docs/reference/timer.md"


@runs(TIMER_PAGE, "from xwheel.timer import WheelTimer")
def test_a_timer_with_a_thread(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(TIMER_PAGE, "from xwheel.timer import WheelTimer")
    assert (module.timer.state, module.timeout.is_cancelled) == ("stopped", True)
    assert capsys.readouterr().out == ""


@runs(TIMER_PAGE, "# a timer in a loop")
def test_a_timer_in_a_loop(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load(TIMER_PAGE, "# a timer in a loop")
    assert capsys.readouterr().out == "late\n"


@runs(TIMER_PAGE, "# a loop on the wheel")
def test_a_loop_on_the_wheel(load: Load) -> None:
    module = load(TIMER_PAGE, "# a loop on the wheel")
    assert issubclass(module.Loop, module.asyncio.SelectorEventLoop)


@job("hello")
def hello() -> str:
    """Say hello."""
    return "hello"


@runs("docs/howto/executor.md", "executor = Executor(config, handlers=[my_jobs])")
def test_an_executor_in_a_web_application(node: NodeSite, settings: dict[str, Any], load: Load) -> None:
    port = free_port()
    where = {"listen": False, "address": f"http://127.0.0.1:{port}/jobs/"}
    module = load(
        "docs/howto/executor.md",
        "executor = Executor(config, handlers=[my_jobs])",
        Executor=Executor,
        DispatcherMiddleware=DispatcherMiddleware,
        config=build_config({"executor": {**settings, **where}}),
        my_jobs=hello,
        web_app=Response("the site"),
    )
    server = make_server("127.0.0.1", port, module.application, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        wait_until(lambda: module.executor.is_registered)
        run = node.run("hello")
        assert (run["message"], run["address"].rstrip("/")) == ("hello", where["address"].rstrip("/"))
    finally:
        module.executor.stop()
        server.shutdown()
        thread.join()
        server.server_close()


@runs("docs/explanation/delivery.md", '@job("charge")')
def test_a_handler_that_may_run_twice(node: NodeSite, settings: dict[str, Any], load: Load) -> None:
    db = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )  # one connection, which the handler's thread shares
    done = Table(
        "done",
        MetaData(),
        *(Column(name, Integer, primary_key=True, autoincrement=False) for name in ("job", "due", "shard")),
    )
    done.create(db)
    names = {"db": db, "done": done, "insert": insert, "IntegrityError": IntegrityError}
    module = load("docs/explanation/delivery.md", '@job("charge")', job=job, JobContext=JobContext, **names)
    with Executor(handlers=[module], **settings):
        run = node.run("charge")
        assert run["message"] == "charged"
    with db.begin() as tx:
        (key,) = tx.execute(select(done.c.job, done.c.due, done.c.shard))
    context = SimpleNamespace(**dict(zip(("job_id", "planned_ms", "shard_index"), key, strict=True)))
    assert module.charge(context) == "done by an earlier attempt"
    with db.begin() as tx:
        assert tx.execute(select(func.count()).select_from(done)).scalar() == 1
    db.dispose()


@runs("docs/howto/bring-executors.md", "ExecutorConfig(")
def test_the_settings_of_pyxxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it opens a log there
    # the machine may not know its own name
    monkeypatch.setattr("pyxxl.setting.get_network_ip", lambda: "127.0.0.1")
    listing = one_listing("docs/howto/bring-executors.md", "ExecutorConfig(")
    config = eval(listing.text.replace("HOST", "127.0.0.1"), {"ExecutorConfig": ExecutorConfig})
    assert config.xxl_admin_baseurl == "http://127.0.0.1:8081/api/"


@runs("docs/howto/bring-executors.md", "xxl.NewExecutor(")
def test_the_settings_of_go_are_those_of_a_program_that_the_interop_tests_build() -> None:
    listing = one_listing("docs/howto/bring-executors.md", "xxl.NewExecutor(")
    program = (ROOT / "tests" / "interop" / "go" / "main.go").read_text("utf-8")
    names = re.findall(r"xxl\.\w+\(", listing.text)
    assert [name for name in names if name not in program] == []


@runs("docs/howto/scripts.md", "# /// script")
def test_a_script_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(plugin_home("glue_script")))
    from xwheel_glue_script.requirements import read_requirements

    wanted = read_requirements(one_listing("docs/howto/scripts.md", "# /// script").text)
    assert wanted == (("requests==2.32.3",), ">=3.11")


@pytest.mark.parametrize("page", ["docs/reference/egress.md", "plugins/egress/README.md"])
@runs("docs/reference/egress.md", "from xwheel_egress import EgressClient, EgressPolicy")
@runs("plugins/egress/README.md", "from xwheel_egress import EgressClient, EgressError")
def test_a_call_that_keeps_to_the_policy(
    node: NodeSite, load: Load, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.syspath_prepend(str(plugin_home("egress")))
    config = build_config({"egress": {"allow_networks": ["127.0.0.0/8"], "allow_ports": ["1-65535"]}})
    module = load(page, "from xwheel_egress import EgressClient", config=config, url=f"{node.url}/healthz", data=b"{}")
    # the health page takes no POST
    assert (module.answer.status, module.answer.truncated) == (405, False)


@runs("docs/reference/egress.md", "http://10.1.2.3: ")
def test_what_the_policy_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(plugin_home("egress")))
    from xwheel_egress import EgressClient, EgressPolicy, EgressRefusedError

    listing = one_listing("docs/reference/egress.md", "http://10.1.2.3: ")
    with pytest.raises(EgressRefusedError) as caught:
        EgressClient(EgressPolicy.from_config(Config())).request("GET", "http://10.1.2.3/secret")
    assert str(caught.value) == listing.text.strip()


@runs("docs/reference/plugins.md", 'node = xwheel_node("mine.py"')
def test_a_node_for_tests(tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from xwheel import hookimpl\n\n\n"
        "class Few:\n    name = 'FEW'\n\n    def __init__(self, limit):\n        self.limit = limit\n\n"
        "    def route(self, context):\n        return context.addresses[: self.limit]\n\n\n"
        "@hookimpl\ndef xwheel_register_routers(options):\n    return [Few(options['limit'])]\n"
    )
    monkeypatch.chdir(tmp_path)

    def start(*plugins: object, **more: Any) -> NodeSite:
        return NodeSite(tmp_path / "node", *plugins, **more)

    @job("mine")
    def my_handler(ctx: JobContext) -> str:
        return f"shard of {ctx.shard_total}"

    module = load("docs/reference/plugins.md", 'node = xwheel_node("mine.py"', xwheel_node=start, my_handler=my_handler)
    with module.node as site:
        assert len(site.addresses) == 2
        assert site.run("mine", route_strategy="FEW")["message"] == "shard of 2"
