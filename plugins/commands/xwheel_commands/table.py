"""Tables that fit a terminal: what matters least is left out, long texts are cut, ids never.

On a pipe all columns stand there, whole, with two blanks between, without colours and signs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import Final, NamedTuple

import typer
from xwheel.cli.output import GAP, RESET, has_colours, has_signs, is_terminal, print_rows, visible

from xwheel_commands.output import local_time

ALWAYS: Final = 9
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


def print_table(columns: Sequence[Column | str], rows: Iterable[Sequence[object]], *, is_wide: bool = False) -> None:
    """Print rows, in as much room as there is.

    Args:
        columns: A name alone is a column that is never left out.
        rows: A value for each column.
        is_wide: Show every column whole, whatever the room.
    """
    from rich.cells import cell_len

    every = [Column(item, ALWAYS) if isinstance(item, str) else item for item in columns]
    chosen = [number for number, column in enumerate(every) if is_wide or not column.is_wide]
    heads = [every[number] for number in chosen]
    titles = [column.title for column in heads]
    lines = [[visible(row[number]) for number in chosen] for row in rows]
    if not is_terminal():
        print_rows(titles, lines)
        return
    signed = {word: f"{sign} {word}" for word, (sign, _) in STATES.items()} if has_signs() else {}
    lines = [
        [signed.get(cell, cell) if head.is_state else cell for cell, head in zip(line, heads, strict=True)]
        for line in lines
    ]
    natural = [max(map(cell_len, texts)) for texts in zip(titles, *lines, strict=True)]
    widths = _fitting(heads, natural, get_terminal_size().columns) if not is_wide else natural
    here = [number for number, width in enumerate(widths) if width]
    colours = {signed.get(word, word): colour for word, (_, colour) in STATES.items()}

    def paint(number: int, text: str) -> str:
        colour = colours.get(text.rstrip(), "") if heads[here[number]].is_state else ""
        return f"{colour}{text}{RESET}" if colour else text

    fitting = [[_cut(line[number], widths[number]) for number in here] for line in (titles, *lines)]
    print_rows(fitting[0], fitting[1:], paint)
    left = [title for title, width in zip(titles, widths, strict=True) if not width]
    if left and lines:
        typer.echo(f"left out: {', '.join(left)}; --wide shows all", err=True)


def marked(word: str) -> str:
    """Return a state with its sign where standard output is a terminal that can show it, in its colour if it may."""
    sign, colour = STATES.get(word, ("", ""))
    if not sign or not has_signs():
        return word
    return f"{colour}{sign} {word}{RESET}" if has_colours() else f"{sign} {word}"


def _fitting(heads: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """Return how wide each column becomes, 0 for those that are left out of this many cells.

    Texts are cut first, the longest first; then the least important column goes, and all others are looked at again.
    What went comes back where there is room in the end.
    """
    here = set(range(len(heads)))
    while True:
        widths = {number: natural[number] for number in here}
        over = sum(widths.values()) + len(GAP) * (len(here) - 1) - room
        least = {number: min(natural[number], heads[number].least) for number in here if heads[number].least}
        while over > 0 and (long := [number for number in least if widths[number] > least[number]]):
            widths[max(long, key=lambda number: widths[number])] -= 1
            over -= 1
        going = [number for number in here if heads[number].keep < ALWAYS]
        if over <= 0 or not going:
            left = room - sum(widths.values()) - len(GAP) * (len(widths) - 1)
            # a narrow column may still fit where a wide one that matters more did not
            for number in sorted(set(range(len(heads))) - here, key=lambda number: (-heads[number].keep, number)):
                if natural[number] + len(GAP) <= left:
                    widths[number] = natural[number]
                    left -= natural[number] + len(GAP)
            return [widths.get(number, 0) for number in range(len(heads))]
        here.remove(min(going, key=lambda number: (heads[number].keep, -number)))


def _cut(text: str, width: int) -> str:
    """Return a text in at most this many cells."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + ("…" if has_signs() else "~")


def moment(moment_ms: int | None) -> str:
    """Return an instant: short on a terminal, ISO 8601 on a pipe; both in the zone of this machine."""
    found = local_time(moment_ms)
    return found[:19].replace("T", " ") if is_terminal() else found
