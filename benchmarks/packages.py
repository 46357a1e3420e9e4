"""Measure a package node: time to a job's first line with a warm and a cold process, and memory of many packages.

A real executor with the plugin ``job_package``, packages from a store on loopback, and environments that are really
built. Run it with ``.venv/plugins/job_package/bin/python -m benchmarks.packages [--json]``.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from xwheel_devtools.testing import ExecutorSite, WebRequest, WebServer, web_reply
from xwheel_job_package.reference import PackageReference

from benchmarks._report import Report
from xwheel import Config

WARM_GOAL_MS = 150
MEMORY_GOAL_MIB = 1536
IDLE_S = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
JOBS = """
import asyncio, json, logging, sqlite3, ssl, time, urllib.request
import lib

def first_line():
    return str(time.time_ns())

def version():
    return str(lib.VERSION)
"""


def wheel(name: str, version: str, files: dict[str, bytes], requires: Sequence[str] = ()) -> tuple[str, bytes]:
    """Return the name and the bytes of a wheel."""
    about = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {item}" for item in requires]
    members = {
        **files,
        f"{about}/METADATA": "\n".join([*lines, ""]).encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: b\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*members, f"{about}/RECORD"])
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for path, data in {**members, f"{about}/RECORD": record.encode()}.items():
                archive.writestr(path, data)
        file.seek(0)
        return f"{name}-{version}-py3-none-any.whl", file.read()


class Store:
    """Serves packages of which each wants another version of one library, which it brings."""

    def __init__(self, count: int) -> None:
        self.files: list[tuple[str, bytes]] = []
        for number in range(1, count + 1):
            name, data = wheel("lib", f"{number}.0", {"lib.py": f"VERSION = {number}\n".encode()})
            files = {f"demo{number}.py": JOBS.encode(), f"wheels/{name}": data}
            self.files.append(wheel(f"demo{number}", "1.0", files, [f"lib=={number}.0"]))
        self.web = WebServer(self._answer)

    def reference(self, number: int, name: str) -> str:
        file, data = self.files[number - 1]
        return PackageReference(
            package=f"demo{number}",
            version="1.0",
            package_id=number,
            sha256=hashlib.sha256(data).hexdigest(),
            file=file,
            group=f"demo{number}",
            name=name,
        ).source()

    def _answer(self, handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        number = int(request.path.split("/")[-2])
        web_reply(200, self.files[number - 1][1])(handler, request)


class Node:
    """An executor that runs packages."""

    def __init__(self, site: ExecutorSite, store: Store) -> None:
        self._site = site
        self._store = store
        self._last = 0

    def run(self, number: int, name: str) -> str:
        self._last += 1
        code, message = self._site.run(self._store.reference(number, name), self._last)
        assert code == 200, message
        return message

    def first_line_ms(self, number: int) -> float:
        """Return the milliseconds from the request to the job's first line."""
        begin = time.time_ns()
        return (int(self.run(number, "first_line")) - begin) / 1e6


@contextmanager
def nodes(store: Store, folder: Path, *idle_s: float) -> Iterator[list[Node]]:
    """Give nodes that share environments, each with another limit for waiting processes."""
    with ExitStack() as stack:
        made = []
        for number, seconds in enumerate(idle_s):
            options = {
                "store_addresses": [store.web.url],
                "directory": str(folder / "shared"),
                "idle_worker_s": seconds,
            }
            config = Config(plugins={"options": {"job_package": {"node": options}}})  # type: ignore[arg-type]
            site = stack.enter_context(ExecutorSite(folder / f"node{number}", config, "PACKAGE"))
            made.append(Node(site, store))
        yield made


def processes() -> list[int]:
    """Return this process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def memory_mib() -> float:
    """Return what the node and its processes hold together; what they share counts once."""
    total = 0
    for pid in processes():
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            total += int(line.split()[1]) if line.startswith("Pss:") else 0
    return total / 1024


def cpu_s(pids: Sequence[int]) -> float:
    """Return what processes have used of the processors."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def measure(report: Report, store: Store, folder: Path, count: int) -> None:
    with nodes(store, folder, 0, 600) as (cold_node, node):
        begin = time.perf_counter()
        node.run(1, "version")
        report.figure("first_run.with_environment", [time.perf_counter() - begin], "s")
        cold_node.run(1, "version")
        cold, warm = [], []
        for _ in range(report.args.repeats):
            cold.append(cold_node.first_line_ms(1))
            warm.append(node.first_line_ms(1))
        report.figure("first_line.cold", cold, "ms")
        report.figure("first_line.warm", warm, "ms")
        held = max(warm) < WARM_GOAL_MS
        report.note("first_line.warm", f"goal below {WARM_GOAL_MS}: {'held' if held else 'MISSED'}")
        report.ratio("cold_over_warm", cold, warm)
        built = []
        for number in range(2, count + 1):
            begin = time.perf_counter()
            assert node.run(number, "version") == str(number)
            built.append(time.perf_counter() - begin)
        if built:
            report.figure("first_run.further_package", built, "s")
        total = memory_mib()
        idle = [pid for pid in processes() if pid != os.getpid()]
        before = cpu_s(idle)
        time.sleep(IDLE_S)
        report.figure("idle.cpu_of_waiting_processes", [(cpu_s(idle) - before) / IDLE_S * 100], "%")
        report.figure("idle.processes", [len(idle)], "")
        report.figure(f"memory.{count}_packages", [total], "MiB")
        held = total < MEMORY_GOAL_MIB
        report.note(f"memory.{count}_packages", f"goal below {MEMORY_GOAL_MIB}: {'held' if held else 'MISSED'}")


def main() -> None:
    report = Report(__doc__ or "", repeats=20)
    report.parser.add_argument("--packages", type=int, default=50, help="packages with a process each")
    report.parse()
    store = Store(report.args.packages)
    # next to the code, not in /tmp, which is memory on some machines
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parent) as folder:
        measure(report, store, Path(folder), report.args.packages)
    store.web.close()
    report.finish()


if __name__ == "__main__":
    main()
