"""Tables that fit a terminal: what matters least is left out, long texts are cut, ids never.

On a pipe all columns stand there, whole, with two blanks between, without colours and signs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import Final, NamedTuple

import typer

from xwheel.cli.output import local_time, visible

GAP: Final = "  "
ALWAYS: Final = 9
CUT: Final = "…"
RESET: Final = "\x1b[0m"
BOLD: Final = "\x1b[1m"
RED, GREEN, YELLOW, BLUE, DIM = (f"\x1b[{code}m" for code in (31, 32, 33, 34, 2))
STATES: Final = {
    "succeeded": ("✔", GREEN),
    "failed": ("✘", RED),
    "timed_out": ("✘", RED),
    "refused": ("✘", RED),
    "lost": ("?", RED),
    "killed": ("✘", YELLOW),
    "skipped": ("○", YELLOW),
    "cancelled": ("○", DIM),
    "planned": ("◷", DIM),
    "dispatching": ("▸", BLUE),
    "running": ("▸", BLUE),
    # of alarms, attempts, loops and switches
    "sent": ("✔", GREEN),
    "ok": ("✔", GREEN),
    "failing": ("✘", RED),
    "dropped": ("✘", RED),
    "started": ("▸", GREEN),
    "stopped": ("○", DIM),
    "done": ("✔", DIM),
    "ended": ("○", DIM),
}
"""Word to its sign and colour: nothing is told by a colour alone."""


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: Its head.
        keep: How long it stays where there is little room, 0 to 9; 9 is never left out.
        least: Cells to which its texts may be cut; 0 if they stay whole.
        is_state: Whether its words get a sign and a colour.
        is_wide: Whether it is shown only where all is asked for.
    """

    title: str
    keep: int = 5
    least: int = 0
    is_state: bool = False
    is_wide: bool = False


def print_table(
    columns: Sequence[Column | str], rows: Iterable[Sequence[object]], *, is_wide: bool = False
) -> None:
    """Print rows, in as much room as there is.

    Args:
        columns: A name alone is a column that is never left out.
        rows: A value for each column.
        is_wide: Show every column whole, whatever the room.
    """
    every = [Column(item, ALWAYS) if isinstance(item, str) else item for item in columns]
    chosen = [number for number, column in enumerate(every) if is_wide or not column.is_wide]
    heads = [every[number] for number in chosen]
    cells = [[visible(row[number]) for number in chosen] for row in rows]
    if is_terminal():
        _print_fitting(heads, cells, get_terminal_size().columns if not is_wide else 0)
    else:
        _print_plain(heads, cells)


def is_terminal() -> bool:
    """Return whether somebody reads along."""
    return sys.stdout.isatty()


def has_colours() -> bool:
    """Return whether standard output may be coloured: a terminal, and neither NO_COLOR nor a dumb one."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def marked(word: str) -> str:
    """Return a state with its sign where standard output is a terminal that can show it, in its colour if it may."""
    sign, colour = STATES.get(word, ("", ""))
    if not sign or not _has_signs():
        return word
    return f"{colour}{sign} {word}{RESET}" if has_colours() else f"{sign} {word}"


def _has_signs() -> bool:
    return is_terminal() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _print_plain(heads: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    from rich.cells import set_cell_size

    widths = _widths(heads, cells)
    for line in [[column.title for column in heads], *cells]:
        typer.echo(GAP.join(map(set_cell_size, line, widths)).rstrip())


def _print_fitting(heads: Sequence[Column], cells: Sequence[Sequence[str]], room: int) -> None:
    """Print to a terminal of this many cells; 0 for any number."""
    has_signs, coloured = _has_signs(), has_colours()
    shown = [
        [
            f"{STATES[cell][0]} {cell}" if heads[number].is_state and has_signs and cell in STATES else cell
            for number, cell in enumerate(row)
        ]
        for row in cells
    ]
    widths = _fitting(heads, _widths(heads, shown), room)
    here = [number for number, width in enumerate(widths) if width]
    cut = CUT if has_signs else "~"
    titles = GAP.join(_fit(heads[number].title, widths[number], cut) for number in here).rstrip()
    typer.echo(f"{BOLD}{titles}{RESET}" if coloured else titles, color=coloured)
    typer.echo(GAP.join(("─" if has_signs else "-") * widths[number] for number in here))
    for raw, row in zip(cells, shown, strict=True):
        line = []
        for number in here:
            text = _fit(row[number], widths[number], cut)
            colour = STATES.get(raw[number], ("", ""))[1] if heads[number].is_state and coloured else ""
            line.append(f"{colour}{text}{RESET}" if colour else text)
        typer.echo(GAP.join(line).rstrip(), color=coloured)
    left = [column.title for number, column in enumerate(heads) if not widths[number]]
    if left and cells:
        typer.echo(f"left out: {', '.join(left)}; --wide shows all", err=True)


def _widths(heads: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [
        max(cell_len(text) for text in (column.title, *(row[number] for row in cells)))
        for number, column in enumerate(heads)
    ]


def _fitting(heads: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """Return how wide each column becomes, 0 for those that are left out.

    Texts are cut first, the longest first; then the least important column goes, and all others are looked at again.
    What went comes back where there is room in the end.
    """
    here = set(range(len(heads)))
    while True:
        widths = {number: natural[number] for number in here}
        over = sum(widths.values()) + len(GAP) * (len(here) - 1) - room
        least = {number: min(natural[number], heads[number].least) for number in here if heads[number].least}
        while room and over > 0 and (long := [number for number in least if widths[number] > least[number]]):
            widths[max(long, key=lambda number: widths[number])] -= 1
            over -= 1
        going = [number for number in here if heads[number].keep < ALWAYS]
        if not room or over <= 0 or not going:
            left = room - sum(widths.values()) - len(GAP) * (len(widths) - 1)
            # a narrow column may still fit where a wide one that matters more did not
            for number in sorted(
                set(range(len(heads))) - here, key=lambda number: (-heads[number].keep, number)
            ):
                if natural[number] + len(GAP) <= left:
                    widths[number] = natural[number]
                    left -= natural[number] + len(GAP)
            return [widths.get(number, 0) for number in range(len(heads))]
        here.remove(min(going, key=lambda number: (heads[number].keep, -number)))


def _fit(text: str, width: int, cut: str) -> str:
    """Return a text in exactly this many cells."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + cut


def moment(moment_ms: int | None) -> str:
    """Return an instant: short on a terminal, ISO 8601 on a pipe; both in the zone of this machine."""
    found = local_time(moment_ms)
    return found[:19].replace("T", " ") if is_terminal() else found
