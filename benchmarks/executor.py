"""Measure an executor: runs accepted per second one by one and in batches, CPU per run, log lines, idle cost.

The executor is a process of its own with its journal on disk and synced; handlers really run, and outcomes really
reach a small scheduler. Run it with ``python -m benchmarks.executor [--json]``.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from benchmarks._report import Report
from xwheel.wire.codec import decode_response, encode_batch, encode_trigger, read_batch_reply
from xwheel.wire.http import HttpCall, HttpResult, MultiClient
from xwheel.wire.messages import TriggerRequest

TOKEN = "a-token-for-this-benchmark"
APP_NAME = "bench"
JOBS = 10_000
IDLE_S = 5
IDLE_END_S = 32  # after which threads without work are gone
BATCH = 100
LINES = 300_000
TICKS = os.sysconf("SC_CLK_TCK")


class Admin(asyncio.Protocol):
    """As little scheduler as possible: says yes, and counts outcomes."""

    YES = b'HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"code":200,"xwheel":1}'

    def __init__(self, count: Synchronized[int]) -> None:
        self._count = count
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._data) < end + 4 + length:
                return
            if head.startswith(b"post /api/callback"):
                with self._count.get_lock():
                    self._count.value += self._data.count(b'"logId":', end, end + 4 + length)
            self._data = self._data[end + 4 + length :]
            self._transport.write(self.YES)  # type: ignore[attr-defined]


def serve_admin(port: Synchronized[int], count: Synchronized[int]) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Admin(count), "127.0.0.1", 0)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(main())


def serve_executor(admin_url: str, folder: str) -> None:
    from xwheel.builtin.glue_bean import BeanGlue
    from xwheel.executor import Executor, JobContext, job

    @job("noop")
    def noop() -> None:
        pass

    @job("chatter")
    def chatter(ctx: JobContext) -> str:
        start = time.perf_counter()
        for number in range(LINES):
            ctx.log(f"line {number} of a log that somebody will read")
        return str(time.perf_counter() - start)

    executor = Executor(
        handlers=[noop, chatter],
        glue_types={"BEAN": BeanGlue()},
        app_name=APP_NAME,
        admin_addresses=[admin_url],
        access_token=TOKEN,
        port=0,
        data_dir=Path(folder),
        waiting_limit=1_000_000,
        queue_limit=100_000,
        beat_s=1,
    )
    executor.start()
    print(json.dumps({"port": executor.port, "instance": executor.instance}), flush=True)
    sys.stdin.read()
    executor.stop(1)


class Bench:
    """One executor process and one scheduler process."""

    def __init__(self, port: int, instance: str, pid: int, count: Synchronized[int]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.pid = pid
        self._instance = instance
        self._count = count
        self._next_id = 1
        self._sent = 0

    def triggers(self, count: int, handler: str = "noop") -> list[TriggerRequest]:
        first, self._next_id = self._next_id, self._next_id + count
        return [
            TriggerRequest(
                job_id=1 + number % JOBS,
                run_id=number,
                created_ms=1_790_000_000_000,
                handler=handler,
                instance=self._instance,
                param="a parameter of ordinary length",
            )
            for number in range(first, first + count)
        ]

    def single(self, count: int) -> list[HttpCall]:
        return [
            HttpCall(
                key=1,
                url=f"{self.url}/run",
                body=encode_trigger(item),
                timeout_ms=30_000,
                token=TOKEN,
                app_name=APP_NAME,
            )
            for item in self.triggers(count)
        ]

    def batches(self, count: int) -> list[HttpCall]:
        runs = self.triggers(count)
        return [
            HttpCall(
                key=BATCH,
                url=f"{self.url}/runBatch",
                body=encode_batch(self._instance, runs[start : start + BATCH]),
                timeout_ms=30_000,
                token=TOKEN,
                app_name=APP_NAME,
            )
            for start in range(0, count, BATCH)
        ]

    def send(self, calls: list[HttpCall], in_flight: int) -> float:
        """Send all calls; return seconds until the last one was accepted."""
        client = MultiClient(max_in_flight=in_flight)
        start = time.perf_counter()
        for call in calls:
            client.submit(call)
        left = len(calls)
        while left:
            for result in client.poll(1000):
                self._sent += check(result)
                left -= 1
        seconds = time.perf_counter() - start
        client.close()
        return seconds

    def wait_delivered(self) -> None:
        while self._count.value < self._sent:
            time.sleep(0.005)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise LookupError(name)


def check(result: HttpResult) -> int:
    """Return how many runs an answer accepted."""
    answer = decode_response(result.body)
    assert answer.ok, (result, answer)
    if result.key == 1:
        return 1
    answers = read_batch_reply(answer.data).answers
    assert all(item.ok for item in answers), answers[0]
    return len(answers)


@contextmanager
def bench() -> Iterator[Bench]:
    port: Synchronized[int] = multiprocessing.Value("i", 0)
    count: Synchronized[int] = multiprocessing.Value("q", 0)
    admin = multiprocessing.Process(target=serve_admin, args=(port, count), daemon=True)
    admin.start()
    while not port.value:
        time.sleep(0.01)
    # next to the code, not in /tmp, which is memory on some machines
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parent) as folder:
        command = [sys.executable, "-m", "benchmarks.executor", "--serve", f"http://127.0.0.1:{port.value}", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield Bench(ready["port"], ready["instance"], process.pid, count)
            process.communicate()
    admin.terminate()


def measure(report: Report, runs: int) -> None:
    single, batch, cpu, delivered, log = [], [], [], [], []
    with bench() as executor:
        executor.send(executor.single(200), 16)
        executor.send(executor.batches(2000), 4)
        executor.wait_delivered()
        for _ in range(report.args.repeats):
            single.append(executor.send(executor.single(runs // 10), 16) / (runs // 10))
            executor.wait_delivered()
            calls, before, start = executor.batches(runs), executor.cpu_s(), time.perf_counter()
            batch.append(executor.send(calls, 4) / runs)
            executor.wait_delivered()
            delivered.append(runs / (time.perf_counter() - start))
            cpu.append((executor.cpu_s() - before) / runs * 1e6)
        for _ in range(report.args.repeats):
            (trigger,) = executor.triggers(1, "chatter")
            call = HttpCall(
                key=1, url=f"{executor.url}/run", body=encode_trigger(trigger), token=TOKEN, app_name=APP_NAME
            )
            start = time.perf_counter()
            executor.send([call], 1)
            executor.wait_delivered()
            log.append(LINES / (time.perf_counter() - start))
        time.sleep(IDLE_END_S)
        before = executor.cpu_s()
        time.sleep(IDLE_S)
        idle = (executor.cpu_s() - before) / IDLE_S * 100
        memory = executor.status("VmRSS") / 1024
        threads = executor.status("Threads")
    report.figure("accepted.run", [1 / item for item in single], "runs/s")
    report.figure("accepted.run_batch", [1 / item for item in batch], "runs/s")
    report.figure("delivered.run_batch", delivered, "runs/s")
    report.figure("cpu.noop_run_in_batch", cpu, "us")
    report.figure("log.lines", log, "lines/s")
    report.figure("idle.cpu_after_10k_jobs", [idle], "%")
    report.figure("idle.threads_after_10k_jobs", [threads], "threads")
    report.figure("idle.memory_after_10k_jobs", [memory], "MiB")
    report.ratio("run_batch_over_run", single, batch, goal=8)


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve_executor(*sys.argv[2:])
        return
    report = Report(__doc__ or "", repeats=5)
    report.parser.add_argument("--runs", type=int, default=10_000, help="runs in batches for each measurement")
    report.parse()
    measure(report, report.args.runs)
    report.finish()


if __name__ == "__main__":
    main()
