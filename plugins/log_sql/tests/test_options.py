"""What the options may hold, and which database is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import register
from pydantic import ValidationError
from sqlalchemy import make_url
from xwheel import Config
from xwheel.plugin import ConfigError, read_options
from xwheel_devtools.testing import load_plugin, sample_log_chunk, sample_log_key

from xwheel_log_sql.options import Options


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read_options(Config(plugins={"options": {"log_sql": options}}), "log_sql", Options)  # type: ignore[arg-type]
    return str(caught.value)


def config_of(**database: Any) -> Config:
    return Config(database=database)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "must be a URL such as"),
        ("mysql+pymysql://u:canary@h:x/db", "must be a URL such as"),
        ("oracle://u:canary@h/db", "must name a database that xwheel speaks"),
        ("postgresql+asyncpg://u:canary@h/db", "must name a database that xwheel speaks"),
        ("sqlite://", "must name a file"),
        ("postgresql://u:canary@h", "must name a database"),
    ],
)
def test_urls_that_are_refused(url: str, words: str) -> None:
    told = refusal(url=url)
    assert told.startswith("plugins.options.log_sql.url: ")
    assert words in told
    assert "canary" not in told


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    url = "postgresql://u:one@h/db"
    assert "not in both" in refusal(url=url, password="two")
    assert "without one the node's own database" in refusal(password="two")
    assert "not both" in refusal(url="postgresql://u@h/db", password="a", password_file=str(tmp_path))
    assert "pool_size" in refusal(pool_size=0)
    assert "unknown" in refusal(urls=url) or "urls" in refusal(urls=url)


def test_a_password_is_never_shown() -> None:
    options = Options(url="postgresql://u:canary@h/db")  # type: ignore[arg-type]
    assert "canary" not in repr(options) + options.model_dump_json()
    with pytest.raises(ValidationError):
        Options(url=3)  # type: ignore[arg-type]


def test_without_options_logs_lie_beside_the_nodes_sqlite_file(tmp_path: Path) -> None:
    store = register(config_of(url=f"sqlite:///{tmp_path}/xwheel.db"))
    store.check()
    store.append([sample_log_chunk(sample_log_key(), 1, ["first"])])
    store.close()
    assert {path.name for path in tmp_path.iterdir()} == {"xwheel-logs.db"}


@pytest.mark.parametrize("places", ["h1:5432,h2:5432", "h1,h2"])
def test_of_several_servers_one_must_be_named(places: str) -> None:
    given = config_of(url=f"postgresql+psycopg://u:canary@{places}/db")
    with pytest.raises(ConfigError, match="names several servers, and logs take one") as refused:
        register(given).check()
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("apart", [{}, {"password": "s3cret"}, {"password_file": "FILE"}])
def test_without_options_logs_lie_in_the_nodes_database(apart: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\nmore\n")
    given = {name: value.replace("FILE", str(tmp_path / "password")) for name, value in apart.items()}
    url = "mariadb://xwheel@db.example.com:3307/jobs" if apart else "mysql://xwheel:s3cret@db.example.com:3307/jobs"
    store = register(config_of(url=url, **given))
    store.check()
    engine = store._connections._get_engine()
    assert engine.url == make_url("mysql+pymysql://xwheel:s3cret@db.example.com:3307/jobs")


def test_options_name_another_database(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    given = {"url": "postgresql://logs@db.example.com/logs", "password_file": str(file)}
    config = Config(plugins={"options": {"log_sql": given}})  # type: ignore[arg-type]
    store = register(config, **read_options(config, "log_sql", Options).model_dump(exclude={"password_file"}))
    assert store._connections._get_engine().url == make_url("postgresql+psycopg://logs:s3cret@db.example.com/logs")


def test_a_driver_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel_log_sql.connections.MODULES", {"postgresql": "no_such_driver"})
    with pytest.raises(ConfigError, match=r"pip install 'xwheel-log-sql\[postgresql\]'"):
        register(url="postgresql://u@h/db").check()


def test_the_plugin_is_loaded_as_a_node_does() -> None:
    plugins = load_plugin("log_sql")
    assert "sql" in plugins.registered("xwheel_register_log_stores")
