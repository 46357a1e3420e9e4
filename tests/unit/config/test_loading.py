"""Settings come from four places in order, and what is wrong is named."""

from __future__ import annotations

import base64
import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.config import BAD_SECRETS, Config, build_config, check_secret, load_config
from xwheel.config.loading import all_settings
from xwheel.config.nearest import MEANINGS, nearest
from xwheel.config.sections import Section
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
        ("XWHEEL_APY__PORT", r"^environment variable XWHEEL_APY__PORT names no setting; did you mean api\?$"),
        (
            "XWHEEL_PORT",
            r"^environment variable XWHEEL_PORT names no setting; known: accounts, alarm, api, audit, .*upkeep$",
        ),
        ("XWHEEL_API__PRT", r"^api\.prt is not a setting; did you mean port\?$"),
    ],
)
def test_mistakes_in_the_environment_are_named(monkeypatch: pytest.MonkeyPatch, name: str, words: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match=words):
        load_config()


def test_settings_are_frozen_and_hide_secrets() -> None:
    config = build_config({"api": {"executor_token": "s3cret-s3cret-s3cret"}})
    with pytest.raises(ValueError, match="frozen"):
        config.api.port = 1
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    "secret", [*sorted(BAD_SECRETS), "", "short", "DEFAULT_TOKEN", "with blank in the middle", "ünïcödé-secret-token"]
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
        ("executor", "token_file", "access_token_file"),  # its own token, not the one that jobs are synced with
        ("executor", "token", "access_token"),
        ("executor", "name", "app_name"),
        ("executor", "admin", "admin_addresses"),
        ("executor", "addresses", "admin_addresses"),
        ("executor", "url", "address"),
        ("executor", "glue_types", "allowed_glue_types"),
        ("api", "token", "executor_token"),
        ("database", "uri", "url"),
        ("database", "pool", "pool_size"),
        ("security", "key", "key_file"),
        ("security", "networks", "executor_networks"),
        ("tls", "ca", "ca_file"),
        ("tls", "cert", "cert_file"),
        ("tls", "certificate", "cert_file"),
        ("tls", "key", "key_file"),
        ("log", "time_zone", "timezone"),
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
    owner = all_settings() if not section else type(getattr(build_config({}), section))
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


SHOP = """
from pydantic import Field
from xwheel.config.sections import Section

class ShopSection(Section):
    toys: int = Field(3, ge=1)
"""
PutSection = Callable[..., None]


@pytest.fixture
def put_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PutSection]:
    """Put a distribution with a section of the settings on the path."""

    def put(section: str, distribution: str = "toys", source: str = SHOP) -> None:
        folder = tmp_path / distribution
        info = folder / f"{distribution}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[xwheel.settings]\n{section} = {distribution}:ShopSection\n")
        (folder / f"{distribution}.py").write_text(source)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, distribution, raising=False)
        all_settings.cache_clear()

    yield put
    all_settings.cache_clear()


def test_a_distribution_brings_a_section(
    put_section: PutSection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_section("shop")
    path = tmp_path / "xwheel.toml"
    path.write_text("[shop]\ntoys = 4\n")
    assert load_config(path).section("shop", Section).model_dump() == {"toys": 4}
    assert load_config().section("shop", Section).model_dump() == {"toys": 3}
    monkeypatch.setenv("XWHEEL_SHOP__TOYS", "5")
    config = load_config(path)
    assert config.section("shop", Section).model_dump() == {"toys": 5}
    assert build_config(config.model_dump()) == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[shops]\ntoys = 4\n", r"^shops is not a setting; did you mean shop\?$"),
        ("[shop]\ntoy = 4\n", r"^shop\.toy is not a setting; did you mean toys\?$"),
        ("[shop]\ntoys = 0\n", r"^shop\.toys: input should be greater than or equal to 1$"),
    ],
)
def test_mistakes_in_a_section_of_a_distribution_are_named(
    put_section: PutSection, tmp_path: Path, text: str, words: str
) -> None:
    put_section("shop")
    path = tmp_path / "xwheel.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config(path)


NESTED = """
from pydantic import BaseModel
from xwheel.config.sections import Section

class Rule(BaseModel, extra="forbid"):
    most: int = 1

class ShopSection(Section):
    rules: list[Rule] = []
    one: Rule | None = None
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[shop.rules]]\nmots = 4\n", r"^shop\.rules\.0\.mots is not a setting"),
        ("[shop.one]\nmots = 4\n", r"^shop\.one\.mots is not a setting"),
    ],
)
def test_mistakes_deep_in_a_section_are_named(put_section: PutSection, tmp_path: Path, text: str, words: str) -> None:
    put_section("shop", source=NESTED)
    path = tmp_path / "xwheel.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config(path)


@pytest.mark.parametrize("name", ["api", "plugin", "section", "model_config", "_shop", "Shop"])
def test_what_cannot_be_the_name_of_a_section_is_left_out(
    put_section: PutSection, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    put_section(name)
    assert load_config().plugin("toys") == {}
    assert load_config().api.port == 8080
    assert f"no section [{name}] of the settings: toys (entry point {name} = toys:ShopSection): a section" in (
        caplog.text
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit('no')", "no"),
        ("class ShopSection: pass", "is no subclass of xwheel.config.sections.Section"),
        ("ShopSection = 5", "is no subclass of xwheel.config.sections.Section"),
        (SHOP.replace("Field(3, ge=1)", "Field(ge=1)"), "Field required"),
    ],
)
def test_what_is_no_section_is_left_out(
    put_section: PutSection, caplog: pytest.LogCaptureFixture, source: str, words: str
) -> None:
    put_section("shop", source=source)
    with pytest.raises(ConfigError, match="shop is not a setting"):
        build_config({"shop": {"toys": 1}})
    assert "no section [shop] of the settings: toys (entry point shop = toys:ShopSection)" in caplog.text
    assert words in caplog.text


def test_a_section_that_was_not_read_is_checked_where_it_is_used(
    put_section: PutSection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an editable install that was made before the entry point."""
    put_section("shop")
    kind = type(load_config().section("shop", Section))
    monkeypatch.setattr("xwheel.config.loading.entry_points", lambda group: [])
    all_settings.cache_clear()
    assert build_config({"audit": {"toys": 4}}).section("audit", kind).model_dump() == {"toys": 4}
    with pytest.raises(ConfigError, match=r"^audit: toys: Input should be greater than or equal to 1$"):
        build_config({"audit": {"toys": 0}}).section("audit", kind)


def test_two_distributions_cannot_bring_the_same_section(put_section: PutSection) -> None:
    put_section("shop")
    put_section("shop", "more_toys")
    with pytest.raises(ConfigError, match=r"another distribution has the section \[shop\]: uninstall one"):
        load_config()


def test_sections_of_distributions_of_ours_that_are_broken_or_not_there_are_left_alone(
    put_section: PutSection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_section("audit", source="import nothing_of_that_name")
    (ours,) = entry_points(group="xwheel.settings", value="toys:ShopSection")
    monkeypatch.setattr("xwheel.config.loading.entry_points", lambda group: [ours])
    monkeypatch.setenv("XWHEEL_ALARM__ATTEMPTS", "7")
    config = build_config({"audit": {"syslog": "/dev/log"}})
    assert config.section("audit", Section).model_dump() == {"syslog": "/dev/log"}
    assert load_config().section("alarm", Section).model_dump() == {"attempts": "7"}
    said = "no section [audit] of the settings: toys (entry point audit = toys:ShopSection): No module named"
    assert said in caplog.text


def test_settings_that_are_made_by_hand_have_the_sections_of_distributions(put_section: PutSection) -> None:
    put_section("shop")
    values: dict[str, Any] = {"shop": {"toys": 4}}
    assert Config(**values) == build_config(values)
    assert Config() == build_config({})
    with pytest.raises(ValueError, match="toy"):
        Config(shop={"toy": 4})  # type: ignore[arg-type]
