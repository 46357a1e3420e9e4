"""The ``script`` block of PEP 723, which says what a Python script needs."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from xwheel.plugin import ExecutorError

MAX_REQUIREMENTS: Final = 100
BLOCK: Final = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")


class Wanted(NamedTuple):
    """What a script needs.

    Attributes:
        requirements: As pip takes them, sorted.
        python: Which versions of Python; empty for any.
    """

    requirements: tuple[str, ...]
    python: str


def read_requirements(source: str) -> Wanted | None:
    """Return what a script needs, or None if it needs nothing but an interpreter.

    Raises:
        ExecutorError: The block is not what PEP 723 says.
    """
    found = [match["content"] for match in BLOCK.finditer(source.replace("\r\n", "\n"))]
    if not found:
        return None
    if len(found) > 1:
        raise ExecutorError("the script has two blocks '# /// script', PEP 723 allows one")
    lines = (line[2:] if line.startswith("# ") else line[1:] for line in found[0].splitlines())
    try:
        table = tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        raise ExecutorError(f"the script's block '# /// script' is not TOML: {error}") from None
    python = _python(table.get("requires-python", ""))
    requirements = _requirements(table.get("dependencies", []))
    return Wanted(requirements, python) if requirements or python else None


def _requirements(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > MAX_REQUIREMENTS:
        raise ExecutorError(f"dependencies: must be a list of at most {MAX_REQUIREMENTS} requirements")
    wanted = []
    for item in given:
        try:
            wanted.append(str(Requirement(item)))
        except (InvalidRequirement, TypeError, AttributeError):
            raise ExecutorError(
                f"dependencies: {str(item)[:100]!r} is no requirement such as 'requests==2.32.3'"
            ) from None
    return tuple(sorted(set(wanted)))


def _python(given: Any) -> str:
    try:
        return str(SpecifierSet(given)) if given else ""
    except (InvalidSpecifier, TypeError, AttributeError):
        raise ExecutorError(f"requires-python: {str(given)[:100]!r} is no range such as '>=3.11'") from None
