"""``xwheel alarm`` and ``xwheel plugins --url`` against a real node with channels of a stranger's plugin."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_apply import Shell, xwheel
from tests.integration.test_cli_commands import parsed
from tests.support.executors import wait_until

__all__ = ["xwheel"]

WAIT_S = 60
PLUGIN = """
from pathlib import Path
from xwheel.plugin import hookimpl

class Shout:
    name = "shout"
    def send(self, alarm):
        return f"heard by {', '.join(alarm.receivers) or 'all'}"

class Broken:
    name = "broken"
    def send(self, alarm):
        raise OSError("the line is cut")

@hookimpl
def xwheel_register_alarms(config):
    return [Shout(), Broken()]
"""


@pytest.fixture
def channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install two channels."""
    info = tmp_path / "acme_voices-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-voices\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[xwheel]\nacme_voices = acme_voices_module\n")
    (tmp_path / "acme_voices_module.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_voices_module", raising=False)


def test_alarms_are_told_listed_and_tested(channels: None, xwheel: Shell) -> None:
    client = xwheel.node()
    url = os.environ["XWHEEL_URL"]
    assert xwheel("group", "create", "orders")[0] == 0
    assert xwheel("job", "create", "nightly", "--group", "orders", "--set", "handler=h")[0] == 0
    rule: dict[str, Any] = client.call(
        "POST",
        "/api/v1/alarms/rules",
        {
            "name": "orders",
            "group_id": 1,
            "kinds": ["refused"],
            "targets": [{"channel": "shout", "receivers": ["ops", "dev"]}],
        },
    )
    (row,) = xwheel("alarm", "rules", "--group", "orders")[1].splitlines()[1:]
    assert row.split() == f"{rule['id']} orders group 1 refused last shout: ops dev yes".split()
    assert parsed(xwheel("alarm", "rules", "--job", "nightly", "--json")) == []

    # nobody is there who could run it
    assert xwheel("job", "run", "nightly", "--wait")[0] == 1
    told = ("alarm", "attempts", "--job", "nightly", "--json")
    (attempt,) = wait_until(lambda: [one for one in parsed(xwheel(*told)) if one["state"] == "sent"], WAIT_S)
    assert (attempt["channel"], attempt["answer"]) == ("shout", "heard by ops, dev")
    (alarm,) = parsed(xwheel("alarm", "list", "--group", "orders", "--json"))
    assert (alarm["id"], alarm["kind"], alarm["state"]) == (attempt["alarm_id"], "refused", "told")
    assert " refused " in xwheel("alarm", "list", "--run", str(alarm["run_id"]))[1]
    assert "heard by ops, dev" in xwheel("alarm", "attempts", "--alarm", str(alarm["id"]))[1]

    status, out, err = xwheel("alarm", "test", "shout", "alice")
    assert (status, "heard by alice" in out, err) == (0, True, "")
    status, out, err = xwheel("alarm", "test", "broken")
    assert (status, "OSError: the line is cut" in out, err) == (1, True, "")
    status, out, err = xwheel("alarm", "test", "nobody")
    assert (status, out) == (2, "")
    assert "channel: 'nobody' is not installed; installed: broken, shout" in err
    assert xwheel("alarm", "list", "--job", "nightly", "--group", "orders")[0] == 2

    items = {item["name"]: item for item in parsed(xwheel("plugins", "--url", url, "--json"))}
    health = {one["name"]: one["health"] for one in items["acme_voices"]["registers"]}
    assert (health["shout"]["ok"], health["broken"]["ok"]) == (True, False)
    assert (health["broken"]["failures"], health["broken"]["last_answer"]) == (1, "OSError: the line is cut")
    assert "failing, 1 failures, OSError: the line is cut" in xwheel("plugins", "--url", url)[1]
