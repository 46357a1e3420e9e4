"""Print a run's log: all of it, its last lines, what is written from now on, or the lines that hold a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import typer
from xwheel.cli.output import has_colours, print_json
from xwheel.wire.contract import TEXTS_NO_LOG

from xwheel_commands.connection import MAX_PAGE, NodeApi
from xwheel_commands.output import Colours

FOLLOW_S: Final = 1.0


class LogWish(NamedTuple):
    """What is wanted of a log.

    Attributes:
        tail: Only this many last lines; None for all from ``from_line`` on.
        follow: Go on until the run has ended.
        raw: Every byte as it is, also what a terminal obeys.
    """

    from_line: int
    tail: int | None
    follow: bool
    raw: bool


def print_log(node: NodeApi, run: int, wish: LogWish, pause: Callable[[float], None]) -> bool:
    """Print a log; return whether there was none."""
    colours = Colours(keep=has_colours())
    pieces: list[str] = []
    view: dict[str, Any] = {}
    first_line = 0
    for view in _pieces(node, run, wish, pause):
        first_line = first_line or view["from_line"]
        content = view["content"]
        pieces.append(content)
        if content and not node.as_json:
            shown = content if wish.raw else colours.only(content)
            typer.echo(shown, nl=not shown.endswith("\n"), color=True)
    typer.echo(colours.end(), nl=False, color=True)
    if note := view.get("note"):  # a node of an older version has none
        typer.echo(f"xwheel: {note}", err=True)
    if node.as_json:
        print_json(
            {
                "run_id": run,
                "from_line": first_line,
                "next_line": view["next_line"],
                "content": "".join(pieces),
                "is_end": view["is_end"],
            }
        )
    return first_line == 1 and not any(pieces)


def _pieces(node: NodeApi, run: int, wish: LogWish, pause: Callable[[float], None]) -> Iterator[dict[str, Any]]:
    """Yield a log piece by piece; waits for what is not written yet if it is to be followed."""
    asked = {"from_line": wish.from_line} if wish.tail is None else {"tail": wish.tail}
    while True:
        view = node.call("GET", f"/runs/{run}/log", params=asked)
        if view["from_line"] == 1 and view["content"].strip() in TEXTS_NO_LOG:
            view["content"] = ""
        yield view
        is_new = view["content"] and view["next_line"] > view["from_line"]
        if view["is_end"] or not (is_new or wish.follow):
            return
        asked = {"from_line": view["next_line"]}
        if not view["content"]:
            pause(FOLLOW_S)


def search_log(node: NodeApi, run: int, text: str, from_line: int, *, raw: bool) -> bool:
    """Print the lines of a log that hold a text, with their numbers; return whether there are any."""
    colours = Colours(keep=has_colours())
    found: list[dict[str, Any]] = []
    line = from_line
    while True:
        params = {"text": text, "from_line": line, "limit": MAX_PAGE}
        view = node.call("GET", f"/runs/{run}/log/search", params=params)
        found += view["items"]
        if not node.as_json:
            for item in view["items"]:
                shown = item["text"] if raw else colours.only(item["text"])
                typer.echo(f"{item['line']}: {shown}", color=True)
        if view["is_end"] or view["next_line"] <= line:
            break
        line = view["next_line"]
    typer.echo(colours.end(), nl=False, color=True)
    if node.as_json:
        print_json({"run_id": run, "items": found})
    return bool(found)
