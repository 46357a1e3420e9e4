"""The faulty plugins go wrong as they are told, and what has nothing to do with them goes on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from xwheel_devtools.testing.samples import sample_alarm

from tests.faults.injectors.plugins import FAILING, LYING, NAME, FaultyPlugins
from tests.faults.test_server_outage import Site, site_on
from tests.support.executors import wait_until
from tests.support.rows import NOW, job_values, make_executor, make_job
from xwheel.builtin.schedule_types import FixRate
from xwheel.config import build_config
from xwheel.model import Run, RunState
from xwheel.plugin import RouteContext, RunChange, ScheduleSpec
from xwheel.plugin.discovery import load_plugins
from xwheel.storage import runs
from xwheel.storage.database import startup

PATIENCE_S = 60
WAYS = [(kind, how) for kind, lies in LYING.items() for how in (*FAILING, *lies) if how != "hang"]


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyPlugins]:
    """The plugins, installed for this process."""
    made = FaultyPlugins(tmp_path / "plugins")
    monkeypatch.syspath_prepend(str(made.path))
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield made
    sys.modules.pop(NAME, None)


@dataclass
class Calls:
    """One call of each plugin, by its kind."""

    router: Callable[[], object]
    schedule_type: Callable[[], object]
    channel: Callable[[], object]
    listener: Callable[[], object]

    def make(self, kind: str) -> object:
        """Return what a plugin answers, or what it raises."""
        try:
            return getattr(self, kind)()
        except BaseException as error:
            return error


@pytest.fixture
def calls(faulty: FaultyPlugins) -> Calls:
    plugins = load_plugins(build_config({}))
    context = RouteContext(
        job=make_job(),
        executors=[make_executor("http://127.0.0.1:9001"), make_executor("http://127.0.0.1:9002")],
        beat=lambda _: True,
        idle_beat=lambda _: True,
    )
    spec = ScheduleSpec(conf="7", timezone="UTC", anchor_ms=NOW)
    change = RunChange(5, 1, 1, RunState.RUNNING, NOW)
    return Calls(
        router=lambda: [item.address for item in plugins.routers["FAULTY"].route(context)],
        schedule_type=lambda: plugins.schedule_types["FAULTY"].next_ms(spec, NOW),
        channel=lambda: plugins.registered("xwheel_register_alarms")["faulty"].send(sample_alarm(id=3)),
        listener=lambda: plugins.run_listeners["faulty"].on_change([change]),
    )


WELL = {"router": ["http://127.0.0.1:9001"], "schedule_type": NOW + 7000, "channel": "noted", "listener": None}


def test_they_work_while_nothing_is_wrong(faulty: FaultyPlugins, calls: Calls) -> None:
    assert {kind: calls.make(kind) for kind in LYING} == WELL
    assert faulty.notes("channel") == ["3"]
    assert faulty.notes("listener") == ["5 running"]
    assert WELL["schedule_type"] == FixRate().next_ms(ScheduleSpec(conf="7", timezone="UTC", anchor_ms=NOW), NOW)


@pytest.mark.parametrize(("kind", "how"), WAYS)
def test_each_goes_wrong_as_it_is_told_and_no_other_does(
    faulty: FaultyPlugins, calls: Calls, kind: str, how: str
) -> None:
    raised = {"raise": RuntimeError, "exit": SystemExit, "interrupt": KeyboardInterrupt}
    with faulty.going_wrong(kind, how):
        found = calls.make(kind)
        assert {other: calls.make(other) for other in LYING if other != kind} == {
            other: answer for other, answer in WELL.items() if other != kind
        }
    assert found != WELL[kind] or type(found) is not type(WELL[kind])
    assert isinstance(found, raised.get(how, object))
    assert calls.make(kind) == WELL[kind]


@pytest.mark.parametrize("kind", LYING)
def test_one_hangs_until_its_fault_is_over(faulty: FaultyPlugins, calls: Calls, kind: str) -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(calls.make(kind)))
    with faulty.going_wrong(kind, "hang"):
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(PATIENCE_S)
    assert found == [WELL[kind]]


def test_of_two_faults_the_later_one_counts(faulty: FaultyPlugins, calls: Calls) -> None:
    with pytest.raises(ValueError, match="no router can far"):
        faulty.going_wrong("router", "far")
    first, second = faulty.going_wrong("router", "exit"), faulty.going_wrong("router", "interrupt")
    first.begin()
    second.begin()
    assert isinstance(calls.make("router"), KeyboardInterrupt)
    second.end()
    assert isinstance(calls.make("router"), SystemExit)
    first.end()
    assert calls.make("router") == WELL["router"]


# a node


@pytest.fixture
def site(faulty: FaultyPlugins, tmp_path: Path) -> Iterator[Site]:
    url = f"sqlite:///{tmp_path}/xwheel.db"
    startup.upgrade(url)
    with site_on(url, url, tmp_path) as made:
        yield made


def final(site: Site, run: Run) -> Run:
    """Return how a run ended."""

    def ended() -> Run | None:
        with site.admin.read() as conn:
            found = runs.get_run(conn, run.id)
        return found if found.finished_ms else None

    found: Run = wait_until(ended, PATIENCE_S)
    return found


def test_jobs_that_have_nothing_to_do_with_it_run_on(site: Site, faulty: FaultyPlugins) -> None:
    management = site.node.scheduler.management

    def make(name: str, **values: object) -> int:
        return management.jobs.create(job_values(name=name, handler="seen", **values), enabled=False).id

    plain, routed = make("plain"), make("routed", route_strategy="FAULTY")
    timed = make("timed", schedule_type="FAULTY", schedule_conf="1")
    assert final(site, management.run_now.run(routed)).state is RunState.SUCCEEDED
    for kind, how in WAYS:
        with faulty.going_wrong(kind, how):
            wrong, right = management.run_now.run(routed), management.run_now.run(plain)
            assert final(site, right).state is RunState.SUCCEEDED, (kind, how)
            is_refused = kind == "router"
            assert (final(site, wrong).reason == "no_route") is is_refused, (kind, how)
            if kind == "schedule_type":
                with pytest.raises(Exception, match="schedule"):
                    management.jobs.start(timed)
    last = final(site, management.run_now.run(routed))
    assert last.state is RunState.SUCCEEDED
    wait_until(lambda: f"{last.id} succeeded" in faulty.notes("listener"), PATIENCE_S)
