"""The suites for tables, routes, group calls and commands; each raises ``AssertionError`` with what does not hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from xwheel.errors import PluginError, SchemaError
from xwheel.plugin.contracts import Commands
from xwheel.plugin.group_calls import GroupCall, GroupCalls, GroupReply, read_group_calls
from xwheel.plugin.hookspecs import check_object
from xwheel.plugin.routes import Route, Routes, read_routes
from xwheel.plugin.tables import KnownTables, Tables


def check_tables(tables: Tables, url: str | None = None) -> None:
    """Check a set of tables: its migrations make what it names, and each may be begun again.

    Args:
        tables: The plugin's object.
        url: An empty database of a server, to try them there; a file of SQLite without.
    """
    _check_form(Tables, tables)
    _require(
        [one.name for one in tables.migrations()] == [one.name for one in tables.migrations()],
        "migrations() returns others when it is asked again",
    )
    with tempfile.TemporaryDirectory() as folder:
        _try_tables(KnownTables(tables), tables, url or f"sqlite:///{Path(folder) / 'tables.db'}")


def _try_tables(known: KnownTables, tables: Tables, url: str) -> None:
    from sqlalchemy import delete
    from xwheel.storage.database.engine import Database
    from xwheel.storage.schema import migrate, plugin_tables
    from xwheel.storage.schema.tables import plugin_migration

    item = {tables.name: tables}
    with closing(Database(url)) as db:
        try:
            migrate.upgrade(db)
            done = plugin_tables.upgrade(db, item)
            _require(done == {tables.name: [one.name for one in known.migrations]}, "the database was not empty")
            plugin_tables.check(db, item)
            last = known.migrations[-1]
            # as on MariaDB, which keeps what a migration did before it failed
            mine = plugin_migration.c
            with db.write() as conn:
                conn.execute(delete(plugin_migration).where(mine.plugin == tables.name, mine.name == last.name))
            plugin_tables.upgrade(db, item)
            plugin_tables.check(db, item)
        except SchemaError as error:
            raise AssertionError(str(error)) from error


def check_routes(routes: Routes) -> Sequence[Route]:
    """Check a set of routes: each says who may call it, and none is made with I/O; return them.

    What they answer is for tests with a node: ``NodeSite(folder, plugin)`` and its method ``call``.
    """
    _check_form(Routes, routes)
    try:
        return read_routes(routes, _NoSite())
    except PluginError as error:
        raise AssertionError(str(error)) from None


def check_group_calls(calls: GroupCalls) -> Mapping[str, Callable[[GroupCall], GroupReply]]:
    """Check a set of group calls: each has a name that can be called, and none is made with I/O; return them."""
    _check_form(GroupCalls, calls)
    try:
        return read_group_calls(calls, _NoSite())
    except PluginError as error:
        raise AssertionError(str(error)) from None


class _NoSite:
    """What routes and calls are made with where there is no node: to use it then is I/O, which comes too early."""

    def __getattr__(self, name: str) -> Any:
        if name in {"clock", "database", "executors", "jobs"}:
            return _NoSite()
        raise AssertionError(
            f"site.{name} is used too early: routes and calls are made without I/O, and do it when they are called"
        )


def check_commands(commands: Commands) -> None:
    """Check a set of commands: its module is there, has a Typer, and each command says what it does."""
    from typer.main import get_group
    from xwheel.cli.lazy import LazyCommands, load_group
    from xwheel.cli.main import app
    from xwheel.cli.plugin_commands import CommandPlace, place_in_index

    _check_form(Commands, commands)
    *before, name = commands.name.split("/")
    ours: Any = get_group(app)
    for number, word in enumerate(before):
        found = ours.commands.get(word)
        if found is None and (place := place_in_index(before[:number], ours.commands, word)):
            found = LazyCommands(word, place)
        group = getattr(found, "loaded", found)
        _require(hasattr(group, "commands"), f"xwheel has no group of commands 'xwheel {word}'")
        ours = group
    full = " ".join([*before, name])
    _require(name not in ours.commands, f"xwheel itself has 'xwheel {full}': choose another name")
    other = place_in_index(before, ours.commands, name)
    if other is not None and other.module != commands.module:
        raise AssertionError(f"{other.owner} has 'xwheel {full}': choose another name")
    try:
        group = load_group(CommandPlace(commands.module, commands.help, owner=commands.name))
    except PluginError as error:
        raise AssertionError(str(error)) from None
    if commands.is_one:
        _require(name in group.commands, f"{commands.module}.app has no command {name}")
    for name, command in group.commands.items():
        _require(bool(command.help or command.hidden), f"the command {name} does not say what it does")


def _check_form(contract: type[Any], item: object) -> None:
    try:
        check_object(contract, item)
    except PluginError as error:
        raise AssertionError(str(error)) from None


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(words)
