"""A client of XXL-JOB's job calls, as the fourth generation's Java client behaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import falcon.testing

from tests.support.rows import NOW
from xwheel.model import Job
from xwheel.storage import executors, jobs
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

SUCCESS = {"code": 200, "msg": "Success", "content": None, "data": None, "success": True, "xwheel": 1}


def definition(**changes: Any) -> dict[str, Any]:
    """What a client sends to define a job; ``None`` takes a field out, as Gson does."""
    body = {
        "name": "close",
        "author": "Li Lei",
        "scheduleType": "CRON",
        "scheduleConf": "0 0 2 * * ? *",
        "misfireStrategy": "DO_NOTHING",
        "executorRouteStrategy": "FIRST",
        "executorHandler": "closeBooksHandler",
        "executorParam": "own",
        "executorBlockStrategy": "SERIAL_EXECUTION",
        "executorTimeout": 0,
        "executorFailRetryCount": 0,
        "glueType": "BEAN",
    } | changes
    return {name: value for name, value in body.items() if value is not None}


class Tenant:
    """A group, its token, and calls made with them."""

    def __init__(self, db: Database, app: Callable[..., Any], app_name: str) -> None:
        self.db = db
        self.app_name = app_name
        self.token = f"token-of-{app_name}"
        self.client = falcon.testing.TestClient(app)  # type: ignore[arg-type]
        self.group_id = db.transaction(
            lambda conn: executors.insert_group(conn, app_name=app_name, title="", now_ms=NOW).id
        )
        db.transaction(lambda conn: tokens.insert_token(conn, app_name, self.token, NOW, group_id=self.group_id))

    def post(self, call: str, body: object, headers: dict[str, str] | None = None) -> falcon.testing.Result:
        sent = {TOKEN_HEADER: self.token, APP_NAME_HEADER: self.app_name} | (headers or {})
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.simulate_post(f"/api/{call}", body=data, headers=sent)

    def call(self, call: str, body: object) -> dict[str, Any]:
        """Return the envelope, which comes with HTTP 200 whatever it says."""
        answer = self.post(call, body)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/json")
        envelope: dict[str, Any] = answer.json
        assert envelope["success"] is (envelope["code"] == 200)
        assert envelope["data"] == envelope["content"]
        return envelope

    def add(self, **changes: Any) -> int:
        answer = self.call("addJob", definition(jobGroup=self.group_id, **changes))
        assert answer["code"] == 200, answer
        assert isinstance(answer["data"], str)
        return int(answer["data"])

    def refused(self, call: str, body: object) -> str:
        """Return why a call is refused."""
        answer = self.call(call, body)
        assert (answer["code"], answer["data"]) == (500, None), answer
        message: str = answer["msg"]
        return message

    def job(self, job_id: int) -> Job:
        with self.db.read() as conn:
            return jobs.get_job(conn, job_id)
