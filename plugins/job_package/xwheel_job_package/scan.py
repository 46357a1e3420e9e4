"""Find the jobs of a package in its source, without importing it: what is imported runs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from xwheel.cron import parse, zone
from xwheel.plugin import ScheduleError

from xwheel_job_package.archive import AUTHORS, Archive
from xwheel_job_package.bounded import Parser
from xwheel_job_package.report import Call, FoundJob, Kind, PackageError, Problem, ScanReport

_AUTHORS: Final = AUTHORS.decode()
MISFIRES: Final = ("None", "FireAndProceed", "DoNothing", "IgnoreMisfires")
ARGUMENTS: Final = ("cron", "misfire", "time_zone")
DEEPEST: Final = 20
"""Blocks and classes in one another that are read."""

MAX_PROBLEMS: Final = 200
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def scan(archive: Archive, packages: Sequence[str] = (), *, everywhere: bool = False) -> ScanReport:
    """Return the jobs of a package.

    Args:
        archive: The package, checked.
        packages: Names of packages and modules to look in, with all that is in them; as its manifest says if empty.
        everywhere: Look in all of it, whatever the manifest says.
    """
    found, parser = _Found(), Parser()
    wanted = () if everywhere else tuple(packages) or archive.info.packages_to_scan
    for module, path in sorted(modules_of(archive).items()):
        if wanted and not any(module == name or module.startswith(f"{name}.") for name in wanted):
            continue
        try:
            tree = parser.parse(archive.texts[path])
        except PackageError as error:
            found.add(error.reason, str(error), path, 0)
        except SyntaxError as error:
            found.add("syntax_error", error.msg, path, error.lineno or 0)
        except (ValueError, RecursionError, MemoryError) as error:
            found.add("syntax_error", f"cannot be read: {type(error).__name__}: {error}"[:200], path, 0)
        else:
            _Module(found, module, path, tree).read()
    counts = Counter((job.group, job.name) for job in found.jobs)
    for job in found.jobs:
        if counts[job.group, job.name] > 1:
            found.add("duplicate_job", f"{job.group}.{job.name} is there more than once", job.file, job.line)
    jobs = sorted(found.jobs, key=lambda job: (job.group, job.name, job.line))
    return ScanReport(jobs=jobs, disabled=found.disabled, problems=found.problems)


def modules_of(archive: Archive) -> dict[str, str]:
    """Return the modules of a package that may have jobs: dotted name to path in the archive."""
    found = {}
    for path in archive.texts:
        if not path.endswith(".py"):
            continue
        parts = _installed(path, archive.info.kind)
        if parts[-1:] == ["__init__"]:
            parts.pop()
        if parts and all(part.isidentifier() for part in parts):
            found[".".join(parts)] = path
    return found


def _installed(path: str, kind: Kind) -> list[str]:
    """Return where a module is after the installation, without its ending."""
    parts = path.removesuffix(".py").split("/")
    if kind == "wheel" and parts[0].endswith(".data"):
        return parts[2:] if parts[1:2] in (["purelib"], ["platlib"]) else []
    if kind == "sdist":
        parts = parts[1:]
        return parts[1:] if parts[:1] == ["src"] else [] if parts == ["setup"] else parts
    return parts


@dataclass(slots=True)
class _Found:
    jobs: list[FoundJob] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    disabled: int = 0

    def add(self, reason: str, text: str, path: str, line: int) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(reason=reason, text=text, file=path, line=line))


class _Module:
    """One module: under which names it knows the decorators, and what they mark."""

    def __init__(self, found: _Found, name: str, path: str, tree: ast.Module) -> None:
        self._found, self._name, self._path, self._tree = found, name, path, tree
        self._known: dict[str, str] = {}

    def read(self) -> None:
        """Note the jobs and problems of the module."""
        for node in _statements(self._tree.body):
            self._learn(node)
        if self._known:
            self._read_block(self._tree.body, ())

    def _learn(self, node: ast.stmt) -> None:
        """Note under which names an import makes the decorators known."""
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.name == _AUTHORS:
                    for name in ("schedule", "disabled"):
                        self._known[f"{item.asname or _AUTHORS}.{name}"] = name
        elif isinstance(node, ast.ImportFrom) and node.module == _AUTHORS and not node.level:
            for item in node.names:
                if item.name == "*":
                    self._known |= {"schedule": "schedule", "disabled": "disabled"}
                elif item.name in ("schedule", "disabled"):
                    self._known[item.asname or item.name] = item.name

    def _read_block(self, body: Sequence[ast.stmt], classes: tuple[ast.ClassDef, ...]) -> None:
        for node in _statements(body):
            if isinstance(node, ast.ClassDef) and len(classes) < DEEPEST:
                self._read_block(node.body, (*classes, node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read_function(node, classes)

    def _marks(self, decorators: Sequence[ast.expr]) -> Iterator[tuple[str, ast.expr]]:
        """Give the decorators of ours, with what they are here."""
        for item in decorators:
            known = self._known.get(_dotted(item.func if isinstance(item, ast.Call) else item))
            if known is not None:
                yield known, item

    def _read_function(self, node: _Function, classes: tuple[ast.ClassDef, ...]) -> None:
        marks = list(self._marks(node.decorator_list))
        scheduled = [item for name, item in marks if name == "schedule"]
        if not scheduled:
            return
        owners = [mark for owner in classes for mark in self._marks(owner.decorator_list)]
        if any(name == "disabled" for name, _ in [*marks, *owners]):
            self._found.disabled += 1
            return
        what = ".".join([self._name, *(item.name for item in classes), node.name])
        if len(scheduled) > 1 or not isinstance(scheduled[0], ast.Call):
            self._found.add(
                "bad_decorator", f"{what}: @schedule(...) is written once, with brackets", self._path, node.lineno
            )
            return
        call = _call_of(node, is_method=bool(classes))
        required = _required(node, skip=call in ("method", "class") or (call == "async" and bool(classes)))
        if required is None or len(required) > 1:
            text = f"{what} must take no argument, or one: the parameters of the run"
            self._found.add("bad_signature", text, self._path, node.lineno)
            return
        job = FoundJob(
            group=what.rpartition(".")[0],
            name=node.name,
            call=call,
            takes_parameter=bool(required),
            file=self._path,
            line=node.lineno,
        )
        self._found.jobs.append(self._with_arguments(job, scheduled[0]))

    def _with_arguments(self, job: FoundJob, call: ast.Call) -> FoundJob:
        """Return a job with what the decorator says of it; what is wrong is noted."""
        given: dict[str, ast.expr | None] = dict(zip(ARGUMENTS, call.args[:1], strict=False))
        for item in call.keywords:
            given |= {item.arg: item.value} if item.arg else dict.fromkeys(ARGUMENTS)
        if unknown := sorted(given.keys() - set(ARGUMENTS)) or ["a second value"] * (len(call.args) > 1):
            text = f"{job.group}.{job.name}: @schedule does not take {unknown[0]}; it takes {', '.join(ARGUMENTS)}"
            self._found.add("bad_decorator", text, job.file, job.line)
            return job
        values: dict[str, str] = {}
        unresolved = []
        for name, value in given.items():
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                values[name] = value.value
            else:
                unresolved.append(name)
        return with_values(job, values, self._found.problems, unresolved)


def with_values(
    job: FoundJob, values: Mapping[str, str], problems: list[Problem], unresolved: Sequence[str] = ()
) -> FoundJob:
    """Return a job with values of its decorator, and add to ``problems`` what is wrong with them."""
    for name, reason in _wrong(values):
        if len(problems) < MAX_PROBLEMS:
            text = f"{job.group}.{job.name}: {name} {values[name][:200]!a}: {reason}"
            kind = "bad_cron" if name == "cron" else "bad_decorator"
            problems.append(Problem(reason=kind, text=text, file=job.file, line=job.line))
    return replace(
        job,
        cron=values.get("cron", ""),
        misfire=values.get("misfire", "") or "None",
        time_zone=values.get("time_zone", ""),
        unresolved=tuple(sorted(unresolved)),
    )


def _wrong(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Give which values cannot be used, and why."""
    if (misfire := values.get("misfire")) and misfire not in MISFIRES:
        yield "misfire", f"must be one of {', '.join(MISFIRES)}"
    is_zone = True
    if time_zone := values.get("time_zone"):
        try:
            zone(time_zone)
        except ScheduleError as error:
            is_zone = False
            yield "time_zone", str(error)
    if cron := values.get("cron"):
        try:
            parse(cron, "quartz", time_zone if time_zone and is_zone else "UTC")
        except ScheduleError as error:
            yield "cron", str(error)


def _statements(body: Sequence[ast.stmt], depth: int = 0) -> Iterator[ast.stmt]:
    """Give statements, and those in blocks that run with them."""
    for node in body:
        yield node
        if depth < DEEPEST and isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With):
            blocks = [node.body, *(getattr(node, name, []) for name in ("orelse", "finalbody"))]
            blocks += [handler.body for handler in getattr(node, "handlers", [])]
            for block in blocks:
                yield from _statements(block, depth + 1)


def _dotted(node: ast.expr) -> str:
    """Return a name, or a name of a module's attribute; empty for all else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _call_of(node: _Function, *, is_method: bool) -> Call:
    names = {_dotted(item) for item in node.decorator_list}
    if is_method and "staticmethod" in names:
        return "static"
    if is_method and "classmethod" in names:
        return "class"
    if isinstance(node, ast.AsyncFunctionDef):
        return "async"
    return "method" if is_method else "function"


def _required(node: _Function, *, skip: bool) -> list[str] | None:
    """Return what has to be given, without the first one if that is the object; None if it cannot be called."""
    arguments = node.args
    named = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
    required = named[: len(named) - len(arguments.defaults)]
    if any(value is None for value in arguments.kw_defaults) or (skip and not (named or arguments.vararg)):
        return None
    return required[1:] if skip else required
