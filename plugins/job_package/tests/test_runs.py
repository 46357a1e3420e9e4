"""Runs of package jobs in real environments: what they call, what they get, how they end."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Place
from xwheel_devtools.testing import wait_until

from xwheel_job_package.reference import PackageReference

Job = Callable[..., PackageReference]


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def child_of(place: Place, run_id: int) -> int:
    """Wait until a run has told the process that it started, and return that."""
    return int(wait_until(lambda: re.search(r"child (\d+)", place.site.log(run_id)))[1])


@pytest.mark.parametrize(
    ("name", "group", "result"),
    [
        ("later", "acme.jobs", "later"),
        ("fixed", "acme.jobs.Report", "fixed"),
        ("named", "acme.jobs.Report", "Report"),
        ("soon", "acme.jobs.Report", "soon"),
    ],
)
def test_functions_and_methods_of_each_kind_are_called(
    place: Place, job: Job, name: str, group: str, result: str
) -> None:
    """SCN-9: what is listed can be called: a coroutine, a static, a class and an ordinary method."""
    assert place.run(job(name, group)) == (200, result)


def test_a_run_prints_into_its_own_log_and_its_process_is_kept(place: Place, job: Job) -> None:
    """LOG-2: standard output of each run is in its log, and only there."""
    first, second = place.start(job("hello")), place.start(job("hello"), job_id=999)
    outcomes = [place.site.outcome(first), place.site.outcome(second)]
    third = place.start(job("hello"))
    assert [code for code, _ in outcomes] == [200, 200]
    assert place.site.outcome(third)[1] in {message for _, message in outcomes}
    assert place.site.log(third) == f"hello from {third}\n"


def test_two_runs_of_one_process_share_an_instance(place: Place, job: Job, make_place: Any, acme: Path) -> None:
    """BEAN-1: two jobs of a class share its object in one process; with a process for each run each has its own."""
    first = int(place.run(job("nightly", "acme.jobs.Report"))[1])
    assert place.run(job("weekly", "acme.jobs.Report")) == (200, str(first + 1))
    alone = make_place({"idle_worker_s": 0})
    reference = alone.store.add(acme, group="acme.jobs.Report", name="nightly", call="method")
    assert [alone.run(reference), alone.run(reference)] == [(200, "1"), (200, "1")]


def test_an_object_that_cannot_be_made_fails_the_run(place: Place, job: Job) -> None:
    """BEAN-3: without a container, too, the original error is told."""
    code, message = place.run(job("work", "acme.jobs.Needy"))
    assert (code, message[:11]) == (500, "bean_failed")
    assert "missing 1 required positional argument: 'what'" in message
    assert "TypeError" in place.site.log(place.last)


def test_a_job_parameter_has_the_jobs_values_under_those_of_the_run(make_place: Any, acme: Path) -> None:
    """BEAN-5: stored parameters merged with the run's own; a missing one is a clear error."""
    place = make_place()  # a young one: runs that name the instance want a scheduler that confirms beats
    given = place.store.add(acme, name="given")
    instance = place.site.executor.instance
    stored = '{"rows": 10, "mode": "full"}'
    both = place.run(given, job_param=stored, param='{"rows": 3}', instance=instance)
    assert (both[0], json.loads(both[1])) == (200, {"rows": 3, "mode": "full"})
    code, message = place.run(given, param='{"rows": 3}')
    assert (code, "mode" in message) == (500, True)
    assert place.run(given, param="rows=3")[1].startswith("bad_parameter: the parameter of the run must be a JSON")


def test_what_a_job_raises_is_told_with_its_traceback(place: Place, job: Job) -> None:
    assert place.run(job("raises")) == (500, "ValueError: no such day")
    log = place.site.log(place.last)
    assert 'raise ValueError("no such day")' in log
    assert "runner.py" not in log


@pytest.mark.parametrize(("name", "end"), [("leaves", "ended with exit status 7"), ("crashes", "was ended by SIGSEGV")])
def test_a_process_that_dies_fails_its_run_alone(place: Place, job: Job, name: str, end: str) -> None:
    """ENV-3: os._exit and a crash fail that run with exit code or signal, and no other one notices."""
    other = place.start(job("sleeps"), timeout_s=10)
    wait_until(lambda: "asleep" in place.site.log(other))
    assert place.run(job(name)) == (500, f"the job's process {end} and without a result")
    assert place.run(job("hello"))[0] == 200
    assert place.site.outcome(other)[0] == 502


def test_memory_beyond_the_limit_fails_the_run_alone(make_place: Any, acme: Path) -> None:
    """ENV-3: a run that wants more memory than its limit fails, and the next one gets another process."""
    small = make_place({"limits": {"memory_mb": 1024}})
    reference = small.store.add(acme, name="grows")
    code, message = small.run(reference)
    assert (code, message) == (500, "out_of_memory: the run wants more memory than its limit")
    assert small.run(small.store.add(acme, name="hello"))[0] == 200


@pytest.mark.parametrize("name", ["sleeps", "sleeps_too"])
def test_a_kill_asks_first(place: Place, job: Job, name: str) -> None:
    """OPS-5: a kill sends TERM, so a job may tidy up; the next run gets a new process."""
    run_id = place.start(job(name))
    wait_until(lambda: "asleep" in place.site.log(run_id))
    place.site.kill(run_id)
    assert place.site.outcome(run_id)[1] == "scheduling center kill job."
    if name == "sleeps":
        assert "tidied up" in place.site.log(run_id)


def test_a_kill_ends_every_descendant(place: Place, job: Job) -> None:
    """OPS-5: what ignores TERM is killed after the grace, with a child that left the session."""
    run_id = place.start(job("stubborn"))
    child = child_of(place, run_id)
    assert is_alive(child)
    place.site.kill(run_id)
    assert place.site.outcome(run_id)[0] == 500
    assert not is_alive(child)


def test_what_a_run_leaves_ends_with_it_and_its_process_stays(place: Place, job: Job) -> None:
    """ENV-3: a child that a run left is killed, though its process runs on."""
    before = json.loads(place.run(job("hello"))[1])["pid"]
    assert place.run(job("litters"))[0] == 200
    assert not is_alive(child_of(place, place.last))
    assert place.run(job("forks")) == (200, "parent")
    assert json.loads(place.run(job("hello"))[1])["pid"] == before


@pytest.mark.parametrize("name", ["ends_copy", "ends_copy_from_loop"])
def test_r37_what_a_job_forks_ends_when_it_is_told_to(place: Place, job: Job, name: str) -> None:
    before = json.loads(place.run(job("hello"))[1])["pid"]
    assert place.run(job(name)) == (200, "-15")
    assert json.loads(place.run(job("hello"))[1])["pid"] == before


def test_r37_a_copy_that_raises_has_no_part_in_the_run(place: Place, job: Job) -> None:
    assert place.run(job("copy_raises")) == (200, "1")


def test_a_process_has_none_of_the_executors_secrets(place: Place, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(place.run(job("surroundings"))[1])
    assert found["isolated"] == 1
    assert found["session"] != os.getsid(0)
    assert not {name for name in found["environment"] if "TOKEN" in name or "__" in name}
    assert set(found["environment"]) <= {
        *os.environ,
        *(f"XWHEEL_{x}" for x in ("RUN_ID", "JOB_ID", "SHARD_INDEX", "SHARD_TOTAL", "PACKAGE_NODE")),
        "PYTHONUNBUFFERED",
        "TMPDIR",
        "TRACEPARENT",
    }


def test_a_job_that_is_not_in_the_package_is_named(place: Place, job: Job) -> None:
    """OPS-7: a permanent failure with a reason."""
    for name, group in (("nothing", "acme.jobs"), ("x", "acme.other")):
        code, text = place.run(job(name, group))
        assert (code, text.startswith(f"no_such_job: the package has no {group}.{name}: only")) == (500, True)
