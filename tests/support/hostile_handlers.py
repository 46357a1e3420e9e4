"""Process handlers that do to their process what they should not, each by the name of its deed."""

from __future__ import annotations

import io
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from xwheel.executor import JobContext, job


class NoTextError(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


def syntax() -> NoReturn:
    raise SyntaxError("bad", ("page.html", 3, 1, b"text"))


def no_text() -> NoReturn:
    raise NoTextError


def copy_returns() -> str:
    pid = os.fork()
    return "from the copy" if pid == 0 else str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def copy_raises() -> str:
    if os.fork() == 0:
        raise ValueError("in the copy")
    return str(os.waitstatus_to_exitcode(os.wait()[1]))


def copy_exits() -> str:
    if os.fork() == 0:
        sys.exit(7)
    return str(os.waitstatus_to_exitcode(os.wait()[1]))


def pool_is_terminated() -> str:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return str(pool.map(abs, [-1]))


def child_is_terminated() -> str:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()
    process.terminate()
    process.join()
    return str(process.exitcode)


def no_output() -> str:
    os.close(1)
    os.close(2)
    print("lost")
    return "ok"


def no_streams() -> str:
    sys.stdout = sys.stderr = sys.stdin = None  # type: ignore[assignment]
    print("lost")
    return "ok"


def wrapped_stream() -> str:
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
    print("printed")
    return "ok"


def detached_stream() -> NoReturn:
    sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding="utf-8")  # type: ignore[attr-defined]
    print("printed")
    raise ValueError("seen")


def closed_streams() -> NoReturn:
    sys.stdout.close()
    sys.stderr.close()
    raise ValueError("unheard")


class Stuck(logging.Handler):
    def flush(self) -> None:
        raise SystemExit(1)


def no_end_of_logging() -> str:
    logging.getLogger().addHandler(Stuck())
    threading.Thread(target=time.sleep, args=(600,)).start()
    return "ok"


def no_signals() -> str:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    return "ok"


def no_folder() -> str:
    place = Path.cwd() / f"gone-{os.getpid()}"
    place.mkdir()
    os.chdir(place)
    place.rmdir()
    return "ok"


def no_files() -> str:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return "ok"


def no_environment() -> str:
    os.environ.clear()
    os.umask(0o777)
    return "ok"


def threads_stay() -> str:
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(600,)).start()
    return "ok"


def no_descriptors() -> str:
    threading.Thread(target=time.sleep, args=(600,)).start()
    os.closerange(3, 1024)
    return "lost"


DEEDS: dict[str, tuple[Callable[[], Any], int, str]] = {
    "a syntax error of bytes": (syntax, 500, "SyntaxError: bad (page.html, line 3)"),
    "an error without text": (no_text, 500, "NoTextError (its text cannot be shown)"),
    "a copy that returns": (copy_returns, 200, "0"),
    "a copy that raises": (copy_raises, 200, "1"),
    "a copy that exits": (copy_exits, 200, "7"),
    "a pool in a block": (pool_is_terminated, 200, "[1]"),
    "a child that is terminated": (child_is_terminated, 200, "-15"),
    "no output": (no_output, 200, "ok"),
    "no streams": (no_streams, 200, "ok"),
    "a wrapped stream": (wrapped_stream, 200, "ok"),
    "a detached stream": (detached_stream, 500, "ValueError: seen"),
    "closed streams": (closed_streams, 500, "ValueError: unheard"),
    "logging without an end": (no_end_of_logging, 200, "ok"),
    "no signals": (no_signals, 200, "ok"),
    "no folder": (no_folder, 200, "ok"),
    "no more files": (no_files, 200, "ok"),
    "no environment": (no_environment, 200, "ok"),
    "threads that stay": (threads_stay, 200, "ok"),
    "no descriptors": (no_descriptors, 500, "the handler's process ended with status 1 and without a result"),
}
"""By name: what is done, and the code and message of the outcome."""


@job("process", process=True)
def on_process(ctx: JobContext) -> Any:
    return DEEDS[ctx.param][0]()
