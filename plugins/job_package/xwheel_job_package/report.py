"""What is said of a package: its name, what was found in it, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from xwheel import XwheelError

Kind = Literal["wheel", "zip", "sdist"]
Call = Literal["function", "method", "static", "class", "async"]
Container = Literal["Common", "Container"]


class PackageError(XwheelError):
    """A package is refused; nothing of it is kept.

    Attributes:
        reason: A stable word for programs, such as ``bad_archive``.
        text: What is wrong, what is allowed, and the way out.
        file: Where: path in the package; empty for the package as a whole.
        line: Line in that file, from 1; 0 for none.
        problems: All that is wrong, where several things are.
    """

    def __init__(
        self, reason: str, text: str, *, file: str = "", line: int = 0, problems: Sequence[Problem] = ()
    ) -> None:
        place = f"{file}:{line}: " if line else f"{file}: " if file else ""
        super().__init__(f"{reason}: {place}{text}")
        self.reason, self.text, self.file, self.line = reason, text, file, line
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that keeps one job, or the package, from working.

    Attributes:
        reason: A stable word, as of :class:`PackageError`.
        text: What is wrong.
        file: Path in the package.
        line: From 1; 0 for none.
    """

    reason: str
    text: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A function of a package that is marked as a job.

    Attributes:
        group: Module, or module and class.
        name: Name of the function.
        call: What kind of thing is called.
        takes_parameter: Whether it is given the run's parameters.
        cron: When it runs, of Quartz's kind; empty for by hand only.
        misfire: What becomes of missed fires: ``None``, ``FireAndProceed``, ``DoNothing`` or ``IgnoreMisfires``.
        time_zone: Of the cron; empty for the scheduler's.
        unresolved: Arguments of the decorator that only an import knows.
        file: Path in the package.
        line: Of the function, from 1.
    """

    group: str
    name: str
    call: Call = "function"
    takes_parameter: bool = False
    cron: str = ""
    misfire: str = "None"
    time_zone: str = ""
    unresolved: tuple[str, ...] = ()
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """What was found in a package.

    Attributes:
        jobs: By group and name.
        disabled: How many marked functions are disabled.
        problems: Why others are no jobs.
        confirmed: Whether an import has found the same.
        unconfirmed: Why not, if one was to; empty if none was.
    """

    jobs: Sequence[FoundJob] = ()
    disabled: int = 0
    problems: Sequence[Problem] = ()
    confirmed: bool = False
    unconfirmed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInfo:
    """What an archive says of itself.

    Attributes:
        project: Normalised name.
        version: In its shortest spelling.
        kind: What the archive is.
        file: Its name in the store, made of what was checked.
        container: ``Container`` if the package brings a bean factory.
        factory: That bean factory, ``module:object``; empty for none.
        packages_to_scan: What its manifest says; empty for all.
        dependencies: Requirements.
        members: How many files it holds.
        unpacked_bytes: Their size.
        extra: Other facts for people, such as the summary.
    """

    project: str
    version: str
    kind: Kind
    file: str
    container: Container = "Common"
    factory: str = ""
    packages_to_scan: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    members: int = 0
    unpacked_bytes: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
