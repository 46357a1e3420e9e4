"""What tests of executors import brings nothing of a server."""

from __future__ import annotations

import subprocess
import sys


def test_tests_of_those_who_only_have_the_executor_need_no_server() -> None:
    code = (
        "import sys, xwheel_devtools.testing; print(sorted({'alembic', 'requests', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
