"""The tables on the page of permissions say what the code says; ``python -m`` this module writes them there."""

from __future__ import annotations

from collections.abc import Sequence

from tests.product.openapi.test_document import OPERATIONS
from tests.support.paths import DOCS
from xwheel.model.access import Grant, Permission, Role
from xwheel.plugin.resources import Need, Of

PAGE = DOCS / "reference" / "permissions.md"


def page() -> str:
    """Return the page with its tables as they must be."""
    text = PAGE.read_text(encoding="utf-8")
    for table in (roles(), routes()):
        text = with_table(text, table)
    return text


def with_table(text: str, table: Sequence[str]) -> str:
    """Return a text in which a table stands in place of the one with the same head."""
    before, head, rest = text.partition(table[0] + "\n")
    assert head, table[0]
    _, end, after = rest.partition("\n\n")
    return before + "\n".join(table) + (end + after if end else "\n")


def roles() -> list[str]:
    """Return the table of roles."""
    rows = []
    for role in Role:
        for name, grant in ((str(role), Grant(role)), (f"{role} with `script`", Grant(role, script=True))):
            if not grant.script or grant.allows(Permission.SCRIPT) != Grant(role).allows(Permission.SCRIPT):
                rows.append(row(name, *("yes" if grant.allows(item) else "" for item in Permission)))
    return [row("role", *Permission), f"|{'---|' * (len(Permission) + 1)}", *rows]


def routes() -> list[str]:
    """Return the table of routes."""
    rows = [row(f"`{item.method} {item.path.removeprefix('/api/v1')}`", *words(item.need)) for item in OPERATIONS]
    return [row("route", "permission", "in", "a group's token"), "|---|---|---|---|", *rows]


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def words(need: Need) -> tuple[str, str, str]:
    """Return what a route needs: the permission, where, and whether a group's token does."""
    if need.of is Of.ANYONE:
        return "none, it is public", "", ""
    if need.permission is None:
        return "a session or token", "", ""
    permission = f"{need.permission}, confirmed" if need.makes_credential else str(need.permission)
    return permission, str(need.of), "yes" if need.group_token else ""


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_place_is_explained() -> None:
    explained, _, _ = PAGE.read_text(encoding="utf-8").partition("## Routes")
    for place in {item.need.of for item in OPERATIONS} - {Of.ANYONE, Of.CALLER}:
        assert str(place).partition(",")[0] in explained, place


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
