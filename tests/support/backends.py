"""Run tests on each database server: ``python -m tests.support.backends [pytest's arguments]``.

Servers that are not installed are left out and named, unless ``REQUIRE_SERVERS`` is set, as it is in CI.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support import servers

# minutes; PostgreSQL judges values more strictly than MariaDB, so it is the one to ask besides SQLite
LEFT_OUT = {
    "mariadb": [
        f"--deselect=tests/integration/test_schemathesis.py::test_the_api_keeps_to_its_document[{part}]"
        for part in ("new jobs", "jobs")
    ]
}


def main() -> int:
    """Return pytest's first bad exit status, or 0."""
    for backend, package in (("mariadb", "mariadb-server"), ("postgresql", "postgresql")):
        if not servers.is_installed(backend):
            print(f"{backend} is not tested: the Debian package {package} is not installed", flush=True)
            if os.environ.get("REQUIRE_SERVERS"):
                return 1
            continue
        print(f"tests on {backend}", flush=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--backend",
            backend,
            *LEFT_OUT.get(backend, ()),
            *sys.argv[1:],
        ]
        done = subprocess.run(command, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
