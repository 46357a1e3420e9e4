from __future__ import annotations

import functools
import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from xwheel import embedded
from xwheel.embedded.declarations import declare
from xwheel.embedded.folder import Folder, LeaderState
from xwheel.errors import ConfigError
from xwheel.executor import JobContext, job
from xwheel.executor.declarations import Declaration
from xwheel.executor.handlers import MARK, HandlerKind


def work() -> None: ...


async def async_work(ctx: JobContext) -> str:
    return ctx.param


def fresh() -> Any:
    """A function without a mark."""
    return functools.update_wrapper(lambda: None, work)


def declared(schedule: dict[str, object] | None = None, **fields: Any) -> Declaration:
    return declare(fresh(), "work", schedule or {}, {}, fields)


@pytest.mark.parametrize(
    ("schedule", "kind", "conf"),
    [
        ({"cron": "*/5 * * * *"}, "UNIX_CRON", "*/5 * * * *"),
        ({"cron": "@daily"}, "UNIX_CRON", "@daily"),
        ({"cron": "0 0/5 * * * ?"}, "CRON", "0 0/5 * * * ?"),
        ({"every": 2}, "FIX_RATE", "2000ms"),
        ({"every": 0.25}, "FIX_RATE", "250ms"),
        ({"every": timedelta(minutes=1)}, "FIX_RATE", "60000ms"),
        ({"delay": "5m"}, "FIX_DELAY", "5m"),
        ({"at": "2030-01-31T12:00:00"}, "ONCE", "2030-01-31T12:00:00"),
        ({"at": datetime(2030, 1, 31, 12, tzinfo=UTC)}, "ONCE", "2030-01-31T12:00:00.000+00:00"),
        ({}, "NONE", ""),
    ],
)
def test_schedules(schedule: dict[str, object], kind: str, conf: str) -> None:
    fields = declared({"cron": None, **schedule}).fields
    assert (fields["schedule_type"], fields["schedule_conf"]) == (kind, conf)


@pytest.mark.parametrize(
    ("schedule", "fields", "message"),
    [
        ({"cron": "@daily", "every": 2}, {}, "cron and every: exclude each other"),
        ({"cron": 5}, {}, "cron: must be text"),
        ({"every": None, "at": datetime(2030, 1, 1)}, {}, "at: needs a time zone"),
        ({"every": []}, {}, "every: must be seconds"),
        ({}, {"max_retry": 3}, "max_retry: is not a field here; did you mean max_retries"),
        ({}, {"max_retries": -1}, "max_retries: must be"),
        ({}, {"handler": "other"}, "handler: follows from the declaration"),
        ({}, {"schedule_conf": "1s"}, "schedule_conf: follows from the declaration"),
    ],
)
def test_what_cannot_be_declared(schedule: dict[str, object], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"job 'work': {message}"):
        declared(schedule, **fields)


def test_only_what_is_said_is_declared() -> None:
    assert declared({"every": 2}, param="x").fields == {
        "handler": "work",
        "schedule_type": "FIX_RATE",
        "schedule_conf": "2000ms",
        "param": "x",
    }


def test_retries_are_max_retries_in_short() -> None:
    assert declared(retries=3).fields["max_retries"] == 3
    with pytest.raises(ConfigError, match="retries: is max_retries in short: give one of them"):
        declared(retries=3, max_retries=3)
    with pytest.raises(ConfigError, match="max_retries: must be a whole number"):
        declared(retries="many")


def test_names_and_handlers(tmp_path: Path) -> None:
    scheduler = embedded.EmbeddedScheduler(tmp_path)
    function = scheduler.job(every=1)(work)
    assert function is work
    scheduler.add(async_work, "later", at="2030-01-31T12:00:00", handler={"parallel": 3})
    # the same function again, as another job
    scheduler.add(async_work, "again")
    later, again = (scheduler._declarations[name] for name in ("later", "again"))
    handler = getattr(later.function, MARK)
    assert (handler.kind, handler.parallel, handler.takes_context) == (HandlerKind.ASYNC, 3, True)
    assert again.fields["handler"] == "later"
    with pytest.raises(ConfigError, match="job 'again': is declared twice"):
        scheduler.add(fresh(), "again")
    with pytest.raises(ConfigError, match="is a handler already, which settles parallel"):
        scheduler.add(async_work, "more", handler={"parallel": 2})
    with pytest.raises(ConfigError, match="has no name of its own"):
        scheduler.add(functools.partial(work))


class Service:
    async def poll(self) -> str:
        return "polled"

    @job("marked")
    def marked(self) -> str:
        return "ran"


def test_methods(tmp_path: Path) -> None:
    scheduler = embedded.EmbeddedScheduler(tmp_path)
    service = Service()
    scheduler.add(service.poll)
    scheduler.add(service.marked)
    poll, marked = scheduler._declarations.values()
    assert poll.name == "poll"
    assert inspect.iscoroutinefunction(poll.function)
    assert marked.name == "marked"


def test_the_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a" / "schedule")
    folder.make()
    token = folder.management_token()
    assert folder.management_token() == token
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.token_file.stat().st_mode & 0o777 == 0o600


def test_what_the_last_leader_wrote(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.read_state() == LeaderState()
    state = LeaderState(pid=5, api_port=6, declared=("a", "b"), retired=("c",))
    folder.write_state(state)
    assert folder.read_state() == state
    (tmp_path / "leader.json").write_text('{"pid": 7, "of another version": 1}')
    assert folder.read_state() == LeaderState(pid=7)
    (tmp_path / "leader.json").write_text("")
    assert folder.read_state() == LeaderState()


def test_another_database_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(ConfigError, match=r"database\.url is the folder's SQLite file"):
        folder.config({"database": {"url": "mysql+pymysql://host/db"}}, LeaderState())
    config = folder.config({"executor": {"workers": 3}, "upkeep": {"run_retention_days": 5}}, LeaderState())
    assert (config.executor.workers, config.upkeep.run_retention_days) == (3, 5)
    assert config.api.host == config.api.executor_host == config.executor.host == "127.0.0.1"
