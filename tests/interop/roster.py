"""All peers that the scenario is played with."""

from __future__ import annotations

from tests.interop.go_peers import GO
from tests.interop.java_peers import JAVA
from tests.interop.peers import Peer
from tests.interop.python_peers import PYXXL, XWHEEL

PEERS: tuple[Peer, ...] = (*JAVA, GO, PYXXL, XWHEEL)
