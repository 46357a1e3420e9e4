"""P3: ``alarmEmail`` of XXL-JOB's job calls mails where there is a channel for mails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xwheel_alarms import Alarm
from xwheel_devtools.testing import NodeSite, wait_until

from xwheel import hookimpl
from xwheel.wire.http import post

JOB: dict[str, Any] = {
    "name": "close",
    "author": "Li Lei",
    "scheduleType": "NONE",
    "misfireStrategy": "DO_NOTHING",
    "executorRouteStrategy": "FIRST",
    "executorBlockStrategy": "SERIAL_EXECUTION",
    "executorHandler": "fail",
    "glueType": "BEAN",
}


class Mails:
    """A plugin whose channel has the name of that of ``alarm_email``."""

    name = "email"

    def __init__(self) -> None:
        self.sent: list[Alarm] = []

    def send(self, alarm: Alarm) -> str:
        self.sent.append(alarm)
        return "250 queued"

    @hookimpl
    def xwheel_register_alarms(self) -> list[Mails]:
        return [self]


class Caller:
    """A client of XXL-JOB's job calls."""

    def __init__(self, site: NodeSite) -> None:
        self.site = site
        group = site.call("GET", "groups")["items"][0]
        self._token = site.call("POST", "tokens", {"name": "jobs", "group_id": group["id"]})["token"]

    def call(self, call: str, **body: Any) -> dict[str, Any]:
        answer = post(
            f"{self.site.executor_url}/api/{call}",
            json.dumps(body).encode(),
            token=self._token,
            app_name="demo",
            timeout_s=30,
        )
        assert answer.ok, answer.message
        return {"msg": answer.message, "data": answer.data}

    def rules(self) -> list[dict[str, Any]]:
        found = self.site.call("GET", "alarms/rules")["items"]
        return [rule for rule in found if rule["name"] == "alarmEmail"]


def test_p3_alarm_email_of_add_job_is_mailed(tmp_path: Path) -> None:
    mails = Mails()
    with NodeSite(tmp_path, mails, "xxl_calls") as site:
        caller = Caller(site)
        answer = caller.call("addJob", **JOB, alarmEmail="ops@example.org, dba@example.org")
        assert "alarmEmail" not in (answer["msg"] or "")
        job_id = int(answer["data"])
        site.wait_for_run(site.start_run(job_id))
        wait_until(lambda: mails.sent)
        (mail,) = mails.sent
        assert mail.receivers == ("ops@example.org", "dba@example.org")
        assert mail.job is not None
        assert mail.job.id == job_id
        (rule,) = caller.rules()
        # a person's change stays, and the addresses are those of the last call
        site.call("PATCH", f"alarms/rules/{rule['id']}", {"window_s": 7})
        caller.call("updateJob", **JOB, id=job_id, alarmEmail="new@example.org")
        (changed,) = caller.rules()
        assert (changed["id"], changed["window_s"]) == (rule["id"], 7)
        assert changed["targets"] == [{"channel": "email", "receivers": ["new@example.org"]}]
        caller.call("updateJob", **JOB, id=job_id)
        assert caller.rules() == []
        # what it cannot use is said, and the job is there nevertheless
        many = ",".join(f"{number}@b" for number in range(51))
        answer = caller.call("addJob", **{**JOB, "name": "other"}, alarmEmail=many)
        assert "no mail is sent to it: targets: at most 50 receivers are allowed, not 51" in answer["msg"]
        assert caller.rules() == []


def test_p3_without_the_plugin_the_answer_says_what_is_missing(tmp_path: Path) -> None:
    with NodeSite(tmp_path, "xxl_calls") as site:
        caller = Caller(site)
        answer = caller.call("addJob", **JOB, alarmEmail="ops@example.org")
        assert "no mail is sent to it: email comes with xwheel-alarm-email: pip install 'xwheel[xxl]'" in answer["msg"]
        assert caller.rules() == []
        assert site.call("GET", f"jobs/{answer['data']}")["description"].endswith("alarmEmail: ops@example.org")
