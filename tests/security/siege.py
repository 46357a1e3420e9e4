"""300 half requests and 120 readers that never read, on each listener of a node and of an executor, while both work.

``python -m tests.security.siege [--seconds 60]`` does it twice: from an address of the strangers' own, and from that of
the executors with limits by address switched off. The executor is started under siege. It fails unless every health
check, call and beat was answered within a second, and runs came to their end all the while.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.admins import APP_NAME, TOKEN
from tests.support.paths import ROOT
from tests.support.strangers import Strangers
from xwheel.wire.contract import TOKEN_HEADER
from xwheel.wire.http.rest import RestClient

HALVES = 300
READERS = 120
PIPELINED = 200
EVERY_S = 0.2
FEW = 3
"""Answers of each listener, and beats, that a siege sees at least."""
LONGER_S = 60
PATIENCE_S = 10.0


@dataclass
class Probe:
    """A call that is made again and again, over a new connection each time.

    Attributes:
        took_s: Seconds that each answer took.
        failures: What went wrong with the others.
    """

    name: str
    port: int
    method: str
    path: str
    body: str | None = None
    took_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def ask(self) -> None:
        begin = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(self.method, self.path, self.body, {TOKEN_HEADER: TOKEN})
            answer = connection.getresponse()
            content = json.loads(answer.read())
            if answer.status != 200 or content.get("code", 200) != 200:
                self.failures.append(f"{answer.status}: {content}")
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"{type(error).__name__}: {error}")
        finally:
            connection.close()
        self.took_s.append(time.monotonic() - begin)

    def __str__(self) -> str:
        ranked = sorted(self.took_s)
        return (
            f"{self.name}: {len(ranked)} calls, {len(self.failures)} failed {self.failures[:2]}, "
            f"half within {1000 * ranked[len(ranked) // 2]:.0f} ms, all within {1000 * ranked[-1]:.0f} ms"
        )


@dataclass
class Siege:
    """What was seen.

    Attributes:
        probes: Calls and how long they took.
        finished: Runs that succeeded meanwhile.
        beats: Different times at which the node saw the executor.
        reopened: Connections that strangers opened again.
        counts: What the node counted.
    """

    probes: list[Probe]
    finished: int = 0
    beats: int = 0
    reopened: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = (
            f"{self.finished} runs succeeded, {self.beats} beats were seen, strangers came back {self.reopened} "
            f"times, the node refused {self.counts['connections_refused']} connections and cut "
            f"{self.counts['connections_cut']}"
        )
        return "\n".join([*map(str, self.probes), counts])


@contextlib.contextmanager
def process(folder: Path, *words: str, **settings: str) -> Iterator[Path]:
    """Run xwheel in a folder; return where it writes its output."""
    log = folder / f"{words[0]}.log"
    own = {name: value for name, value in os.environ.items() if not name.startswith("XWHEEL_")}
    with log.open("wb") as sink:
        running = subprocess.Popen(
            [sys.executable, "-m", "xwheel", *words],
            cwd=folder,
            env={**own, "PYTHONPATH": str(ROOT), **settings},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        try:
            yield log
        finally:
            running.terminate()
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


@contextlib.contextmanager
def besieged(port: int, source: str, reading: bytes, siege: Siege) -> Iterator[None]:
    """Keep strangers at a port, who come back whenever they are turned out, as often as every half second."""
    strangers = Strangers(port, source)
    strangers.half(HALVES)
    strangers.read_nothing(READERS, reading, PIPELINED)
    over = threading.Event()

    def persist() -> None:
        while not over.wait(0.5):
            siege.reopened += strangers.persist(reading, PIPELINED)

    thread = threading.Thread(target=persist)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        strangers.close()


def wait_for(found: Callable[[], Any], what: str, deadline_s: float = 60) -> Any:
    end = time.monotonic() + deadline_s
    while not (value := found()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {deadline_s} s")
        time.sleep(0.05)
    return value


def lay(folder: Path, seconds: float, *, source: str, per_address: int) -> Siege:
    """Besiege a node and an executor for this long.

    Args:
        folder: For everything that they write.
        seconds: How long, from the moment at which all three listeners are besieged.
        source: The strangers' address.
        per_address: Connections that an address may have; 0 for no limit.
    """
    limits = {"XWHEEL_CONNECTIONS__MAX_OPEN_PER_ADDRESS": str(per_address)}
    node = {
        **limits,
        "XWHEEL_DATABASE__URL": f"sqlite:///{folder}/xwheel.db",
        "XWHEEL_API__PORT": "0",
        "XWHEEL_API__EXECUTOR_PORT": "0",
        "XWHEEL_API__PORT_FILE": str(folder / "ports.json"),
        "XWHEEL_API__EXECUTOR_TOKEN": TOKEN,
    }
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(process(folder, "server", **node))
        wait_for((folder / "ports.json").exists, "the node")
        ports = json.loads((folder / "ports.json").read_text())
        marked = wait_for(lambda: log.read_text().partition("management token (shown once): ")[2], "the token")
        client = RestClient(f"http://127.0.0.1:{ports['api']}", marked.split()[0])
        job_id = prepare(client)
        siege = Siege(
            [
                Probe("GET /healthz", ports["api"], "GET", "/healthz"),
                Probe("GET /readyz", ports["api"], "GET", "/readyz"),
                Probe("POST /api/callback", ports["executor_api"], "POST", "/api/callback", "[]"),
            ]
        )
        documents = b"GET /docs HTTP/1.1\r\nHost: h\r\n\r\n"
        wrong = b"POST /beat HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
        stack.enter_context(besieged(ports["api"], source, documents, siege))
        stack.enter_context(besieged(ports["executor_api"], source, wrong, siege))
        executor = {
            **limits,
            "XWHEEL_EXECUTOR__APP_NAME": APP_NAME,
            "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": f'["http://127.0.0.1:{ports["executor_api"]}"]',
            "XWHEEL_EXECUTOR__ACCESS_TOKEN": TOKEN,
            "XWHEEL_EXECUTOR__PORT": "0",
            "XWHEEL_EXECUTOR__BEAT_S": "1",
            "XWHEEL_EXECUTOR__DATA_DIR": str(folder / "data"),
        }
        stack.enter_context(process(folder, "executor", "tests.support.executor_app", **executor))
        known = wait_for(lambda: client.call("GET", "/api/v1/executors")["items"], "the registration")
        port = int(known[0]["address"].rstrip("/").rpartition(":")[2])
        siege.probes.append(Probe("POST /beat", port, "POST", "/beat", ""))
        stack.enter_context(besieged(port, source, wrong, siege))
        watch(siege, client, job_id, seconds)
    return siege


def prepare(client: RestClient) -> int:
    """Make a group and a job that runs every second; return the job's id."""
    group = client.call("POST", "/api/v1/groups", {"app_name": APP_NAME, "title": "Besieged"})
    rate = {"schedule_type": "FIX_RATE", "schedule_conf": "1s"}
    values = {"group_id": group["id"], "name": "each second", "handler": "quick", **rate}
    job = client.call("POST", "/api/v1/jobs", values)
    client.call("POST", f"/api/v1/jobs/{job['id']}/start")
    return int(job["id"])


def watch(siege: Siege, client: RestClient, job_id: int, seconds: float) -> None:
    """Ask all the while, and count what happens; longer where little of it has happened, :data:`LONGER_S` at most."""
    over = threading.Event()

    def ask(probe: Probe) -> None:
        while not over.wait(EVERY_S):
            probe.ask()

    def succeeded() -> set[int]:
        query = {"job_id": job_id, "state": "succeeded", "limit": 100}
        return {run["id"] for run in client.call("GET", "/api/v1/runs", params=query)["items"]}

    threads = [threading.Thread(target=ask, args=(probe,)) for probe in siege.probes]
    runs, before, beats = set[int](), succeeded(), set[int]()
    end = time.monotonic() + seconds

    def is_over() -> bool:
        has_seen = bool(runs) and min(len(beats), *(len(probe.took_s) for probe in siege.probes)) >= FEW
        return time.monotonic() >= (end if has_seen else end + LONGER_S)

    for thread in threads:
        thread.start()
    try:
        while not is_over():
            time.sleep(0.5)
            runs |= succeeded() - before
            beats |= {item["seen_ms"] for item in client.call("GET", "/api/v1/executors")["items"]}
    finally:
        over.set()
        for thread in threads:
            thread.join()
    siege.finished, siege.beats = len(runs), len(beats)
    siege.counts = client.call("GET", "/api/v1/health")["counts"]


def main() -> int:
    """Lay both sieges, print what was seen; the status says whether it was good."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--limit-s", type=float, default=1, help="the longest that an answer may take")
    args = parser.parse_args()
    good = True
    for source, per_address in (("127.0.0.2", 256), ("127.0.0.1", 0)):
        with tempfile.TemporaryDirectory() as folder:
            siege = lay(Path(folder), args.seconds, source=source, per_address=per_address)
            said = (Path(folder) / "server.log").read_text().splitlines()
        print(f"from {source}, {per_address or 'no limit'} for each address\n{siege}")
        print("\n".join(line for line in said if " listener closed " in line))
        good &= all(max(probe.took_s) <= args.limit_s and not probe.failures for probe in siege.probes)
        good &= siege.finished >= args.seconds / 2 and siege.beats >= args.seconds / 3
    print("held" if good else "did not hold")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
