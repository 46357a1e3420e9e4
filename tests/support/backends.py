"""Run tests on one database server: ``python -m tests.support.backends mariadb|postgresql [pytest's arguments]``.

What runs there: tests below the places of :data:`PLACES` that ask for ``db`` or ``new_database``. A test belongs there
if what it proves may differ between databases: what SQL means and costs, which rows a transaction locks and who wins a
race, what is there after a crash. What only passes through a database (the API, the command line, what is decided
without one) runs once, on SQLite.

A server that is not installed is left out and named, unless ``REQUIRE_SERVERS`` is set, as it is in CI.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from tests.support import servers

PLACES: Final = (
    "tests/unit/storage",
    "tests/unit/alarms",
    "tests/unit/scheduler",
    # some of what is stored is written and read only here
    "tests/unit/api/v1/test_groups.py",
    "tests/unit/api/v1/test_scripts.py",
    "tests/unit/api/v1/access",
    "tests/unit/accounts",
    "tests/security/test_roles.py",
    "tests/unit/runtime/test_sealing.py",
    "tests/faults",
    "tests/integration/test_chain_crash.py",
    "tests/integration/test_checks.py",
    "tests/integration/test_databases.py",
    "tests/integration/test_limits.py",
    "tests/integration/test_schemathesis.py",
    "tests/integration/test_two_nodes_network.py",
)
PACKAGES: Final = {"mariadb": "mariadb-server", "postgresql": "postgresql"}


def main(backend: str, *arguments: str) -> int:
    """Return pytest's exit status."""
    if not servers.is_installed(backend):
        print(f"{backend} is not tested: the Debian package {PACKAGES[backend]} is not installed")
        return int(bool(os.environ.get("REQUIRE_SERVERS")))
    command = [sys.executable, "-m", "pytest", "--backend", backend, *arguments, *PLACES]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
