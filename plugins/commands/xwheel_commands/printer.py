"""How commands print what they found: a table for people, aligned text for pipes, one JSON document for machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer
from xwheel.cli.output import print_done, print_json

from xwheel_commands.output import print_fields, shown
from xwheel_commands.table import Column, print_table


class Printer:
    """Prints what a command found or did, for people or as one JSON document.

    Args:
        as_json: Which of them.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def tell_place(self, place: str) -> None:
        """Tell a person which node or which database a command means, apart from the answer."""
        if sys.stderr.isatty():
            typer.echo(place, err=True)

    def print_list(
        self,
        items: Iterable[dict[str, Any]],
        columns: Sequence[Column | str],
        row: Callable[[dict[str, Any]], Sequence[object]],
        *,
        is_wide: bool = False,
    ) -> None:
        """Print a list: as JSON, or a table with a row for each item."""
        if self.as_json:
            print_json(list(items))
        else:
            print_table(columns, map(row, items), is_wide=is_wide)

    def print_item(self, item: dict[str, Any]) -> None:
        """Print an object, a field a line unless as JSON."""
        if self.as_json:
            print_json(item)
        else:
            print_fields(shown(item))

    def print_saved(self, done: str, item: dict[str, Any]) -> None:
        """Print what was done to an object that has a name and a revision."""
        if self.as_json:
            print_json(item)
        else:
            print_fields([(done, f"{item['name']} ({item['id']}), revision {item['revision']}")])

    def print_done(self, answer: object, sentence: str) -> None:
        """Print an answer as JSON, or a sentence in its place."""
        print_done(self.as_json, answer, sentence)
