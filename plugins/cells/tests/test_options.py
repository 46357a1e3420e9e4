"""Options: what is refused at the start, and in which words."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from sites import TOKEN, token_file
from xwheel import Config
from xwheel.plugin import ConfigError
from xwheel_devtools.testing import check_routes
from xwheel_egress import EgressRefusedError

import xwheel_cells
from xwheel_cells.options import Options, policy_of, read_options


def config_of(options: dict[str, Any]) -> Config:
    return Config(plugins={"options": {"cells": options}})  # type: ignore[arg-type]


def read(**cells: Any) -> Options:
    return read_options(config_of({"cell": cells}))


@pytest.fixture
def good(tmp_path: Path) -> dict[str, Any]:
    return {"url": "https://north.example.com", "token_file": token_file(tmp_path)}


def test_without_options_there_is_this_cluster_alone() -> None:
    options = read_options(Config())
    assert (options.name, options.timeout_ms, options.cell) == ("here", 3000, {})


def test_a_cell_has_addresses_and_the_token_of_its_file(good: dict[str, Any]) -> None:
    options = read(north=good, south={**good, "url": ["http://127.0.0.1:8080/", "https://b.example.com:8443/jobs/"]})
    assert options.cell["north"].url == ("https://north.example.com",)
    assert options.cell["south"].url == ("http://127.0.0.1:8080", "https://b.example.com:8443/jobs")
    assert options.cell["north"].secret == TOKEN
    assert TOKEN not in repr(options)


REFUSED = [
    ({"url": ""}, r"cell\.north\.url: .*must begin with http"),
    ({"url": []}, r"cell\.north\.url: .*at least 1"),
    ({"url": [f"https://n{number}.example.com" for number in range(9)]}, r"cell\.north\.url: .*at most 8"),
    ({"url": 8080}, r"cell\.north\.url: must be a list"),
    ({"url": "north.example.com"}, r"cell\.north\.url.*must begin with http:// or https://"),
    ({"url": "ftp://north.example.com"}, r"cell\.north\.url.*must begin with http:// or https://"),
    ({"url": "https://ops:secret@north.example.com"}, r"cell\.north\.url.*user name or password"),
    ({"url": "https://north.example.com?a=b"}, r"cell\.north\.url.*no query"),
    ({"url": "https://north.example.com/#/jobs"}, r"cell\.north\.url.*no fragment"),
    ({"url": "http://0.0.0.0:8080"}, r"cell\.north\.url.*never called"),
    ({"url": "http://0x7f.1:8080"}, r"cell\.north\.url.*four decimal numbers"),
    ({"token_file": None}, r"cell\.north: token or token_file is missing"),
    ({"token": "abc"}, r"cell\.north.*token or token_file, not both"),
    ({"token_file": "/nowhere/token"}, r"cell\.north\.token_file: cannot read /nowhere/token: No such file"),
    ({"token_file": "/"}, r"cell\.north\.token_file: / is no plain file"),
    ({"ca_file": "/nowhere/ca"}, r"cell\.north\.ca_file: there is no file /nowhere/ca"),
    ({"timeout": 3}, r"cell\.north\.timeout is not an option; .*known: ca_file, token, token_file, url"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_what_is_wrong_with_a_cell_is_named(good: dict[str, Any], change: dict[str, Any], words: str) -> None:
    cell = {key: value for key, value in {**good, **change}.items() if value is not None}
    with pytest.raises(ConfigError, match=rf"plugins\.options\.cells\.{words}") as refusal:
        read(north=cell)
    assert TOKEN not in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_token_that_others_may_read_is_refused(good: dict[str, Any], mode: int) -> None:
    Path(good["token_file"]).chmod(mode)
    with pytest.raises(ConfigError, match=r"cell\.north\.token_file: others may read .*: run 'chmod 600 ") as refusal:
        read(north=good)
    assert TOKEN not in str(refusal.value)


def test_an_empty_token_is_refused(tmp_path: Path, good: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"token_file: .* must hold a secret"):
        read(north={**good, "token_file": token_file(tmp_path, "")})


def test_a_token_that_no_header_can_hold_is_refused(tmp_path: Path, good: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"cell\.north: .*one line of visible ASCII") as refusal:
        read(north={**good, "token_file": token_file(tmp_path, f"{TOKEN}\nX-Other: 1")})
    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout_ms": 99}, r"timeout_ms: .*greater than or equal to 100"),
        ({"timeout_ms": 15_001}, r"timeout_ms: .*less than or equal to 15000"),
        ({"timeout_ms": "3000"}, r"timeout_ms: must be a whole number"),
        ({"name": "Here"}, r"name: .*a-z0-9-"),
        ({"name": ""}, r"name: "),
        ({"cells": {}}, r"cells is not an option; did you mean cell\?"),
    ],
)
def test_what_is_wrong_with_the_whole_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=rf"plugins\.options\.cells\.{words}"):
        read_options(config_of(options))


@pytest.mark.parametrize("name", ["North", "north_1", "", "x" * 33, "a b"])
def test_names_are_short_and_plain(good: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.options\.cells\.cell\."):
        read(**{name: good})


def test_no_cell_is_there_twice(good: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"cell\.here are the same: give this node's own cluster another name"):
        read(here=good)
    with pytest.raises(ConfigError, match=r"cell has https://north.example.com twice: each cluster is one cell"):
        read(north=good, south={**good, "url": ["https://b.example.com", "https://NORTH.example.com:443/"]})


def test_there_are_at_most_32_cells(good: dict[str, Any]) -> None:
    cells = {f"c{number}": {**good, "url": f"https://c{number}.example.com"} for number in range(31)}
    assert len(read(**cells).cell) == 31
    with pytest.raises(ConfigError, match=r"cell has 32 tables, and 31 are possible.*leave some out"):
        read(**cells, last=good)


def test_a_token_that_would_travel_as_plain_text_is_a_warning(
    good: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "xwheel_cells"):
        read(north=good, south={**good, "url": "http://127.0.0.1:8080"})
        assert caplog.messages == []
        read(north={**good, "url": "http://10.1.2.3:8080"})
    (words,) = caplog.messages
    assert "cell.north.url: http://10.1.2.3:8080 has no TLS" in words


def test_only_the_origin_that_was_written_may_be_called() -> None:
    policy = policy_of("https://north.example.com:8443/jobs", None)
    assert policy.target("https://north.example.com:8443/api").port == 8443
    others = ["http://north.example.com:8443", "https://north.example.com", "https://south.example.com:8443"]
    literal = policy_of("http://10.1.2.3:8080", None)
    assert literal.target("http://10.1.2.3:8080/api").port == 8080
    for one, url in [
        *((policy, url) for url in others),
        (literal, "http://10.1.2.4:8080"),
        (literal, "http://10.1.2.3"),
    ]:
        with pytest.raises(EgressRefusedError):
            one.target(url)


def test_the_calls_keep_the_contract(good: dict[str, Any]) -> None:
    (found,) = xwheel_cells.xwheel_register_routes(config_of({"cell": {"north": good}}))
    routes = check_routes(found)
    assert {route.method for route in routes} == {"GET"}
    assert {(str(route.permission), route.scope.name) for route in routes} == {("read", "ALL")}
    assert sorted(route.path for route in routes) == [
        "",
        "/executors",
        "/groups",
        "/jobs",
        "/overview",
        "/runs",
        "/search",
    ]
