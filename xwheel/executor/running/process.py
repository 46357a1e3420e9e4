"""Runs a handler in a process of its own, with chosen environment variables; whatever it started ends with it.

The child gets its work as one JSON line on standard input and divides: one process calls the handler, the other
one supervises it (:mod:`xwheel.executor.running.supervisor`) and keeps that pipe. A byte in the pipe, or its
end when the executor dies, even by ``kill -9``, makes it kill everything. Standard output and error are the
run's log file; those of a program, which the process may become, are a pipe that is copied there while it runs.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from xwheel.clock import Clock
from xwheel.config import ENV_PREFIX
from xwheel.executor.context import JobContext
from xwheel.executor.logs.run_log import RunLog
from xwheel.executor.running.execution import Execution
from xwheel.wire.contract import FAIL, OK
from xwheel.wire.messages import CallbackItem, TriggerRequest

logger = logging.getLogger(__name__)

MAX_REPORT: Final = 64 * 1024  # what fits a pipe, so that the child can write its report before anybody reads
# rounds of a kill after which the supervisor is not trusted any more and its group is killed from here
LAST_ROUND: Final = 5
# what programs get of the executor's environment
PASSED: Final = (
    "HOME", "LANG", "LANGUAGE", "LC_*", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"
)  # fmt: skip
CHUNK: Final = 64 * 1024
# chunks read after the supervisor's end: a pipe holds less, so more would come from a process that escaped
LAST_CHUNKS: Final = 64
LAST_LINES: Final = 5
LAST_CHARS: Final = 1000  # what is kept of the end of an output
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

BOOT: Final = (
    "import sys, json; order = json.loads(sys.stdin.buffer.readline()); sys.path[:] = order['path'];"
    " from xwheel.executor.running.child import main; main(order)"
)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is told."""

    path: list[str]  # the parent's sys.path
    module: str
    name: str
    main: str  # file of the parent's __main__, if the handler lives there
    request: TriggerRequest
    started_ms: int
    report: int  # descriptor that takes the report
    data: dict[str, Any] | None = None  # what prepares a program is handed; None if it is the handler itself


def run_in_process(
    execution: Execution, context: JobContext, log: RunLog, clock: Clock, passed: Sequence[str] = ()
) -> CallbackItem:
    """Run a process handler, wait for its end and return its outcome.

    Whatever the handler left running is killed. A program gets the variables ``passed`` of our environment besides
    :data:`PASSED`; ``*`` ends the beginning of a name.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        try:
            child = _spawn(execution, context, log, write_end, passed)
        finally:
            os.close(write_end)
        with child:
            status, end = _wait(execution, child, log, read_end)
        report = _read_report(read_end)
    except (OSError, subprocess.SubprocessError) as error:
        return execution.failed(error, clock.now_ms())
    finally:
        os.close(read_end)
    if report is None:
        is_program = execution.handler.command is not None
        report = _judge_exit(status, end) if is_program else (FAIL, _describe_exit(status))
    return execution.outcome(*report, clock.now_ms())


def _spawn(
    execution: Execution, context: JobContext, log: RunLog, write_end: int, passed: Sequence[str]
) -> subprocess.Popen[bytes]:
    function, command = execution.handler.function, execution.handler.command
    module = function.__module__
    main = getattr(sys.modules["__main__"], "__file__", "") if module == "__main__" else ""
    order = Order(
        path=sys.path,
        module=module,
        name=function.__qualname__,
        main=os.path.abspath(main) if main else "",  # noqa: PTH100
        request=execution.request,
        started_ms=context.started_ms,
        report=write_end,
        data=None if command is None else dict(command.data),
    )
    output = log.fileno() if command is None else subprocess.PIPE
    child = subprocess.Popen(  # noqa: S603 -- our own interpreter and a constant program
        [_interpreter(), "-c", BOOT],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output if command is None else subprocess.STDOUT,
        pass_fds=(write_end,),
        start_new_session=True,
        env=_environment(context.trace_parent, None if command is None else (*PASSED, *passed)),
    )
    assert child.stdin is not None  # noqa: S101
    try:
        child.stdin.write(msgspec.json.encode(order) + b"\n")
        child.stdin.flush()
    except BrokenPipeError:
        pass  # it died already; its exit status tells
    return child


def _interpreter() -> str:
    """Return the path of a Python that runs our code; inside uWSGI ``sys.executable`` is uWSGI itself."""
    places = (Path(sys.prefix, "bin", "python3"), Path(sys.base_prefix, "bin", "python3"))
    for path in (Path(sys.executable), *places):
        if path.name.startswith("python") and os.access(path, os.X_OK):
            return str(path)
    return sys.executable


def _wait(execution: Execution, child: subprocess.Popen[bytes], log: RunLog, report: int) -> tuple[int, str]:
    execution.forced_by(partial(_push, child))
    end = "" if child.stdout is None else _copy_output(child.stdout.fileno(), report, log)
    # the zombie keeps its number, so the group cannot be another one while we signal it
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with execution.lock:
        execution.force = None
        _signal_group(child.pid, signal.SIGKILL)  # only a killed supervisor leaves something here
    return child.wait(), end


def _copy_output(source: int, report: int, log: RunLog) -> str:
    """Copy until every writer has closed the pipe, or the supervisor has ended and what it left is read.

    Bytes that are not UTF-8 become replacement characters; what is beyond the log's limit is read and dropped there.
    The supervisor holds the other end of the pipe ``report`` until it ends. Returns the end of what was written,
    :data:`LAST_CHARS` at most.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    os.set_blocking(source, False)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(report, 0)
    left = LAST_CHUNKS
    has_ended = False
    end = ""
    while left:
        if not has_ended:
            has_ended = any(descriptor == report for descriptor, _ in poll.poll())
        try:
            data = os.read(source, CHUNK)
        except BlockingIOError:
            if has_ended:
                break
            continue
        if not data:
            break
        left -= has_ended
        text = decoder.decode(data)
        log.raw(text)
        end = (end + text[-LAST_CHARS:])[-LAST_CHARS:]
    text = decoder.decode(b"", True)
    log.raw(text)
    return (end + text)[-LAST_CHARS:]


def _last_lines(end: str) -> str:
    lines = (_TERMINAL.sub("", line) for line in end.splitlines())
    plain = ("".join(char for char in line if char.isprintable() or char == "\t").strip() for line in lines)
    return " / ".join([line for line in plain if line][-LAST_LINES:])


def _push(child: subprocess.Popen[bytes], round_number: int) -> None:
    if round_number == 0:
        _signal_group(child.pid, signal.SIGTERM)
    elif round_number < LAST_ROUND and child.stdin is not None:
        with contextlib.suppress(OSError):
            os.write(child.stdin.fileno(), b"k")
    else:
        _signal_group(child.pid, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _read_report(read_end: int) -> tuple[int, str] | None:
    try:
        return msgspec.json.decode(os.read(read_end, MAX_REPORT), type=tuple[int, str])
    except (BlockingIOError, msgspec.DecodeError):
        return None


def _describe_exit(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"the handler's process was ended by {signal.Signals(-status).name}"
    return f"the handler's process ended with status {status} and without a result"


def _judge_exit(status: int, end: str) -> tuple[int, str]:
    """Return code and message of a program's end, in XXL-JOB's words; one that a signal ended counts from 128.

    The last lines that it wrote follow, on standard output or error: they are one stream, in the order of the log.
    """
    if status == 0:
        return OK, ""
    text = f"script exit value({status if status > 0 else 128 - status}) is failed"
    if status < 0:
        with contextlib.suppress(ValueError):
            text += f" ({signal.Signals(-status).name})"
    said = _last_lines(end)
    return FAIL, f"{text}: {said}" if said else text


def _environment(trace_parent: str, passed: Sequence[str] | None) -> dict[str, str]:
    """Return what a child gets of our environment.

    The application's own handlers get all but xwheel's settings, for which they have no use. Programs get what is
    named: everyone who may edit jobs may write a script, and the application's environment is full of secrets.
    """
    if passed is not None:
        kept = plain_environment(passed)
    else:
        kept = {name: os.environ[name] for name in os.environ if not (name.startswith(ENV_PREFIX) and "__" in name)}
    return {**kept, "TRACEPARENT": trace_parent} if trace_parent else kept


def plain_environment(passed: Sequence[str] = PASSED) -> dict[str, str]:
    """Return the variables of this process that a program may have: those of the names, and none of xwheel's."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ENV_PREFIX) and any(fnmatchcase(name, pattern) for pattern in passed)
    }
