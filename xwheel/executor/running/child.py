"""The process of a handler, begun by :mod:`xwheel.executor.running.process`: calls it and reports how it went."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from xwheel.clock import SystemClock
from xwheel.errors import ExecutorError, JobKilledError
from xwheel.executor.context import CURRENT, JobContext
from xwheel.executor.handlers import MARK, Handler
from xwheel.executor.logs.run_log import SECOND, second_text
from xwheel.executor.running.execution import describe_error, flush_streams, leave_copy, message_of, traceback_of
from xwheel.executor.running.process import MAX_REPORT, Order
from xwheel.executor.running.supervisor import divide
from xwheel.runtime.signals import hear
from xwheel.wire.codec import cut
from xwheel.wire.contract import FAIL, MAX_MESSAGE, OK

if TYPE_CHECKING:
    from typing_extensions import Buffer

# name under which the parent's main file is loaded, so that its ``__main__`` part does not run again
MAIN: Final = "__xwheel_main__"


class _Output:
    """The run's log; it has a stream of its own, whatever the handler does to ``sys.stdout``."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._stream = _stream_on(1)

    def line(self, text: str) -> None:
        """Write a line with its time."""
        seconds, millis = divmod(self._clock.now_ms(), 1000)
        self.raw(f"{second_text(seconds)}.{millis:03d} {text}\n")

    def raw(self, text: str) -> None:
        """Write text as it is, behind what the handler has printed."""
        flush_streams()
        self._stream.write(text)
        self._stream.flush()


def main(raw: dict[str, Any]) -> None:
    """Do what the parent ordered, report, and end this process."""
    order = msgspec.convert(raw, Order)
    os.set_inheritable(order.report, False)
    divide(_take_control())
    sys.stdout, sys.stderr = _stream_on(1), _stream_on(2)
    output = _Output()
    form = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=form, datefmt=SECOND)
    context = JobContext(order.request, output, order.started_ms)
    CURRENT.set(context)
    _obey_terminate(context)
    code, message = (_call if order.data is None else _become)(order, context, output)
    message = cut(message, MAX_MESSAGE)
    data = msgspec.json.encode((code, message))
    while len(data) > MAX_REPORT:  # control characters take six bytes each
        message = cut(message, len(message) // 2)
        data = msgspec.json.encode((code, message))
    flush_streams()
    status = 1
    with contextlib.suppress(BaseException):  # the handler may have closed the pipe, and its code runs in shutdown()
        os.write(order.report, data)
        status = 0
        logging.shutdown()
    # threads of the handler must not keep the run open after its result
    os._exit(status)


def _call(order: Order, context: JobContext, output: _Output) -> tuple[int, str]:
    handler: Handler | None = None
    pid = os.getpid()
    try:
        found = getattr(_load(order), MARK, None)
        if not isinstance(found, Handler):
            raise LookupError(f"{order.module}.{order.name} is no @job handler in a fresh interpreter")
        handler = found
        if handler.init is not None:
            handler.init()
        value = handler.function(context) if handler.takes_context else handler.function()
        report = OK, message_of(context.result if value is None else value)
    except BaseException as error:
        leave_copy(pid, error)
        output.line(traceback_of(error))
        report = FAIL, describe_error(error)
    leave_copy(pid)
    if handler is not None and handler.destroy is not None:
        try:
            handler.destroy()
        except BaseException as error:
            output.line(f"destroy failed: {describe_error(error)}")
    return report


def _become(order: Order, context: JobContext, output: _Output) -> tuple[int, str]:
    """Become the program that a glue type prepares; return only if that fails."""
    try:
        prepare: Any = _load(order)
        arguments = list(prepare(context, order.data))
        flush_streams()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and programs would inherit that
        os.execvp(arguments[0], arguments)  # noqa: S606 -- no shell, as it must be
    except ExecutorError as error:  # said for people; where it was raised tells them nothing
        output.line(describe_error(error))
        return FAIL, str(error)
    except BaseException as error:
        output.line(traceback_of(error))
        return FAIL, describe_error(error)


def _load(order: Order) -> object:
    found: object = _load_main(order.main) if order.main else importlib.import_module(order.module)
    for part in order.name.split("."):
        found = getattr(found, part)
    return found


def _load_main(path: str) -> object:
    spec = importlib.util.spec_from_file_location(MAIN, path)
    if spec is None or spec.loader is None:
        raise LookupError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MAIN] = module
    spec.loader.exec_module(module)
    return module


def _obey_terminate(context: JobContext) -> None:
    def end(_number: int, _frame: FrameType | None) -> None:
        context.cancel(JobKilledError)
        raise JobKilledError("the executor asks this run to end")

    hear(signal.SIGTERM, end)


def _take_control() -> int:
    """Keep the pipe from the executor for ourselves; the handler's standard input is empty."""
    control = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return control


class _LossyFile(io.FileIO):
    """Standard output whose lines are lost when the disk is full, as they are for handlers on threads."""

    def write(self, data: Buffer, /) -> int:
        """Write what finds room; never fails."""
        with contextlib.suppress(OSError):
            return super().write(data) or 0
        return len(memoryview(data).cast("B"))


def _stream_on(descriptor: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_LossyFile(descriptor, "wb", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", line_buffering=True)
