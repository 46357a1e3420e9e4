"""Finding U6: what the management API can do, the command line can do; each call is made by a real command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_apply import Shell, xwheel
from tests.support.paths import DOCS
from xwheel.wire.http.rest import RestClient

__all__ = ["xwheel"]  # the fixture of the neighbour

IN_THE_DATABASE = "'xwheel token' and 'xwheel secret' work on the database: the first token cannot need one"
FOR_MACHINES = "for load balancers and browsers; 'xwheel health' says more"
WITHOUT: Mapping[str, str] = {
    "GET /healthz": FOR_MACHINES,
    "GET /readyz": FOR_MACHINES,
    "GET /docs": FOR_MACHINES,
    "GET /docs/reference.css": FOR_MACHINES,
    "GET /api/v1/openapi.json": "for programs",
    "GET /api/v1/groups/{group_id}/executors": "'xwheel group show' asks /executors, which has the same",
    "GET /api/v1/tokens": IN_THE_DATABASE,
    "POST /api/v1/tokens": IN_THE_DATABASE,
    "GET /api/v1/tokens/{name}": IN_THE_DATABASE,
    "DELETE /api/v1/tokens/{name}": IN_THE_DATABASE,
    "GET /api/v1/secrets": IN_THE_DATABASE,
    "POST /api/v1/secrets": IN_THE_DATABASE,
    "GET /api/v1/secrets/{name}": IN_THE_DATABASE,
    "PATCH /api/v1/secrets/{name}": IN_THE_DATABASE,
    "DELETE /api/v1/secrets/{name}": IN_THE_DATABASE,
    "POST /api/v1/secrets/{name}/rotate": IN_THE_DATABASE,
}
COMMANDS = """
health | overview | pause --ask | pause | resume
group create orders | group list | group show orders | group show 1 | group edit orders --title Orders
job create nightly --group orders --set handler=h --set schedule_type=FIX_RATE --set schedule_conf=3600
job create weekly --group orders --set handler=h --set schedule_type=FIX_RATE --set schedule_conf=3600
job list | job show 1 | job edit nightly --set timeout_s=5 | job start nightly | job stop nightly | job preview nightly
job copy nightly --name third | job run nightly | job children nightly --to weekly=x | job children nightly
job start nightly weekly | job stop nightly weekly | job run nightly weekly | job children nightly --none
report --by day --since 7d --job nightly | run list | run show 1 | run rerun 1 | run log 1 | run kill 2
calendar save free --file {calendar} | calendar list | calendar show free | calendar delete free
alarm rule create tell --kinds failed --job nightly | alarm rules | alarm rule show 1 | alarm rule edit 1 --silent
alarm rule delete 1 | alarm list | alarm attempts | alarm show 999 | alarm test nowhere
glue list nightly | glue save nightly --file {calendar} | glue show nightly 1 | glue restore nightly 1
plugins --url {url}
job delete third | job delete nightly weekly | group delete orders
"""
REFUSED = ("run log", "run kill", "alarm show", "alarm test", "glue", "alarm rule edit")
"""What this node has nothing for: the call is made and refused."""


def operations() -> dict[str, re.Pattern[str]]:
    """Return every operation of the document, with what its paths look like; those without a parameter first."""
    paths = json.loads((DOCS / "reference" / "openapi.json").read_text("utf-8"))["paths"]
    return {
        f"{method.upper()} {path}": re.compile(
            f"{method.upper()} " + re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))
        )
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
    call = RestClient.call

    def record(self: RestClient, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        called.add(f"{method} {path}")
        return call(self, method, path, *args, **kwargs)

    monkeypatch.setattr(RestClient, "call", record)
    for line in re.split(r"[|\n]", COMMANDS):
        words = [word.format(calendar=file, url=client._base_url) for word in line.split()]
        if words:
            status, _, err = xwheel(*words)
            assert status == 0 or line.strip().startswith(REFUSED), (line, err)
    known = operations()
    made = {next(name for name, pattern in known.items() if pattern.fullmatch(path)) for path in called}
    assert set(known) - made - set(WITHOUT) == set()
    assert made & set(WITHOUT) == set()
    assert set(WITHOUT) <= set(known)
