"""Several packages on one node: versions side by side, containers, the handshake, and who may run what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Place
from wheels import make_archive, make_wheel
from xwheel import Config
from xwheel.plugin import ExecutorError, GlueRequest
from xwheel_devtools.testing import ExecutorSite, check_glue_type, wait_until, web_reply

from xwheel_job_package import PackageGlue, set_acceptance
from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.reference import PackageReference

Make = Callable[..., Place]
MARKED = "from xwheel_package import schedule\n@schedule()\n"
WAITS = """
import os, time, lib
from xwheel_package import schedule
@schedule()
def job():
    print("started with", lib.VERSION, flush=True)
    while not os.path.exists({gate!r}):
        time.sleep(0.01)
    return lib.VERSION
"""
BOX = """
from xwheel_package import schedule
class Box:
    made = 0
    def __init__(self):
        Box.made += 1
    def __call__(self, wanted):
        found = wanted.__new__(wanted)
        found.source = f"box {Box.made}"
        return found
    def handler(self, name):
        return {"registered": lambda: "from the registry"}.get(name)
def broken(wanted):
    raise LookupError(f"no {wanted.__name__} here")
def nothing(wanted):
    return None
class Report:
    source = "bare"
    @schedule()
    def work(self):
        return self.source
    @schedule()
    def registered(self):
        return "not asked"
"""


def test_versions_of_a_package_and_of_its_dependencies_run_side_by_side(place: Place, tmp_path: Path) -> None:
    """ENV-1, ENV-2: both at once, each with its own; a run in progress ends on the version that it began with."""
    gate = tmp_path / "gate"
    versions = []
    for number in ("1", "2"):
        lib = make_wheel(tmp_path, "lib", f"{number}.0", {"lib.py": f"VERSION = {number}\n"})
        files = {"demo.py": WAITS.format(gate=str(gate)), f"wheels/{lib.name}": lib.read_bytes()}
        package = make_wheel(tmp_path, "demo", f"1.{number}", files, requires=[f"lib=={number}.0"])
        versions.append(place.store.add(package, group="demo", name="job"))
    old, new = versions
    first = place.start(old, job_id=101)
    wait_until(lambda: "started with 1" in place.site.log(first))
    second = place.start(new, job_id=102)
    third = place.start(new, job_id=101)  # the job was switched; its next fire waits for the run in progress
    wait_until(lambda: "started with 2" in place.site.log(second))
    gate.touch()
    assert [place.site.outcome(run)[1] for run in (first, second, third)] == ["1", "2", "2"]


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def make(factory: str) -> Path:
        name = f"box{factory.lower()}"
        files = {"acme/__init__.py": "", "acme/box.py": BOX}
        points = f"[xwheel.bean_factory]\ndefault = acme.box:{factory}\n"
        return make_wheel(tmp_path_factory.mktemp("box"), name, "1.0", files, entry_points=points)

    return make


def in_container(place: Place, package: Path, name: str = "work") -> tuple[int, str]:
    fields = {"group": "acme.box.Report", "name": name, "container": "Container", "call": "method"}
    reference = place.store.add(package, **fields)
    return place.run(reference)


def test_a_container_is_made_once_for_a_process_and_gives_the_objects(place: Place, boxed: Any) -> None:
    """BEAN-2: the object is what the factory returned; BEAN-4: a registry of handlers resolves names itself."""
    package = boxed("Box")
    assert [in_container(place, package) for _ in range(2)] == [(200, "box 1")] * 2
    assert in_container(place, package, "registered") == (200, "from the registry")
    common = place.store.add(package, group="acme.box.Report", name="work", call="method")
    assert place.run(common)[1].startswith("bad_reference: container: the source says 'Common'")


def test_a_container_that_fails_is_not_replaced_unless_that_is_wished(
    place: Place, make_place: Make, boxed: Any
) -> None:
    """BEAN-3: raising and None are bean_failed with the traceback; bean_fallback uses a bare object."""
    broken, nothing = boxed("broken"), boxed("nothing")
    code, message = in_container(place, broken)
    assert (code, "bean_failed" in message, "LookupError: no Report here" in message) == (500, True, True)
    assert "raise LookupError" in place.site.log(place.last)
    assert in_container(place, nothing)[1].startswith("bean_failed: the bean factory acme.box:nothing gave None")
    assert in_container(make_place({"bean_fallback": True}), nothing) == (200, "bare")


def test_an_own_older_copy_of_the_authors_module_is_a_clear_failure(place: Place, tmp_path: Path) -> None:
    """ENV-9: protocol numbers are compared, so that it is sdk_mismatch and no stack trace."""
    files = {
        "acme/__init__.py": "",
        "acme/jobs.py": "from xwheel_package import schedule\n@schedule()\ndef hello(): pass\n",
        "xwheel_package.py": "PROTOCOL = 0\n",
    }
    code, message = place.run(place.store.add(make_wheel(tmp_path, "old", "1.0", files)))
    assert (code, message.partition(":")[0]) == (500, "sdk_mismatch")
    assert "speaks protocol 0, this node 1" in message
    assert "Traceback" not in place.site.log(place.last)


def test_a_plain_archive_runs(place: Place, tmp_path: Path) -> None:
    """PKG-1 on the node: modules without a wheel around them, with the author's module of the node."""
    package = make_archive(
        tmp_path,
        "plain-1.0",
        {"acme/jobs.py": "import xwheel_package\n@xwheel_package.schedule()\ndef hello(): return 'plain'\n"},
    )
    assert place.run(place.store.add(package)) == (200, "plain")


def test_a_cached_package_runs_while_the_store_is_down(place: Place, acme: Path, tmp_path: Path) -> None:
    """DL-5: what is there runs; what is not waits, and starts by itself once the store is back."""
    known = place.store.add(acme)
    assert place.run(known)[0] == 200
    other = place.store.add(
        make_wheel(tmp_path, "other", "1.0", {"acme/jobs.py": f"{MARKED}def hello(): return 'other'\n"})
    )
    place.store.reply = web_reply(503)
    waiting = place.start(other)
    wait_until(lambda: f"/api/v1/packages/{other.package_id}/file" in place.store.asked)
    assert place.run(known)[0] == 200
    assert waiting not in place.site.outcomes
    place.store.reply = None
    assert place.site.outcome(waiting) == (200, "other")


class _Refuses:
    def refuse(self, job_id: int) -> str:
        return f"job {job_id} is assigned to node-7" if job_id == 13 else ""


def test_what_the_acceptance_refuses_is_not_taken(place: Place, job: Callable[..., PackageReference]) -> None:
    """CLU-19 on the node: a run that is not for this node is refused before it is accepted."""
    set_acceptance(_Refuses())
    try:
        answer = place.site.start(job("hello").source(), 5_000_013, job_id=13)
        assert (answer.ok, answer.message) == (False, "job 13 is assigned to node-7")
        assert place.run(job("hello"), job_id=14)[0] == 200
        assert not answer.not_yet
        set_acceptance(_Refuses(), is_for_now=True)
        answer = place.site.start(job("hello").source(), 5_000_014, job_id=13)
        assert (answer.ok, answer.message, answer.not_yet) == (False, "job 13 is assigned to node-7", True)
        assert place.run(job("hello"), job_id=15)[0] == 200
    finally:
        set_acceptance(None)


def test_nothing_runs_before_the_executor_names_the_type(tmp_path: Path, acme: Path) -> None:
    with ExecutorSite(tmp_path, Config(), "PACKAGE", allowed=[]) as site:
        answer = site.start("{}")
        assert "glue type PACKAGE is not allowed on this executor" in answer.message
        assert not (tmp_path / "packages").exists()


def test_the_suite_of_glue_types(job: Callable[..., PackageReference]) -> None:
    source = job("hello").source()
    changed = [("{", "["), ('"schema":1', '"schema":2'), (".whl", "/../x.whl"), ('"name":"', '"name":"a.')]
    bad = [source.replace(*item) for item in changed] + ["x" * 5000]
    check_glue_type(PackageGlue(NodeOptions()), source=source, bad_sources=bad)
    built = PackageGlue(NodeOptions()).build(GlueRequest(job_id=1, handler="", source=source, updated_ms=1), None)  # type: ignore[arg-type]
    with pytest.raises(ExecutorError, match="does not run"):
        built.run(None, print)  # type: ignore[arg-type]


SITE = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from xwheel import Config
from xwheel_devtools.testing import ExecutorSite
from conftest import Store
store = Store()
node = {{"store_addresses": [store.web.url], "directory": {home!r}}}
config = Config(plugins={{"options": {{"job_package": {{"node": node}}}}}})
with ExecutorSite(Path({folder!r}), config, "PACKAGE") as site:
    site.start(store.add(Path({wheel!r}), name="stubborn").source())
    while "child" not in site.log():
        time.sleep(0.01)
    print(site.log().split()[-1], flush=True)
    time.sleep(60)
"""


def test_working_directories_of_executors_that_are_gone_are_deleted(home: Path, make_place: Make, acme: Path) -> None:
    gone = home / "work" / "gone"
    (gone / "1").mkdir(parents=True)
    gone.with_suffix(".lock").touch()
    alone = make_place({"idle_worker_s": 600})
    assert alone.run(alone.store.add(acme))[0] == 200
    wait_until(lambda: not gone.exists())
    assert len(list(home.glob("work/*/1"))) >= 1


def test_an_executor_that_dies_leaves_no_process(home: Path, acme: Path, tmp_path: Path) -> None:
    """ENV-3: after kill -9 of the executor no process of a job survives, however it left its session."""
    code = SITE.format(tests=str(Path(__file__).parent), home=str(home), folder=str(tmp_path), wheel=str(acme))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as executor:
        assert executor.stdout is not None
        child = int(executor.stdout.readline())
        os.kill(executor.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    with suppress(FileNotFoundError, ProcessLookupError):  # it may go at any moment
        while "Z" not in Path(f"/proc/{child}/stat").read_text().split():
            assert time.monotonic() < end
            time.sleep(0.01)
