"""An executor that knows ``/run`` only, as XXL-JOB's do: it counts a run and reports it, and costs next to nothing.

No journal, no threads, no framework: what is measured is the scheduler. Outcomes go out as XXL-JOB's executors send
them, as an array of what has gathered since the last one. It takes its orders as a JSON object on standard input and
runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.handlers import START, STARTS

YES = b'{"code":200}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(YES), YES)
REGISTER_S = 20
CALLBACKS = 50
"""Outcomes in one request, as many as the Java executor sends."""


class Executor(asyncio.Protocol):
    """One connection from the scheduler."""

    def __init__(self, take: Any) -> None:
        self._take = take
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            if head.startswith(b"post /run "):
                self._take(self._buffer[end + 4 : end + 4 + length])
            self._transport.write(ANSWER)
            self._buffer = self._buffer[end + 4 + length :]


class Reporter:
    """Registers, and sends outcomes.

    Args:
        orders: ``port``, ``token``, ``app_name``, ``count_file``.
        address: Where we listen.
    """

    def __init__(self, orders: dict[str, Any], address: str) -> None:
        self._orders = orders
        self._address = address
        with Path(orders["count_file"]).open("r+b") as file:
            self._count = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
        self._starts = Path(orders["count_file"]).with_name(STARTS).open("ab", buffering=0)
        self._done: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def take(self, body: bytes) -> None:
        """Run something: nothing, but for the note of when it started."""
        run = msgspec.json.decode(body)
        if run["executorHandler"] == "note_start":
            self._starts.write(START.pack(run["logId"], time.time_ns() // 1000))
        self._count[0] += 1
        self._done.put_nowait(
            {"logId": run["logId"], "logDateTim": run["logDateTime"], "handleCode": 200, "handleMsg": ""}
        )

    async def register(self) -> None:
        """Register again and again; a scheduler that stands still is tried again soon."""
        body = {"registryGroup": "EXECUTOR", "registryKey": self._orders["app_name"], "registryValue": self._address}
        while True:
            is_known = False
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._orders["port"])
                is_known = await self._post(reader, writer, "registry", body)
                writer.close()
            await asyncio.sleep(REGISTER_S if is_known else 0.2)

    async def report(self) -> None:
        """Send outcomes over one kept connection; those that no one took are sent again."""
        batch: list[dict[str, Any]] = []
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._orders["port"])
                while True:
                    if not batch:
                        batch.append(await self._done.get())
                    while len(batch) < CALLBACKS and not self._done.empty():
                        batch.append(self._done.get_nowait())
                    if await self._post(reader, writer, "callback", batch):
                        batch = []
                    else:
                        await asyncio.sleep(0.2)
            await asyncio.sleep(0.2)

    async def _post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: str, body: object) -> bool:
        data = msgspec.json.encode(body)
        head = (
            f"POST /api/{call} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"XXL-JOB-ACCESS-TOKEN: {self._orders['token']}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        said = json.loads(await reader.readexactly(length))
        return bool(said.get("code") == 200)


async def serve(orders: dict[str, Any]) -> None:
    """Listen, register and report until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    reporters: list[Reporter] = []
    server = await loop.create_server(lambda: Executor(reporters[0].take), "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    reporters.append(Reporter(orders, address))
    tasks = [asyncio.create_task(reporters[0].register()), asyncio.create_task(reporters[0].report())]
    await stop.wait()
    for task in tasks:
        task.cancel()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.stdin.readline())))
