"""A store, packages and an executor that runs them; environments are shared by the tests of a session.

They are made by uv, which is quicker: what pip does is proven in ``test_environments``, ``test_resolution`` and
``test_confirm``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from wheels import make_wheel, sha256_of
from xwheel import Config
from xwheel_devtools.testing import ExecutorSite, WebRequest, WebServer, web_reply

from xwheel_job_package.reference import PackageReference

# where uv is
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# these want a browser: 'make console' runs them where Playwright is
collect_ignore = [] if find_spec("playwright") else ["pages"]

JOBS = """
import asyncio, ctypes, multiprocessing, os, signal, subprocess, sys, time
from xwheel_package import JobParameter, schedule

@schedule(cron="0/15 * * * * ?")
def hello():
    print("hello from", os.environ["XWHEEL_RUN_ID"])
    return {"pid": os.getpid()}

@schedule()
async def later():
    await asyncio.sleep(0)
    return "later"

@schedule()
def given(parameter: JobParameter):
    return {"rows": parameter.integer("rows"), "mode": parameter.string("mode")}

@schedule()
def raises():
    raise ValueError("no such day")

@schedule()
def leaves():
    os._exit(7)

@schedule()
def crashes():
    os.kill(os.getpid(), signal.SIGSEGV)

@schedule()
def grows():
    return len(bytearray(8 * 1024 * 1024 * 1024))

@schedule()
def sleeps():
    print("asleep", flush=True)
    try:
        time.sleep(60)
    finally:
        print("tidied up", flush=True)

@schedule()
async def sleeps_too():
    print("asleep", flush=True)
    await asyncio.sleep(60)

@schedule()
def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "61"], start_new_session=True)
    print("child", child.pid, flush=True)
    while True:
        time.sleep(1)

@schedule()
def litters():
    child = subprocess.Popen(["sleep", "62"], start_new_session=True)
    print("child", child.pid, flush=True)

@schedule()
def forks():
    if os.fork() == 0:
        return "child"
    return "parent"

def end_of_copy():
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join(10)
    return process.exitcode

@schedule()
def ends_copy():
    return end_of_copy()

@schedule()
async def ends_copy_from_loop():
    for _ in range(20):
        await asyncio.sleep(0)
    return end_of_copy()

@schedule()
def copy_raises():
    pid = os.fork()
    if pid == 0:
        raise ValueError("in the copy")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@schedule()
def surroundings():
    return {"environment": sorted(os.environ), "session": os.getsid(0), "isolated": sys.flags.isolated}

class Report:
    def __init__(self):
        self.count = 0

    @schedule()
    def nightly(self):
        self.count += 1
        return self.count

    @schedule()
    def weekly(self):
        return self.nightly()

    @staticmethod
    @schedule()
    def fixed():
        return "fixed"

    @classmethod
    @schedule()
    def named(cls):
        return cls.__name__

    @schedule()
    async def soon(self):
        await asyncio.sleep(0)
        return "soon"

class Needy:
    def __init__(self, what):
        self.what = what

    @schedule()
    def work(self):
        return self.what
"""

CALLS = {
    "ends_copy_from_loop": "async",
    "later": "async",
    "sleeps_too": "async",
    "soon": "async",
    "fixed": "static",
    "named": "class",
}


class Store:
    """A package store: serves files by id to those who show the token.

    Attributes:
        reply: Takes the place of the answer for a path.
    """

    def __init__(self) -> None:
        self.files: dict[int, bytes] = {}
        self.reply: Callable[[BaseHTTPRequestHandler, WebRequest], None] | None = None
        self.web = WebServer(self._answer)

    @property
    def asked(self) -> list[str]:
        return [request.path for request in self.web.requests]

    def add(self, path: Path, **fields: Any) -> PackageReference:
        """Take a file in; return a reference to a job of it."""
        number = len(self.files) + 1
        self.files[number] = path.read_bytes()
        name, version = re.sub(r"\.(whl|zip)$", "", path.name).split("-")[:2]
        known = {"group": "acme.jobs", "name": "hello", "package": name, "version": version}
        return PackageReference(package_id=number, sha256=sha256_of(path), file=path.name, **{**known, **fields})

    def _answer(self, handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        if self.reply is not None:
            self.reply(handler, request)
            return
        found = re.fullmatch(r"/api/v1/packages/(\d+)/file", request.path)
        data = self.files.get(int(found[1])) if found else None
        if request.headers.get("XXL-JOB-ACCESS-TOKEN") is None:
            web_reply(401)(handler, request)
        elif data is None:
            web_reply(404)(handler, request)
        else:
            web_reply(200, data)(handler, request)


class Place:
    """An executor for packages with its store."""

    def __init__(self, site: ExecutorSite, store: Store) -> None:
        self.site = site
        self.store = store
        self.last = 0

    def start(self, reference: PackageReference, **fields: Any) -> int:
        self.last += 1
        answer = self.site.start(reference.source(), self.last, **fields)
        assert answer.ok, answer.message
        return self.last

    def run(self, reference: PackageReference, **fields: Any) -> tuple[int, str]:
        return self.site.outcome(self.start(reference, **fields))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="session")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {"acme/__init__.py": "", "acme/jobs.py": JOBS}
    return make_wheel(tmp_path_factory.mktemp("wheel"), "acme", "1.0", files)


@pytest.fixture(scope="session")
def make_place(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Place]]:
    with ExitStack() as made:

        def make(options: Mapping[str, Any] | None = None, *, shares: bool = True) -> Place:
            folder = tmp_path_factory.mktemp("executor")
            store = Store()
            made.callback(store.web.close)
            node = {"store_addresses": [store.web.url], "installer": "uv", **(options or {})}
            if shares:
                node["directory"] = str(home)
            config = Config(plugins={"options": {"job_package": {"node": node}}})  # type: ignore[arg-type]
            return Place(made.enter_context(ExecutorSite(folder, config, "PACKAGE")), store)

        yield make


@pytest.fixture(scope="session")
def place(make_place: Callable[..., Place]) -> Place:
    """An executor for all tests that change nothing of its settings."""
    return make_place()


@pytest.fixture(scope="session")
def job(place: Place, acme: Path) -> Callable[..., PackageReference]:
    """Return a job of the package ``acme`` by its name."""
    known = place.store.add(acme)

    def find(name: str, group: str = "acme.jobs", container: str = "Common") -> PackageReference:
        call = CALLS.get(name, "method" if group != "acme.jobs" else "function")
        fields = {item: getattr(known, item) for item in known.__struct_fields__}
        changed = {"name": name, "group": group, "container": container, "call": call}
        return PackageReference(**{**fields, **changed})

    return find
