"""The kinds of scripts, and the plugin's options: ``[plugins.options.glue_script]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xwheel.plugin import ConfigError

if TYPE_CHECKING:
    from xwheel import Config

PLUGIN: Final = "glue_script"


class Kind(NamedTuple):
    """A kind of script.

    Attributes:
        program: What runs it, found in PATH.
        suffix: How its files end.
    """

    program: str
    suffix: str


KINDS: Final = {
    "GLUE_SHELL": Kind("bash", ".sh"),
    "GLUE_PYTHON": Kind("python3", ".py"),
    "GLUE_PYTHON2": Kind("python2", ".py"),
    "GLUE_NODEJS": Kind("node", ".js"),
    "GLUE_PHP": Kind("php", ".php"),
    "GLUE_POWERSHELL": Kind("pwsh", ".ps1"),
}

LIMITS: Final = ("memory_mb", "cpu_s", "file_mb", "open_files", "processes")
MAX_ENVIRONMENTS: Final = 1000
MAX_LIMIT: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The plugin's options.

    Attributes:
        directory: Where scripts and environments are kept.
        interpreters: Glue type to the program that runs it, by name or path; what is missing has its usual one.
        limits: Limits of a script's processes, of those in :data:`LIMITS`; what is missing is unlimited.
        run_as: Name of the account that scripts get; empty for the executor's own. Only root may change it.
        environments: How many environments with pinned requirements are kept.
        pip_args: Further arguments of ``pip install``, such as ``--index-url``.
    """

    directory: str
    interpreters: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    run_as: str = ""
    environments: int = 20
    pip_args: tuple[str, ...] = ()


def read_options(config: Config) -> Options:
    """Return the options, checked.

    Raises:
        ConfigError: One is not known or not acceptable; the message names it.
    """
    given: Mapping[str, Any] = config.plugins.options.get(PLUGIN, {})
    known = set(Options.__dataclass_fields__)
    for name in given:
        if name not in known:
            raise _refused(name, f"is not known; known: {', '.join(sorted(known))}")
    directory = given.get("directory", "")
    if not isinstance(directory, str):
        raise _refused("directory", "must be a path")
    run_as = given.get("run_as", "")
    if not isinstance(run_as, str):
        raise _refused("run_as", "must be the name of an account")
    pip_args = given.get("pip_args", [])
    if not isinstance(pip_args, list) or not all(isinstance(item, str) for item in pip_args):
        raise _refused("pip_args", "must be a list of texts")
    return Options(
        directory=str(Path(directory or config.executor.data_dir).absolute()),
        interpreters=_interpreters(given.get("interpreters", {})),
        limits=_limits(given.get("limits", {})),
        run_as=run_as,
        environments=_number("environments", given.get("environments", 20), MAX_ENVIRONMENTS),
        pip_args=tuple(pip_args),
    )


def _interpreters(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise _refused("interpreters", "must be a table of glue types and programs")
    for name, program in given.items():
        if name not in KINDS:
            raise _refused(f"interpreters.{name}", f"is no script type; known: {', '.join(KINDS)}")
        if not isinstance(program, str) or not program.strip():
            raise _refused(f"interpreters.{name}", "must be a program's name or path, without arguments")
    return dict(given)


def _limits(given: Any) -> dict[str, int]:
    if not isinstance(given, dict):
        raise _refused("limits", "must be a table of limits and numbers")
    for name in given:
        if name not in LIMITS:
            raise _refused(f"limits.{name}", f"is no limit; known: {', '.join(LIMITS)}")
    return {name: _number(f"limits.{name}", value, MAX_LIMIT) for name, value in given.items()}


def _number(name: str, value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise _refused(name, f"must be a whole number from 1 to {most}")
    return value


def _refused(name: str, reason: str) -> ConfigError:
    return ConfigError(f"plugins.options.{PLUGIN}.{name} {reason}")
