"""A web application for gunicorn that serves an executor next to itself; settings come from the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.admins import APP_NAME, TOKEN
from tests.support.executor_app import in_process, quick, slow
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.executor import Executor

executor = Executor(
    handlers=[quick, slow, in_process],
    glue_types={"BEAN": BeanGlue()},
    app_name=APP_NAME,
    admin_addresses=[os.environ["WEB_APP_ADMIN"]],
    access_token=TOKEN,
    port=0,
    data_dir=os.environ["EXECUTOR_APP_FOLDER"],
    leave_s=0,
)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
