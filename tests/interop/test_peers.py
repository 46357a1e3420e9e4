"""Every peer plays the same scenario with a real node; what it should see stands in ``expectations``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.cluster import cluster
from tests.interop.expectations import ODD, USUAL, expected, table
from tests.interop.java_peers import JAVA
from tests.interop.peers import ROOT, Peer
from tests.interop.report import PROPERTY
from tests.interop.roster import PEERS
from tests.interop.scenario import play
from tests.interop.stage import Stage
from tests.support.plugin_homes import plugin_home

PAGE = ROOT / "docs" / "reference" / "compatibility.md"


@pytest.mark.long(20)
@pytest.mark.timeout(900)  # the first one may fetch and build the applications
@pytest.mark.parametrize(
    "peer",
    # the newest Java generation at each change, those before it at night
    [pytest.param(peer, marks=[pytest.mark.nightly] if peer in JAVA[:-1] else []) for peer in PEERS],
    ids=lambda peer: peer.name,
)
def test_scenario(peer: Peer, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    settings = {
        # a node that knows GLUE_SHELL
        "PYTHONPATH": str(plugin_home("glue_script")),
        # running runs are asked about while the scenario goes on
        "XWHEEL_TRIGGER__CHECK_AFTER_S": "2",
        # how long the node waits for an outcome that such peers never send again
        "XWHEEL_TRIGGER__IDLE_GRACE_S": "5" if "callback" in peer.lacks else "120",
    }
    with cluster(tmp_path, settings) as made:
        try:
            seen = play(Stage(made, peer))
        finally:
            print(made.tails())
    record_property(PROPERTY, (peer.name, seen))
    assert seen == expected(peer)


def test_docs_show_the_table_that_the_scenario_asserts() -> None:
    names = [peer.name for peer in PEERS]
    assert {name for name, _ in ODD} <= set(names)
    assert {step for _, step in ODD} <= USUAL.keys()
    assert table(PEERS) in PAGE.read_text(), f"put this into {PAGE.name}:\n{table(PEERS)}"
