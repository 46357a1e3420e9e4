"""Several clusters side by side in the test's process, on SQLite, with real HTTP between them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from xwheel_devtools.testing import NodeSite, WebServer

TOKEN = "a-token-that-no-answer-may-hold"


def token_file(folder: Path, text: str = TOKEN) -> str:
    """Write a token as an operator does; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"token-{len(list(folder.iterdir()))}"
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return str(path)


class Cells:
    """Nodes of several clusters; the one that has the plugin is made last, since it names the others."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._count = 0

    def cluster(self, *plugins: object, **more: Any) -> NodeSite:
        """Start a cluster of one node."""
        self._count += 1
        return self._stack.enter_context(NodeSite(self.folder / f"cluster-{self._count}", *plugins, **more))

    def server(self, reply: Any = None, **more: Any) -> WebServer:
        """Start what is no node, but listens where one might."""
        return self._stack.enter_context(WebServer(reply, **more))

    def viewer(self, node: NodeSite) -> str:
        """Return the path of a file with a token that reads all of a cluster."""
        made = node.call("POST", "tokens", {"name": f"cells-{self._count}", "role": "viewer"})
        self._count += 1
        return token_file(self.folder / "tokens", made["token"])

    def front(self, *, timeout_ms: int = 15_000, settings: Any = None, **cells: Any) -> NodeSite:
        """Start the cluster through which the others are read: nodes, servers, or tables of options by name."""
        table = {name: self.options_of(cell) for name, cell in cells.items()}
        options = {"cells": {"timeout_ms": timeout_ms, "cell": table}}
        # as many places for calls of plugins as a test may want at once
        return self.cluster("cells", options=options, settings={"api": {"threads": 32}, **(settings or {})})

    def options_of(self, cell: NodeSite | WebServer | dict[str, Any]) -> dict[str, Any]:
        """Return the table of options of a cell, with a token that reads it if it is a cluster."""
        if isinstance(cell, NodeSite):
            return {"url": cell.url, "token_file": self.viewer(cell)}
        if isinstance(cell, WebServer):
            return {"url": cell.url, "token_file": token_file(self.folder / "tokens")}
        return cell
