"""A node with the console and a package store in real Chromium; most of it is what the console's own tests use."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from xwheel_devtools.testing import wait_until

sys.path.append(str(Path(__file__).resolve().parents[4]))

from tests.support.console_site import console_tests

_console = console_tests()
browser = _console.browser
contexts = _console.contexts
open_page = _console.open_page
watch = _console.watch

JOB = "@schedule({arguments})\ndef {name}():\n    pass\n\n"
Functions = Mapping[str, str]


def module(functions: Functions, more: str = "", *, name: str = "acme") -> dict[str, str]:
    """Return the files of a package whose module ``jobs`` has jobs: their names with the decorator's arguments."""
    text = "from xwheel_package import disabled, schedule\n\n" + more
    text += "".join(JOB.format(name=name, arguments=arguments) for name, arguments in functions.items())
    return {f"{name}/__init__.py": "", f"{name}/jobs.py": text}


class StoreSite(_console.Site):  # type: ignore[misc]
    """A node with a store, whose executor runs packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = {"directory": str(folder / "store"), "group": "demo", "max_upload_mb": 6}
        node = {"directory": str(folder / "packages")}
        options = {"job_package": {"store": store, "node": node}}
        super().__init__(folder / "node", "job_package", options=options)

    def send(self, path: Path) -> Any:
        """Upload a package; return the answer."""
        with path.open("rb") as body:
            answer = requests.post(
                f"{self.url}/api/v1/packages?file={path.name}",
                data=body,
                headers={"Authorization": f"Bearer {self.node.token}"},
                timeout=60,
            )
        answer.raise_for_status()
        return answer.json()

    def files(self) -> set[str]:
        """Return all files of the store, those too that are still taken in."""
        store = self.folder / "store"
        return {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()}

    def versions(self, project: str) -> list[str]:
        """Return the versions of a project that are there."""
        items = self.node.call("GET", f"packages/projects?search={project}&limit=1000")["items"]
        return [one["version"] for item in items if item["project"] == project for one in item["versions"]]

    def operate(self, job_id: int, operation: str, **changes: Any) -> Any:
        """Start, pause or restart a job of a package."""
        return self.node.call("POST", f"packages/jobs/{job_id}/operations", {"operation": operation, **changes})

    def write(self, statement: str, *values: Any) -> int:
        """Change the node's database as another node would; return the id of a row that was made."""

        def work() -> int | None:
            with closing(sqlite3.connect(self.folder / "node" / "node.db", timeout=30)) as conn, conn:
                return conn.execute(statement, values).lastrowid or -1

        return wait_until(work)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSite]:
    found = StoreSite(tmp_path_factory.mktemp("site"))
    yield found
    found.node.close()
