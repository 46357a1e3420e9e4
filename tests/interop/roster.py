"""All peers that the scenario is played with."""

from __future__ import annotations

from collections.abc import Sequence

from tests.interop.peers import Peer

PEERS: Sequence[Peer] = ()
