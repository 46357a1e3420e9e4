"""Executors for tests: in this process, or in one of their own that can be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.admins import APP_NAME, TOKEN, FakeAdmin
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.executor import Executor


def make_executor(admin: FakeAdmin, data_dir: Path, handlers: list[object], **settings: Any) -> Executor:
    """Return an executor that is not started."""
    values = {
        "app_name": APP_NAME,
        "admin_addresses": [admin.url],
        "access_token": TOKEN,
        "port": 0,
        "data_dir": data_dir,
        "kill_grace_s": 0.3,
        "stop_timeout_s": 5,
        **settings,
    }
    return Executor(handlers=handlers, glue_types={"BEAN": BeanGlue()}, **values)


@contextmanager
def executor_of(
    admin: FakeAdmin, data_dir: Path, handlers: list[object], **settings: Any
) -> Iterator[Executor]:
    """Run an executor and stop it in the end."""
    executor = make_executor(admin, data_dir, handlers, **settings)
    executor.start()
    try:
        yield executor
    finally:
        executor.stop()
