"""The demonstration counts once nothing is under way, whatever moves while it asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from xwheel.wire.http.rest import RestClient

from xwheel_devtools.quickstart import run
from xwheel_devtools.quickstart.run import Options, _Demonstration


class Moving:
    """A node whose only run goes one state further before each call, and whose job then fires once more."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps

    def call(self, _method: str, path: str, *, params: Mapping[str, Any]) -> Any:
        state = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if path.endswith("/jobs"):
            return {"items": [{"next_fire_ms": 1 if state == "due" else None}]}
        return {"items": [{"state": state}] if state in params["state"].split(",") else []}


@pytest.mark.parametrize(
    "steps",
    [
        ["running", "running", "planned", "dispatching", "running", "ended"],  # a run ends, and its retry is planned
        ["due", "planned", "dispatching", "running", "ended"],
        ["due", "due", "planned", "planned", "ended"],
        ["ended"],
    ],
)
def test_it_waits_until_nothing_is_under_way(steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "REFRESH_S", 0)
    node = Moving(list(steps))
    demonstration = _Demonstration(Options(data_dir=tmp_path), tmp_path)
    with demonstration._signals:
        demonstration._settle(cast(RestClient, node), ())
    assert node.steps == ["ended"]
