"""Finding U6: what the management API can do, the command line can do; each call is made by a real command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_apply import Shell, xwheel
from tests.support.bare_app import DOCUMENT
from xwheel.wire.http.rest import RestClient

__all__ = ["xwheel"]  # the fixture of the neighbour

FOR_MACHINES = "for load balancers and browsers; 'xwheel health' says more"
IN_BROWSERS = "for people who signed in with a browser; commands show tokens, which have no session"
WITHOUT: Mapping[str, str] = {
    "GET /healthz": FOR_MACHINES,
    "GET /readyz": FOR_MACHINES,
    "GET /docs": FOR_MACHINES,
    "GET /docs/reference.css": FOR_MACHINES,
    "GET /api/v1/openapi.json": "for programs",
    "GET /api/v1/groups/{group_id}/executors": "'xwheel group show' asks /executors, which has the same",
    "GET /api/v1/tokens/{name}": "'xwheel token list' has the same",
    "GET /api/v1/secrets/{name}": "'xwheel secret list' has the same",
    "GET /api/v1/accounts/{account_id}": "'xwheel account show' finds it by its name among all",
    "GET /api/v1/accounts/{account_id}/sessions": IN_BROWSERS,
    **{f"{method} /api/v1/session": IN_BROWSERS for method in ("GET", "POST", "DELETE")},
    "POST /api/v1/session/link": IN_BROWSERS,
    "POST /api/v1/session/confirm": IN_BROWSERS,
    "PUT /api/v1/me/password": IN_BROWSERS,
    "GET /api/v1/me/sessions": IN_BROWSERS,
    "DELETE /api/v1/me/sessions/{session_id}": IN_BROWSERS,
    "GET /api/v1/me/tokens": IN_BROWSERS,
    "POST /api/v1/me/tokens": IN_BROWSERS,
    "DELETE /api/v1/me/tokens/{name}": IN_BROWSERS,
    "GET /api/v1/me/settings": IN_BROWSERS,
    "PUT /api/v1/me/settings/{setting}": IN_BROWSERS,
    "DELETE /api/v1/me/settings/{setting}": IN_BROWSERS,
    "GET /api/v1/console/manifest": IN_BROWSERS,
    "GET /api/v1/events": "'--follow' and '--wait' ask for what they show; this is for pages that show everything",
    "GET /api/v1/nodes": "for pages; 'xwheel health' tells of the node that is asked",
    "GET /api/v1/jobs/recent": "'xwheel run list --job' has the same of one job",
    "GET /api/v1/schedule/words": "'xwheel job preview' has those of one schedule",
    "GET /api/v1/schedule/upcoming": "'xwheel job list' has the next fire of each",
    **{f"GET /api/v1/{name}/csv": "'--json' is for programs" for name in ("jobs", "runs", "audit")},
}
UNASKED: Mapping[str, str] = {
    "after": "lists follow their pages by themselves",
    "limit": "lists ask for pages of the greatest size, up to --limit",
}
COMMANDS = """
health | overview | pause --ask | pause | resume
group create orders | group list --prefix o | group show orders | group show 1 | group edit orders --title Orders
group executors | group executors orders
job create nightly --group orders --set handler=h --set schedule_type=FIX_RATE --set schedule_conf=3600
job create weekly --group orders --set handler=h --set schedule_type=FIX_RATE --set schedule_conf=3600
job list --group orders --name night --handler h --stopped --schedule-type FIX_RATE | job show 1 | job show weekly
job list --search night --glue-type BEAN --soonest
job edit nightly --set timeout_s=5 | job start nightly | job stop nightly | job preview nightly
job copy nightly --name third | job run nightly | job children nightly --to weekly=x | job children nightly
job start nightly weekly | job stop nightly weekly | job run nightly weekly | job children nightly --none
report --by day --since 7d --until 1h --job nightly --group orders --limit 9
run list --job nightly --group orders --state failed --since 1h --until 1m | run show 1
run list --origin api --address http://x:1 --chain 1 --fire 1 | run list --named night --message text --longer 5m
run rerun 1 | run log 1 | run log 1 --tail 5 | run log 1 --search words | run kill 2
calendar save free --file {calendar}
job preview --every 9s --from 2030-01-01 --set anchor_ms=1 --set start_ms=1 {more}
calendar list | calendar show free | calendar delete free
alarm rule create tell --kinds failed --job nightly | alarm rule list | alarm rule show 1 | alarm rule edit 1 --silent
alarm rule delete 1 | alarm list --job nightly --run 1 --notice 1 | alarm list --group orders
alarm rule list --job nightly | alarm rule list --group orders
alarm attempts --alarm 1 --job nightly | alarm attempts --group orders | alarm show 999 | alarm test nowhere
job versions nightly | job versions nightly 1 | job diff nightly | job diff nightly 2 --against 1
job rollback nightly 1 --reason tests | why nightly | why nightly 1h
glue list nightly | glue save nightly --file {calendar} | glue show nightly 1 | glue restore nightly 1
sync tests.support.declared_app --group orders --release 1.0 | group declarations | job release report --field timezone
plugins --url {url}
token create ops --group orders --url {url} | token list --url {url} | token delete ops --url {url}
audit list --actor tests --action job.edit --about job/1 --group orders --outcome done --since 1h --until 1m
account create ann --role viewer --in orders=editor --url {url} | account list --url {url}
account show ann --url {url} | account link ann --url {url}
account role ann --role operator --url {url} | account reset ann --url {url} | account disable ann --url {url}
account enable ann --url {url} | account unlock ann --url {url} | account signout ann --keep-tokens --url {url}
account delete ann --url {url}
secret create one --group orders --url {url} | secret list --group orders --url {url} | secret delete one --url {url}
secret create two --group orders --url {url} | secret rotate two three --url {url} | secret retire two --url {url}
job delete third | job release report | job list --deleted | job delete nightly weekly report | group delete orders
"""
MORE = "--set end_ms=4102444800000 --set calendar_exclude=free --set calendar_require=free -n 3"
REFUSED = ("run log", "run kill", "alarm show", "alarm test", "glue", "alarm rule edit", "job preview --every")
"""What this node has nothing for, or what makes no sense together: the call is made and refused."""


def parameters() -> set[tuple[str, str]]:
    """Return what each operation with a command may be asked, but for what needs no option."""
    paths = DOCUMENT["paths"]
    return {
        (f"{method.upper()} {path}", parameter["name"])
        for path, methods in paths.items()
        for method, operation in methods.items()
        if isinstance(operation, dict)
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query" and parameter["name"] not in UNASKED
        if f"{method.upper()} {path}" not in WITHOUT
    }


def operations() -> dict[str, re.Pattern[str]]:
    """Return every operation of the document, with what its paths look like; those without a parameter first."""
    paths = DOCUMENT["paths"]
    return {
        f"{method.upper()} {path}": re.compile(f"{method.upper()} " + re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
        for path in sorted(paths, key=lambda path: path.count("{"))
        for method in paths[path]
        if method in {"get", "post", "put", "patch", "delete"}
    }


def test_u6_each_operation_of_the_api_has_a_command(
    xwheel: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = xwheel.node()
    file = tmp_path / "calendar.json"
    file.write_text('{"weekdays": "SAT,SUN"}')
    called: set[str] = set()
    asked: set[tuple[str, str]] = set()
    call = RestClient.call

    def record(self: RestClient, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        called.add(f"{method} {path}")
        asked.update((f"{method} {path}", name) for name in kwargs.get("params") or {})
        return call(self, method, path, *args, **kwargs)

    monkeypatch.setattr(RestClient, "call", record)
    for line in re.split(r"[|\n]", COMMANDS):
        words = [word.format(calendar=file, url=client.base_url) for word in line.replace("{more}", MORE).split()]
        if words:
            status, _, err = xwheel(*words)
            assert status == 0 or line.strip().startswith(REFUSED), (line, err)
    known = operations()
    made = {next(name for name, pattern in known.items() if pattern.fullmatch(path)) for path in called}
    assert set(known) - made - set(WITHOUT) == set()
    assert made & set(WITHOUT) == set()
    assert set(WITHOUT) <= set(known)
    names = {path: next(name for name, pattern in known.items() if pattern.fullmatch(path)) for path, _ in asked}
    assert parameters() - {(names[path], parameter) for path, parameter in asked} == set()
