"""Run tests on each database server: ``python -m tests.support.backends [pytest's arguments]``.

Servers that are not installed are left out and named, unless ``REQUIRE_SERVERS`` is set, as it is in CI.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support import servers


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
            *sys.argv[1:],
        ]
        done = subprocess.run(command, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
