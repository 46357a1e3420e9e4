"""Each mutant does wrong in the small what it is meant to, where xwheel itself does right."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xwheel_devtools.verify.records import FindingKind

from tests.faults.mutants import command, fair
from tests.faults.mutants.caught import CAUGHT_BY
from tests.faults.mutants.names import MUTANTS
from tests.faults.mutants.patches import REACHED_VARIABLE, PatchError, Patches, apply, mutated
from tests.support.executors import wait_until
from tests.support.network import attach, check, states
from tests.support.node import HandNode
from tests.support.paths import ROOT
from tests.support.rows import NOW
from xwheel.api.http.auth import Caller
from xwheel.api.xxl.executor_calls import ExecutorCalls
from xwheel.clock import ManualClock, SystemClock
from xwheel.errors import DatabaseUnreachableError
from xwheel.executor.journal import Acceptance, Journal
from xwheel.model import Run, RunState
from xwheel.scheduler.fire.fence import Fence
from xwheel.scheduler.records import Fate
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.wire.codec import encode_callbacks
from xwheel.wire.messages import CallbackItem, RunKey


@pytest.fixture
def node(db: Database) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001", "http://127.0.0.1:9002")
    return node


def execute(node: HandNode, statement: str) -> None:
    with node.db.write() as conn:
        conn.exec_driver_sql(statement)


def maybe(mutant: str | None) -> AbstractContextManager[Patches | None]:
    return nullcontext() if mutant is None else mutated(mutant)


def by_hand(node: HandNode) -> Run:
    """Plan a run that is due, and let memory have it."""
    made = node.scheduler.management.run_now.run(node.job(enabled=False).id)
    node.adopt()
    return made


def claimed(node: HandNode) -> Run:
    """Plan a fire that is due in a second, and leave it whole in memory."""
    node.job(schedule_conf="1", end_ms=NOW + 1000)
    node.plan()
    (run,) = node.runs()
    return run


def sent(node: HandNode) -> list[int]:
    return [shard.run.id for parcel in node.sent for shard in parcel.shards]


# what these guards hold up, other tests ask each database
pytestmark = pytest.mark.servers_get(0)

LOSE_PARTITIONS = "UPDATE partition_lease SET owner = 'another', epoch = epoch + 1"


class TestNoFence:
    @pytest.mark.parametrize("mutant", [None, "no_fence"])
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE open_run SET state = 'cancelled'",
            "UPDATE open_run SET state = 'dispatching'",
            "UPDATE open_run SET epoch = epoch + 1",
            "UPDATE job SET deleted_ms = 5",
            LOSE_PARTITIONS,
        ],
    )
    def test_what_is_not_ours_to_send_is_sent(self, node: HandNode, mutant: str | None, statement: str) -> None:
        run = claimed(node)
        execute(node, statement)
        with maybe(mutant):
            node.tick(1000)
        assert sent(node) == ([run.id] if mutant else [])

    def test_the_rest_goes_on(self, node: HandNode) -> None:
        with mutated("no_fence"):
            node.job(schedule_conf="1", route_strategy="SHARDING_BROADCAST", end_ms=NOW + 3000)
            node.run_for(4000, each=lambda: node.finish(node.answer()))
        assert [run.state for run in node.runs()] == [RunState.SUCCEEDED] * 6


class TestEpochUnchecked:
    @pytest.mark.parametrize("mutant", [None, "epoch_unchecked"])
    @pytest.mark.parametrize(
        "statement", ["UPDATE open_run SET epoch = epoch - 1", "UPDATE open_run SET epoch = epoch + 1", LOSE_PARTITIONS]
    )
    def test_a_fence_under_another_epoch_commits(self, node: HandNode, mutant: str | None, statement: str) -> None:
        run = claimed(node)
        execute(node, statement)
        with maybe(mutant):
            node.tick(1000)
        assert sent(node) == ([run.id] if mutant else [])
        assert [run.state for run in node.runs()] == [RunState.DISPATCHING if mutant else RunState.PLANNED]

    @pytest.mark.parametrize("mutant", [None, "epoch_unchecked"])
    def test_a_claim_commits_in_a_partition_that_was_taken(self, node: HandNode, mutant: str | None) -> None:
        node.job(schedule_conf="1", end_ms=NOW + 1000)
        execute(node, LOSE_PARTITIONS)
        with maybe(mutant):
            node.scheduler.planning.claim.step(NOW)
        assert [run.epoch for run in node.runs()] == ([1] if mutant else [])

    @pytest.mark.parametrize("mutant", [None, "epoch_unchecked"])
    def test_a_row_is_adopted_in_a_partition_that_was_taken(self, node: HandNode, mutant: str | None) -> None:
        node.scheduler.management.run_now.run(node.job(enabled=False).id)
        execute(node, LOSE_PARTITIONS)
        with maybe(mutant):
            node.adopt()
        assert [run.epoch for run in node.runs()] == [1 if mutant else 0]

    def test_a_run_that_is_no_longer_planned_still_falls_out(self, node: HandNode) -> None:
        claimed(node)
        execute(node, "UPDATE open_run SET state = 'cancelled'")
        with mutated("epoch_unchecked"):
            node.tick(1000)
        assert sent(node) == []


class TestRevisionUnchecked:
    @pytest.mark.parametrize("mutant", [None, "revision_unchecked"])
    def test_a_run_is_sent_as_its_job_was_before_the_edit(self, node: HandNode, mutant: str | None) -> None:
        job = node.job(schedule_conf="1", end_ms=NOW + 1000, param="old")
        node.plan()
        node.scheduler.management.jobs.edit(job.id, {"param": "new"})
        with maybe(mutant):
            node.tick(1000)
            node.tick(100)  # what changed is read again and tried once more
        (parcel,) = node.sent
        assert [shard.job.param for shard in parcel.shards] == ["old" if mutant else "new"]

    def test_a_run_of_a_stopped_job_still_falls_out(self, node: HandNode) -> None:
        job = node.job(schedule_conf="1", end_ms=NOW + 1000)
        node.plan()
        node.scheduler.management.jobs.stop(job.id)
        with mutated("revision_unchecked"):
            node.tick(1000)
        assert sent(node) == []


class TestPlanOutsideTransaction:
    @pytest.mark.parametrize("mutant", [None, "plan_outside_transaction"])
    def test_a_fire_is_lost_between_two_commits(
        self, node: HandNode, mutant: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = node.job(schedule_conf="1", end_ms=NOW + 1000)

        def fail(*_: object) -> None:
            raise DatabaseUnreachableError("it went away")

        with maybe(mutant), monkeypatch.context() as patch:
            patch.setattr(runs, "insert_many", fail)
            if mutant:
                node.scheduler.planning.claim.step(NOW)  # the next step would write its rows
            with pytest.raises(DatabaseUnreachableError):
                node.scheduler.planning.claim.step(NOW)
        assert node.load(job.id).next_fire_ms == (None if mutant else NOW + 1000)
        node.run_for(2000, each=lambda: node.finish(node.answer()))
        assert [run.state for run in node.runs()] == ([] if mutant else [RunState.SUCCEEDED])

    def test_fires_are_planned_in_fair_weather(self, node: HandNode) -> None:
        with mutated("plan_outside_transaction"):
            node.job(schedule_conf="1", end_ms=NOW + 3000)
            node.run_for(4000, each=lambda: node.finish(node.answer()))
        assert [run.state for run in node.runs()] == [RunState.SUCCEEDED] * 3


class TestNoAdopt:
    @pytest.mark.parametrize("mutant", [None, "no_adopt"])
    def test_a_run_by_hand_stays_planned(self, node: HandNode, mutant: str | None) -> None:
        with maybe(mutant):
            run = by_hand(node)
            node.run_for(8000)  # long enough for reconciling too
        assert sent(node) == ([] if mutant else [run.id])

    @pytest.mark.parametrize("mutant", [None, "no_adopt"])
    def test_a_run_that_memory_lost_stays_lost(self, node: HandNode, mutant: str | None) -> None:
        with maybe(mutant) as patches:
            node.job(schedule_conf="1", end_ms=NOW + 1000)
            node.plan()
            node.scheduler.planning.tick.drain()
            node.run_for(7000)
        assert len(sent(node)) == (0 if mutant else 1)
        assert patches is None or patches.calls["AdoptLoop._take_up"] > 0


class TestForgetfulHandover:
    @pytest.mark.parametrize("mutant", [None, "forgetful_handover"])
    def test_what_the_former_holder_planned_stays_planned(self, node: HandNode, mutant: str | None) -> None:
        node.job(schedule_conf="1", end_ms=NOW + 3000)
        node.plan()
        with maybe(mutant):
            heir = node.successor()
            heir.run_for(10_000, each=lambda: heir.finish(heir.answer()))
        wanted = RunState.PLANNED if mutant else RunState.SUCCEEDED
        assert [run.state for run in heir.runs()] == [wanted] * 3

    def test_rows_without_an_epoch_are_adopted(self, node: HandNode) -> None:
        with mutated("forgetful_handover"):
            run = by_hand(node)
            node.tick(20)
        assert sent(node) == [run.id]


class TestRerouteUnknown:
    @pytest.mark.parametrize("mutant", [None, "reroute_unknown"])
    def test_a_run_without_an_answer_goes_to_another_executor(self, node: HandNode, mutant: str | None) -> None:
        run = by_hand(node)
        with maybe(mutant):
            node.tick(20)
            assert [parcel.executor.address for parcel in node.sent] == ["http://127.0.0.1:9001"]
            node.answer(Fate.UNKNOWN)
            node.run_for(12_000)
        (parcel,) = node.sent
        assert [shard.run.id for shard in parcel.shards] == [run.id]
        assert parcel.executor.address == f"http://127.0.0.1:{9002 if mutant else 9001}"
        assert parcel.again is not bool(mutant)


class TestNoCheck:
    @pytest.mark.parametrize("mutant", [None, "no_check"])
    def test_a_run_that_its_executor_does_not_know_stays_running(self, node: HandNode, mutant: str | None) -> None:
        by_hand(node)
        node.tick(20)
        node.answer()
        network = attach(node, states({}))  # it knows nothing of the run
        node.clock.advance(11 * 60_000)
        node.register("http://127.0.0.1:9001", "http://127.0.0.1:9002")
        with maybe(mutant):
            check(node)
        assert bool(network.calls) is not bool(mutant)
        assert [run.state for run in node.runs()] == [RunState.RUNNING if mutant else RunState.LOST]


class TestOutcomeBeforeCommit:
    @pytest.mark.parametrize("mutant", [None, "outcome_before_commit"])
    def test_what_the_database_never_got_is_acknowledged(
        self, node: HandNode, mutant: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        run = by_hand(node)
        node.tick(20)
        node.answer()
        item = CallbackItem(run_id=run.id, job_id=run.job_id, created_ms=run.created_ms, code=200)
        calls: Any = SimpleNamespace(_parts=SimpleNamespace(finisher=node.scheduler.finishing.finisher))
        body = encode_callbacks([item])

        def fail(*_: object) -> None:
            raise DatabaseUnreachableError("it is away")

        def report() -> int:
            return ExecutorCalls._take_outcomes(calls, None, caller, body).code  # type: ignore[arg-type]

        caller = Caller(name="", group_id=None)
        with maybe(mutant):
            with monkeypatch.context() as patch:
                patch.setattr(node.db, "transaction", fail)
                if mutant:
                    assert report() == 200
                    wait_until(lambda: "1 acknowledged outcomes are lost" in caplog.text)
                else:
                    with pytest.raises(DatabaseUnreachableError):
                        report()
            assert [run.state for run in node.runs()] == [RunState.RUNNING]
            assert report() == 200
            wait_until(lambda: [run.state for run in node.runs()] == [RunState.SUCCEEDED])


class TestNoJournal:
    @pytest.mark.parametrize("mutant", [None, "no_journal"])
    def test_what_was_taken_in_before_is_forgotten(self, tmp_path: Path, mutant: str | None) -> None:
        keys = [RunKey(number, 7, 1000) for number in (1, 2, 3)]
        first = Journal(tmp_path, SystemClock())
        accept(first, keys)
        first.start(keys[:2], lambda: None)
        first.finish([CallbackItem(run_id=1, job_id=7, created_ms=1000, code=200)])
        first.close()  # which adds nothing: a kill leaves the same file
        with maybe(mutant):
            second = Journal(tmp_path, SystemClock())
        assert second.instance == first.instance
        assert [item.run_id for item in second.pending(9)] == ([] if mutant else [1, 2, 3])
        assert [taken.new for taken in accept(second, keys)] == [bool(mutant)] * 3
        second.close()


def accept(journal: Journal, keys: Sequence[RunKey]) -> list[Acceptance]:
    found: list[Acceptance] = []
    journal.accept(keys, lambda taken, _: found.extend(taken))
    journal.settle(10)
    return found


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_says_what_is_missing_and_puts_everything_back(name: str) -> None:
    function = getattr(import_module(f"tests.faults.mutants.{MUTANTS[name].module}"), name)
    assert inspect.getdoc(function)
    before = (Fence._fence, runs.lock_planned, runs.insert_runs, runs.find_left)
    with mutated(name) as patches:
        assert set(patches.calls.values()) == {0}
        assert patches.rare < patches.calls.keys()
    assert before == (Fence._fence, runs.lock_planned, runs.insert_runs, runs.find_left)


class Guard:
    def stands(self, run_id: int, *, loud: bool) -> bool:
        return loud and run_id > 0


def test_a_guard_that_is_gone_or_has_changed_is_no_place_for_a_patch() -> None:
    def make(_original: object) -> Any:
        return lambda self, run_id: True

    with pytest.raises(PatchError, match=r"Guard\.falls is no function"):
        Patches().replace(Guard, "falls", make)
    with pytest.raises(PatchError, match=r"Guard\.stands takes .*loud.*its replacement"):
        Patches().replace(Guard, "stands", make)


def test_calls_are_counted_and_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REACHED_VARIABLE, str(tmp_path / "reached"))
    patches = Patches()
    patches.replace(Guard, "stands", lambda original: lambda self, run_id, *, loud: True)
    assert Guard().stands(0, loud=False)
    assert Guard().stands(0, loud=False)
    patches.undo()
    assert not Guard().stands(0, loud=False)
    assert patches.calls == {"Guard.stands": 2}
    assert (tmp_path / "reached").read_text() == "Guard.stands\n"


def test_a_mutant_that_no_longer_fits_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(runs, "lock_planned")
    before = Fence._fence
    with pytest.raises(PatchError, match=r"runs\.lock_planned"):
        apply("no_fence")
    assert Fence._fence is before


@pytest.mark.processes
def test_the_command_line_is_xwheels_own() -> None:
    def said(*arguments: str) -> tuple[int, bool]:
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, "--executor-port" in done.stdout

    assert command(None) == [sys.executable, "-m", "xwheel"]
    assert said(*command(None), "server", "--help") == (0, True)
    assert said(*command("no_fence"), "server", "--help") == (0, True)
    assert said(*command("no_fencing"), "server", "--help") == (2, False)


def test_what_must_catch_each_is_written_down() -> None:
    assert CAUGHT_BY.keys() == MUTANTS.keys()
    for catch in CAUGHT_BY.values():
        assert catch.faults
        assert catch.findings
        assert {FindingKind(name) for name in catch.findings}
        assert set(catch.invariants) <= set(range(1, 11))


@pytest.mark.nightly
@pytest.mark.processes
@pytest.mark.parametrize("name", MUTANTS)
def test_nothing_is_missing_in_fair_weather(name: str, tmp_path: Path) -> None:
    """What each replaces is reached, and yet its jobs fire and succeed."""
    disturbances = fair.run(name, tmp_path)
    assert disturbances.ok, str(disturbances)
    assert disturbances.states["succeeded"] >= fair.FIRES  # of more than one job, but a slow machine may start late
