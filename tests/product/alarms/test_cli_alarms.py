"""``xwheel alarm`` and ``xwheel plugins --url`` against a real node with channels of a plugin from elsewhere."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.integration.test_cli_apply import Shell, xwheel
from tests.product.commands.test_commands import parsed
from tests.support.executors import wait_until
from tests.support.paths import DOCS
from tests.support.plugin_homes import lay_plugin

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
    lay_plugin(tmp_path, "acme_voices", PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_voices", raising=False)


def test_alarms_are_told_listed_and_tested(channels: None, xwheel: Shell) -> None:
    xwheel.node()
    url = os.environ["XWHEEL_URL"]
    assert xwheel("group", "create", "orders")[0] == 0
    assert xwheel("job", "create", "nightly", "--group", "orders", "--set", "handler=h")[0] == 0
    rule_for = ("alarm", "rule", "create", "orders", "--group", "orders")
    rule = parsed(xwheel(*rule_for, "--kinds", "refused", "--to", "shout=ops,dev", "--json"))
    (row,) = xwheel("alarm", "rule", "list", "--group", "orders")[1].splitlines()[1:]
    assert row.split() == f"{rule['id']} orders group orders refused last shout: ops dev yes".split()
    assert parsed(xwheel("alarm", "rule", "list", "--job", "nightly", "--json")) == []

    # there is no executor to run it
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


def test_rules_are_made_changed_and_deleted(channels: None, xwheel: Shell) -> None:
    xwheel.node()
    assert xwheel("group", "create", "orders")[0] == 0
    assert xwheel("job", "create", "nightly", "--group", "orders", "--set", "handler=h")[0] == 0
    rule = ("alarm", "rule")
    quiet = ("--set", "quiet_from=22:00", "--set", "quiet_to=07:00")
    create = (*rule, "create", "all", "--kinds", "failed,not_run", "--set", "not_run_s=7200", *quiet)
    status, out, err = xwheel(*create, "--to", "shout", "--to", "broken=alice,bob", "--set", "quiet_pass=lost,refused")
    assert (status, out.split()) == (0, ["created", "all", "(1),", "revision", "1"]), err
    made = parsed(xwheel(*rule, "show", "1", "--json"))
    assert made["targets"] == [
        {"channel": "shout", "receivers": []},
        {"channel": "broken", "receivers": ["alice", "bob"]},
    ]
    assert (made["kinds"], made["not_run_s"], made["quiet_pass"]) == (["failed", "not_run"], 7200, ["lost", "refused"])
    assert (made["job_id"], made["group_id"]) == (None, None)

    assert xwheel(*rule, "edit", "1", "--group", "orders", "--silent", "--set", "when=each")[0] == 0
    changed = parsed(xwheel(*rule, "edit", "1", "--job", "nightly", "--json"))
    assert (changed["targets"], changed["when"], changed["revision"]) == ([], "each", 3)
    assert (changed["job_id"], changed["group_id"]) == (1, None)
    assert "is at revision 3, not 2" in xwheel(*rule, "edit", "1", "--set", "enabled=false", "--revision", "2")[2]

    for words, told in (
        ((*rule, "edit", "1"), "--set: must change at least one field"),
        ((*rule, "edit", "1", "--to", "shout", "--silent"), "--silent: give --to or --silent, not both"),
        ((*rule, "edit", "1", "--set", "targets=shout"), "targets: is given by --to"),
        ((*rule, "edit", "1", "--job", "nightly", "--group", "orders"), "--group: give --job or --group, not both"),
        ((*rule, "create", "x", "--kinds", "failed,burnt"), "kinds"),
        ((*rule, "create", "x", "--kinds", "failed", "--to", "nobody"), "'nobody' is not installed"),
        ((*rule, "create", "x", "--kinds", "failed", "--set", "window_s=-1"), "window_s: must be a whole number"),
    ):
        status, out, err = xwheel(*words)
        assert (status, out, told in err) == (2, "", True), (words, err)
    assert xwheel(*rule, "delete", "1", "--revision", "1")[0] != 0
    assert xwheel(*rule, "delete", "1")[:2] == (0, "rule 1 is deleted\n")
    assert xwheel(*rule, "show", "1")[0] != 0


def test_the_rule_of_the_how_to_is_made(channels: None, xwheel: Shell) -> None:
    xwheel.node()
    assert xwheel("group", "create", "shop")[0] == 0
    page = (DOCS / "howto" / "alarms.md").read_text()
    found = re.search(r"^xwheel (alarm rule create .*?)\n```", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    # the channels of the test have other names
    words = shlex.split(found[1].replace("\\\n", " ").replace("email=", "shout=").replace("dingtalk=", "broken="))
    status, _, err = xwheel(*words)
    assert status == 0, err
    settings = [text for text in re.findall(r"`--set (\S+=\S+)`", page) if not text.startswith("still_running")]
    assert len(settings) > 3
    for setting in settings:
        status, _, err = xwheel("alarm", "rule", "edit", "1", "--set", setting)
        assert status == 0, (setting, err)
