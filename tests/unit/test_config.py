"""Settings come from four places in order, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from xwheel.config import BAD_SECRETS, build_config, check_secret, load_config
from xwheel.errors import ConfigError


def test_later_sources_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "xwheel.toml"
    path.write_text('[api]\nport = 1\nthreads = 2\nhost = "127.0.0.9"\n[executor]\napp_name = "a"\n')
    monkeypatch.setenv("XWHEEL_API__PORT", "3")
    monkeypatch.setenv("XWHEEL_API__THREADS", "4")

    config = load_config(path, {"api": {"port": 5}})

    assert (config.api.port, config.api.threads, config.api.host) == (5, 4, "127.0.0.9")
    assert (config.executor.app_name, config.trigger.fast_pool) == ("a", 200)


def test_the_file_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "xwheel.toml"
    path.write_text("[api]\nport = 7\n")
    monkeypatch.setenv("XWHEEL_CONFIG", str(path))
    assert load_config().api.port == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[api]\nprot = 1\n", r"^api\.prot is not a setting; did you mean port\?$"),
        ("[apis]\nport = 1\n", r"^apis is not a setting; did you mean api\?$"),
        ("[api]\nport = 70000\n", r"^api\.port: input should be less than or equal to 65535$"),
        ('[api]\nport = "many"\n', r"^api\.port: input should be a valid integer"),
        ("api = 3\n", r"^api: input should be a valid dictionary or instance of ApiSection$"),
        ("[api\n", "not valid TOML"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "xwheel.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file"):
        load_config(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "XWHEEL_APY__PORT",
            r"^environment variable XWHEEL_APY__PORT names no setting; did you mean api\?$",
        ),
        (
            "XWHEEL_PORT",
            r"^environment variable XWHEEL_PORT names no setting; known: alarm, api, database, .*upkeep$",
        ),
        ("XWHEEL_API__PRT", r"^api\.prt is not a setting; did you mean port\?$"),
    ],
)
def test_mistakes_in_the_environment_are_named(
    monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match=words):
        load_config()


def test_settings_are_frozen_and_hide_secrets() -> None:
    config = build_config({"api": {"executor_token": "s3cret-s3cret-s3cret"}})
    with pytest.raises(ValueError, match="frozen"):
        config.api.port = 1
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    "secret",
    [*sorted(BAD_SECRETS), "", "short", "DEFAULT_TOKEN", "with blank in the middle", "ünïcödé-secret-token"],
)
def test_bad_secrets_are_refused_by_name(secret: str) -> None:
    with pytest.raises(ConfigError, match="^my secret must"):
        check_secret("my secret", secret)


def test_a_good_secret_passes() -> None:
    assert check_secret("x", "0123456789abcdef") == "0123456789abcdef"
