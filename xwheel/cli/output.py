"""How commands print: texts that move no terminal, tables, one JSON document."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import typer

NOTHING: Final = "-"
GAP: Final = "  "
RESET: Final = "\x1b[0m"
BOLD: Final = "\x1b[1m"
UNUSUAL: Final = re.compile(r"[^\n\t\x20-\x7e]")
# controls, what turns the direction of text or cannot be seen, halves of letters, line ends that are none in a file
OBEYED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
JOINERS: Final = "\u200c\u200d"


def print_json(value: object) -> None:
    """Print one document; letters of all scripts stay readable."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(UNUSUAL.sub(lambda found: _json_letter(found[0]), text))


def print_done(as_json: bool, answer: object, sentence: str) -> None:
    """Print an answer as JSON, or a sentence in its place."""
    if as_json:
        print_json(answer)
    else:
        typer.echo(sentence)


def print_rows(
    titles: Sequence[str], rows: Iterable[Sequence[object]], paint: Callable[[int, str], str] = lambda _, text: text
) -> None:
    """Print rows whole, in aligned columns with two blanks between; on a terminal with a line below the titles.

    ``paint`` returns the text of a column in its colour, for a terminal that has colours.
    """
    from rich.cells import cell_len, set_cell_size

    lines = [titles, *([visible(value) for value in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    coloured = has_colours()
    for number, line in enumerate(lines):
        cells = list(map(set_cell_size, line, widths))
        if coloured and number:
            cells = list(map(paint, range(len(cells)), cells))
        text = GAP.join(cells).rstrip()
        typer.echo(f"{BOLD}{text}{RESET}" if coloured and not number else text, color=coloured)
        if is_terminal() and not number:
            typer.echo(GAP.join(("─" if has_signs() else "-") * width for width in widths))


def is_terminal() -> bool:
    """Return whether somebody reads along."""
    return sys.stdout.isatty()


def has_signs() -> bool:
    """Return whether standard output is a terminal that can show more than ASCII."""
    return is_terminal() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def has_colours() -> bool:
    """Return whether standard output may be coloured: a terminal, and neither NO_COLOR nor a dumb one."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def visible(value: object) -> str:
    """Return a value as text that cannot move the cursor or colour the terminal."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(visible, value)) or NOTHING
    text = str(value)
    return "".join([one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text])


def plain(text: str) -> str:
    """Return a text of several lines in which all is visible that a terminal would obey; tabs and line ends stay.

    A carriage return ends the line, so that nothing is written over.
    """
    return UNUSUAL.sub(
        lambda found: found[0].encode("unicode_escape").decode("ascii") if _is_obeyed(found[0]) else found[0],
        text.replace("\r\n", "\n").replace("\r", "\n"),
    )


def _json_letter(letter: str) -> str:
    if not _is_obeyed(letter):
        return letter
    return json.dumps(letter)[1:-1] if letter != "\x7f" else "\\u007f"


def _is_obeyed(letter: str) -> bool:
    return unicodedata.category(letter) in OBEYED and letter not in JOINERS
