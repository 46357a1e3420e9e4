"""The process in which jobs of a package run: one file, run with ``-I`` by the Python of the package's environment.

It imports the standard library alone, next to the package and the author's module ``xwheel_package``. The executor
(:mod:`xwheel_job_package.workers`) hands it the descriptor of a socket, on which messages are JSON objects behind their
length in four bytes; what it prints is the run's log. It divides first: one process runs jobs, the other one supervises
it and ends with it whatever it started (:mod:`xwheel.executor.running.supervisor`).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import json
import logging
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final, cast

PROTOCOL: Final = 1
"""What this file and the author's module say to each other; a module of another number is refused."""

SDK: Final = "xwheel_package"
FACTORIES: Final = "xwheel.bean_factory"
MARK: Final = "__xwheel_schedule__"
"""Attribute of functions that ``@schedule`` marked."""

MAX_WRAPPERS: Final = 50
PR_SET_CHILD_SUBREAPER: Final = 36
MAX_MESSAGE: Final = 16 * 1024 * 1024
MAX_TEXT: Final = 32_768
"""Characters of a result or an error that are told; the executor cuts them further."""

MAX_VALUE: Final = 500
"""Characters of a mark's value."""

LEFTOVERS_S: Final = 5.0
LIMITS: Final = {
    "memory_mb": (resource.RLIMIT_AS, 1024 * 1024),
    "file_mb": (resource.RLIMIT_FSIZE, 1024 * 1024),
    "open_files": (resource.RLIMIT_NOFILE, 1),
    "processes": (resource.RLIMIT_NPROC, 1),
    "cpu_s": (resource.RLIMIT_CPU, 1),
}


class JobCallError(Exception):
    """A run cannot be called; ``reason`` is a stable word for programs."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class RunEnded(BaseException):
    """The executor asks the run to end; not an Exception, so that a handler's ``except Exception`` does not stop it."""


class Channel:
    """Messages from and to the executor."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        data = json.dumps(message).encode()
        self._socket.sendall(struct.pack(">I", len(data)) + data)

    def receive(self) -> dict[str, Any] | None:
        """Return the next message; None if there will be none."""
        head = self._read(4)
        body = self._read(struct.unpack(">I", head)[0]) if head else b""
        return cast("dict[str, Any]", json.loads(body)) if body else None

    def _read(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            data = self._socket.recv(size - len(parts))
            if not data:
                return b""
            parts += data
        return parts


class Beans:
    """The objects whose methods are jobs.

    Args:
        factory: Where the package's container is, as ``module:name``; empty if it has none.
        fallback: Whether a bare object takes the place of one that the container does not give.
    """

    def __init__(self, factory: str, fallback: bool) -> None:
        self._place = factory
        self._fallback = fallback
        self._factory: Any = None
        self._bare: dict[type, object] = {}

    def get(self, wanted: type, container: str) -> object:
        """Return the object of a class: from the container, or without one the worker's own.

        Raises:
            JobCallError: ``bean_failed``; the cause is what the constructor or the container raised.
        """
        if container != "Container":
            return self._bare_one(wanted)
        try:
            found = self._container()(wanted)
            if found is None:
                raise JobCallError("bean_failed", f"the bean factory {self._place} gave None for {_name(wanted)}")
        except Exception as error:
            if self._fallback:
                print(f"the bean factory failed ({_describe(error)}); a bare object is used, as bean_fallback says")
                return self._bare_one(wanted)
            if isinstance(error, JobCallError):
                raise
            text = f"the bean factory {self._place} failed for {_name(wanted)}: {_describe(error)}"
            raise JobCallError("bean_failed", text) from error
        return found

    def handler(self, name: str, container: str) -> Callable[..., object] | None:
        """Return what the container itself calls by a name; None if it names no handlers, or not this one."""
        if container != "Container":
            return None
        try:
            find = getattr(self._container(), "handler", None)
            return None if find is None else cast("Callable[..., object] | None", find(name))
        except JobCallError:
            raise
        except Exception as error:
            text = f"the bean factory {self._place} failed for handler {name!r}: {_describe(error)}"
            raise JobCallError("bean_failed", text) from error

    def _container(self) -> Any:
        if self._factory is None:
            if not self._place:
                raise JobCallError("bean_failed", f"the package names no bean factory (entry point {FACTORIES})")
            module, _, path = self._place.partition(":")
            found: Any = importlib.import_module(module)
            for part in filter(None, path.split(".")):
                found = getattr(found, part)
            self._factory = found() if isinstance(found, type) else found
        return self._factory

    def _bare_one(self, wanted: type) -> object:
        if wanted not in self._bare:
            try:
                self._bare[wanted] = wanted()
            except Exception as error:
                text = f"{_name(wanted)} cannot be made: {_describe(error)}"
                raise JobCallError("bean_failed", text) from error
        return self._bare[wanted]


class Runner:
    """Runs jobs, one after the other."""

    def __init__(self, channel: Channel, order: dict[str, Any], descendants: Callable[[int], list[int]]) -> None:
        self._channel = channel
        self._descendants = descendants
        self._pid = os.getpid()
        self._is_running = False
        self._beans = Beans(order["factory"], order["fallback"])
        self._sdk: ModuleType | None = None

    def greet(self) -> None:
        """Say which protocol the author's module of this environment speaks."""
        self._sdk = importlib.import_module(SDK)
        found = getattr(self._sdk, "PROTOCOL", 0)
        self._channel.send({"protocol": found if isinstance(found, int) else 0, "file": str(self._sdk.__file__)})

    def serve(self) -> None:
        """Run what comes until nothing more does."""
        self._obey_terminate()
        while (order := self._channel.receive()) is not None:
            answer = self._run(order)
            if os.getpid() != self._pid:  # the handler forked, and this is the child
                _flush()
                os._exit(0 if answer["ok"] else 1)
            self._end_leftovers()
            _flush()
            self._channel.send(answer)
            if not answer["keep"]:
                os._exit(0)

    def _run(self, order: dict[str, Any]) -> dict[str, Any]:
        os.environ.update(order["environment"])
        answer: dict[str, Any] = {"ok": False, "reason": "", "text": "", "keep": True}
        try:
            self._is_running = True
            try:
                value = _confirm(order["confirm"]) if "confirm" in order else self._call(order)
                answer.update(ok=True, text=_shown(value))
            finally:
                self._is_running = False
        except JobCallError as error:
            _show(error.__cause__ or error)
            answer.update(reason=error.reason, text=str(error))
        except RunEnded:
            answer.update(reason="killed", text="the run was asked to end", keep=False)
        except MemoryError as error:
            _show(error)
            answer.update(reason="out_of_memory", text="the run wants more memory than its limit", keep=False)
        except BaseException as error:
            _show(error)
            answer.update(text=_describe(error))
        answer["text"] = answer["text"][:MAX_TEXT]
        return answer

    def _call(self, order: dict[str, Any]) -> object:
        function = self._beans.handler(order["name"], order["container"]) or self._find(order)
        arguments = [self._parameter(order)] if _takes_one(function) else []
        value = function(*arguments)
        if hasattr(value, "__await__"):
            value = self._await(value)
        return value

    def _find(self, order: dict[str, Any]) -> Callable[..., object]:
        """Return what a job calls.

        Raises:
            JobCallError: As of :func:`_marked`; ``bean_failed``.
        """
        holder, raw = _marked(order["job"])
        if isinstance(holder, type) and not isinstance(raw, (staticmethod, classmethod)):
            holder = self._beans.get(holder, order["container"])
        return cast("Callable[..., object]", getattr(holder, order["name"]))

    def _parameter(self, order: dict[str, Any]) -> object:
        merged = {**_object(order["stored"], "job"), **_object(order["param"], "run")}
        return cast(Any, self._sdk).JobParameter(merged)

    def _await(self, value: Any) -> object:
        import asyncio

        async def bounded() -> object:
            task = asyncio.current_task()
            loop = asyncio.get_running_loop()
            if task is not None:
                hear(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(task.cancel))
            return await value

        try:
            return asyncio.run(bounded())
        except asyncio.CancelledError:
            raise RunEnded from None
        finally:
            self._obey_terminate()

    def _obey_terminate(self) -> None:
        def end(_number: int, _frame: FrameType | None) -> None:
            if not self._is_running:
                os._exit(0)
            raise RunEnded

        hear(signal.SIGTERM, end)

    def _end_leftovers(self) -> None:
        """Kill what the run started and left; orphans are children of this process, see :func:`main`."""
        end = time.monotonic() + LEFTOVERS_S
        while _has_children() and time.monotonic() < end:
            for pid in self._descendants(self._pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def hear(number: int, handler: Callable[[int, FrameType | None], object]) -> Any:
    """Let a function hear a signal in this process alone; return what heard it before. For the main thread.

    What a job forks is told to end as any Python process is. ``xwheel.runtime.signals`` has the same for executors; no
    xwheel is installed here.
    """
    _heard_here[number] = handler
    return signal.signal(number, handler)


def _before_fork() -> None:
    # a signal that comes to the copy before _after_fork would be for its parent's handler, and be forgotten
    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})


def _after_fork() -> None:
    for number, handler in _heard_here.items():
        if signal.getsignal(number) == handler:
            signal.signal(number, signal.SIG_DFL)
    _unmask()
    if signal.SIGINT in _heard_here and signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _heard_here.clear()


def _unmask() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


_heard_here: Final[dict[int, Callable[[int, FrameType | None], object]]] = {}
_fork: Final = threading.local()
os.register_at_fork(before=_before_fork, after_in_parent=_unmask, after_in_child=_after_fork)


def main() -> None:
    """Divide, greet, and run jobs until the executor closes the socket."""
    descriptor, supervisor = int(sys.argv[1]), _load(sys.argv[2])
    sys.argv = [SDK]
    supervisor.divide(_take_control())
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    channel = Channel(descriptor)
    order = channel.receive()
    if order is None:
        return
    _limit(order["limits"])
    # last, so that a copy that the package brings is found before; then its protocol is looked at, not ours
    sys.path.append(order["sdk"])
    for stream in (sys.stdout, sys.stderr):
        cast(Any, stream).reconfigure(encoding="utf-8", errors="replace", line_buffering=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    runner = Runner(channel, order, supervisor.descendants)
    runner.greet()
    runner.serve()


def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("_xwheel_supervisor", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _take_control() -> int:
    """Keep the executor's pipe for the supervisor; the standard input of jobs is empty."""
    control = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return control


def _limit(limits: dict[str, int]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, number in limits.items():
        which, unit = LIMITS[name]
        wanted, most = number * unit, resource.getrlimit(which)[1]
        wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(which, (wanted, wanted))


def _marked(job: dict[str, Any]) -> tuple[Any, Any]:
    """Import the module of a job, and return where its function is, and what stands there under its name.

    The executor has found the job in the bytes of the package. Here it is compared with what the import made of it: the
    module is that file, and the function is of it and is marked.

    Raises:
        JobCallError: ``import_failed``, ``no_such_job``, or ``foreign_code``.
    """
    module, name = _open_module(job["module"], job["file"]), job["name"]
    what = ".".join([job["module"], *job["owner"], name])
    holder: Any = module
    for depth, part in enumerate(job["owner"], 1):
        holder = vars(holder).get(part)
        path = ".".join(job["owner"][:depth])
        if not isinstance(holder, type) or (holder.__module__, holder.__qualname__) != (module.__name__, path):
            raise JobCallError(
                "foreign_code", f"{job['module']}.{path} is not the class that the module has by this name"
            )
    raw = vars(holder).get(name)
    if raw is None:
        raise JobCallError("no_such_job", f"{what} is not there once the module is imported")
    found = getattr(raw, "__func__", raw)
    if not callable(found) or _mark_of(raw) is None:
        raise JobCallError(
            "no_such_job",
            f"{what} is not marked once the module is imported: a decorator above @schedule must use functools.wraps",
        )
    innermost: Any = found
    for _ in range(MAX_WRAPPERS):
        innermost = getattr(innermost, "__wrapped__", innermost)
    code = getattr(getattr(innermost, "__func__", innermost), "__code__", None)
    if code is None or not _is_same_file(code.co_filename, job["file"]):
        raise JobCallError("foreign_code", f"{what} is not code of the package's own file {job['file']}")
    return holder, raw


def _mark_of(raw: Any) -> dict[str, Any] | None:
    """Return what ``@schedule`` wrote at a function, below or above ``staticmethod`` and ``classmethod``."""
    for item in (raw, getattr(raw, "__func__", raw)):
        mark = getattr(item, "__dict__", {}).get(MARK)
        if isinstance(mark, dict):
            return mark
    return None


def _open_module(name: str, file: str) -> ModuleType:
    """Import a module, which must be this very file.

    Raises:
        JobCallError: ``import_failed``, ``no_such_job``, or ``foreign_code``.
    """
    try:
        found = importlib.import_module(name)
    except MemoryError:
        raise  # of the run, not of the module
    except Exception as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
        reason = "no_such_job" if is_missing else "import_failed"
        raise JobCallError(reason, f"module {name!r} cannot be imported: {_describe(error)}") from error
    spec = getattr(found, "__spec__", None)
    origin = getattr(spec, "origin", None) or ""
    if found.__name__ != name or not _is_same_file(origin, file):
        raise JobCallError(
            "foreign_code", f"module {name!r} is {origin or 'built in'}, not the package's own file {file}"
        )
    return found


def _is_same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _confirm(wanted: list[dict[str, Any]]) -> list[dict[str, str] | None]:
    """Import modules, and return what the marks of jobs say; None for one that is not there.

    Raises:
        JobCallError: ``import_failed``, or ``foreign_code``.
    """
    found: list[dict[str, str] | None] = []
    for job in wanted:
        try:
            _, raw = _marked(job)
        except JobCallError as error:
            if error.reason != "no_such_job":
                raise
            found.append(None)
            continue
        said = _mark_of(raw) or {}
        found.append({key: str(said[key])[:MAX_VALUE] for key in ("cron", "misfire", "time_zone") if key in said})
    return found


def _takes_one(function: Callable[..., object]) -> bool:
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD) for item in parameters)


def _object(text: str, whose: str) -> dict[str, Any]:
    """Return a parameter as an object.

    Raises:
        JobCallError: ``bad_parameter``.
    """
    if not text.strip():
        return {}
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    raise JobCallError(
        "bad_parameter",
        f'the parameter of the {whose} must be a JSON object such as {{"rows": 10}}, since the job takes a '
        f"JobParameter; it is {text[:100]!r}",
    )


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(Exception):
            cast(Any, stream).flush()


def _show(error: BaseException) -> None:
    """Print a traceback without the frames of this file at its beginning."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # the package's own code runs here
        text = "(its text cannot be shown)"
    name = type(error).__name__
    if isinstance(error, SystemExit):
        text = f"the job called sys.exit({text})"
    return f"{name}: {text}" if text else name


def _shown(value: object) -> str:
    """Return a result as text: strings as they are, JSON where possible, otherwise ``repr``."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except BaseException:
        return repr(value)


def _name(wanted: type) -> str:
    return f"{wanted.__module__}.{wanted.__qualname__}"


if __name__ == "__main__":
    main()
