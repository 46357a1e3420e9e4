"""Finding U23: one rule says which node or which database a command means, and a person is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from xwheel_commands.connection import DatabaseOrNode
from xwheel_commands.login import _write

from tests.integration.test_cli_apply import Shell, xwheel
from xwheel.cli.connection import Login, Logins

__all__ = ["xwheel"]  # the fixture of the neighbour

NODE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("option", "environment", "has_login", "asks"),
    [
        pytest.param("", "", False, False, id="nothing"),
        pytest.param("", "", True, True, id="a login"),
        pytest.param("", "XWHEEL_URL", False, True, id="a node in the environment"),
        pytest.param("", "XWHEEL_TOKEN_FILE", False, True, id="a token in the environment"),
        pytest.param("", "XWHEEL_CONFIG", True, False, id="settings in the environment, and a login"),
        pytest.param("", "XWHEEL_DATABASE__URL", True, False, id="a database in the environment, and a login"),
        pytest.param("", "XWHEEL_URL XWHEEL_CONFIG", True, True, id="both in the environment"),
        pytest.param("url", "XWHEEL_URL", True, False, id="a database as option"),
        pytest.param("config_path", "XWHEEL_TOKEN", True, False, id="settings as option"),
        pytest.param("node_url", "XWHEEL_CONFIG", False, True, id="a node as option"),
        pytest.param("token_file", "XWHEEL_CONFIG", False, True, id="a token as option"),
    ],
)
def test_u23_the_node_is_that_of_all_commands_and_the_database_is_named_or_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, environment: str, has_login: bool, asks: bool
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("URL", "TOKEN", "TOKEN_FILE", "CONFIG", "DATABASE__URL"):
        monkeypatch.delenv(f"XWHEEL_{name}", raising=False)
    for name in environment.split():
        monkeypatch.setenv(name, "named")
    if has_login:
        _write(Logins(latest=NODE, nodes={NODE: Login(token="t")}))
    place = DatabaseOrNode(**({option: "named"} if option else {}))
    assert (place.node is not None) == asks


def test_u23_a_person_is_told_once_which_node_or_database_is_meant(
    xwheel: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = xwheel.node().base_url
    assert xwheel("group", "list")[2] == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert xwheel("group", "list")[2] == f"node {url}\n"
    assert xwheel("job", "show", "none")[2].startswith(f"node {url}\nxwheel: ")
    assert xwheel("token", "list")[2] == f"node {url}\n"
    database = xwheel.database.removeprefix("sqlite:///")
    assert xwheel("token", "list", "--database", xwheel.database)[2] == f"database {database}\n"
