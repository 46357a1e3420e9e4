"""Settings come from four places in order, and what is wrong is named."""

from __future__ import annotations

import base64
import hashlib
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.config import BAD_SECRETS, Config, build_config, check_secret, load_config
from xwheel.config.nearest import MEANINGS, nearest
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
        (
            '[executor]\ntoken_file = "a"\n',
            r"^executor\.token_file is not a setting; did you mean access_token_file\?$",
        ),
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
            r"^environment variable XWHEEL_PORT names no setting; known: accounts, alarm, api, audit, .*upkeep$",
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


@pytest.mark.parametrize(
    "secret",
    [
        "1234567890123456",
        "a" * 24,
        "0123456789abcdef",
        "9876543210987654",
        "abcdefghijklmnopqrstuvwxyz",
        "aaaaaaaabbbbbbbbccccccccddddddddeeeeeeeeffffffff",
        "abababababababab",
        "tUr7-tUr7-tUr7-tUr7",
        "default_token_default_token",
        "xxl-job-default_token-1",
        "PasswordPassword123456",
        "qwertyuiopasdfghjkl",
        "qwertyuiopasdfgh",
        "zaq12wsxcde34rfv",
        "correcthorsebatterystaple",
        "The-quick-brown-fox-1",
        "secret-access-token",
    ],
)
def test_s11_weak_secrets_are_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(ConfigError, match="^my secret must not") as caught:
        check_secret("my secret", secret)
    assert secret not in str(caught.value)


@pytest.mark.parametrize(
    "secret",
    [
        "a-token-for-tests-only",
        "token-between-node-and-executors",
        "550e8400-e29b-41d4-a716-446655440000",
        "9f86d081884c7d65",
        "8293740155820936",
        "Zq7_fJ2-xW9sLmT4",
    ],
)
def test_a_good_secret_passes(secret: str) -> None:
    assert check_secret("x", secret) == secret


@given(st.binary(min_size=16, max_size=48))
def test_s11_random_secrets_pass(data: bytes) -> None:
    digest = hashlib.sha256(data).digest()
    for text in (digest.hex(), base64.urlsafe_b64encode(digest).decode(), digest.hex()[:32]):
        assert check_secret("x", text) == text


@pytest.mark.parametrize(
    ("section", "word", "meant"),
    [
        (
            "executor",
            "token_file",
            "access_token_file",
        ),  # its own token, not the one that jobs are synced with
        ("executor", "token", "access_token"),
        ("executor", "Token-File", "access_token_file"),
        ("executor", "sync_tokenfile", "sync_token_file"),
        ("executor", "acces_token_file", "access_token_file"),
        ("executor", "admin_urls", "admin_addresses"),
        ("executor", "data_directory", "data_dir"),
        ("executor", "body_bytes", "max_body_bytes"),
        ("executor", "prot", "port"),
        ("executor", "colour", ""),
        ("database", "dsn", "url"),
        ("database", "passwd", "password"),
        ("schedule", "lease_seconds", "lease_s"),
        ("tls", "certificate_file", "cert_file"),
        ("", "apis", "api"),
    ],
)
def test_a_wrong_name_is_answered_with_what_it_means(section: str, word: str, meant: str) -> None:
    owner = Config if not section else type(getattr(build_config({}), section))
    assert nearest(word, list(owner.model_fields), section) == meant


def test_what_a_word_means_is_a_setting_and_the_word_is_none() -> None:
    for section, words in MEANINGS.items():
        names = set(type(getattr(build_config({}), section)).model_fields)
        assert set(words.values()) <= names
        assert not words.keys() & names


def test_long_numbers_by_chance_are_secrets() -> None:
    """Of forty in a thousand most digits were next to each other on some keyboard, and the node did not start."""
    chance = random.Random(1)
    for _ in range(1000):
        check_secret("x", "".join(chance.choice("0123456789") for _ in range(32)))
