"""What a node finds out before the first run of a job: its package is fetched, built and imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Place
from wheels import make_wheel
from xwheel import Config
from xwheel.plugin import HostSetup

from xwheel_job_package.failures import Cancel, PackageRunError
from xwheel_job_package.host import PackageHost
from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.reference import PackageReference

MARKED = "from xwheel_package import schedule\n@schedule()\ndef job(): ...\n"
CODE = """
import os
from xwheel_package import schedule
@schedule()
def job(): return os.getpid()
@schedule()
def leave(): os._exit(3)
"""


@pytest.fixture
def host(place: Place, tmp_path: Path) -> Iterator[PackageHost]:
    """Give a node's packages alone, with the store of the tests."""
    from xwheel.executor import SUPERVISOR

    options = NodeOptions(directory=str(tmp_path / "node"), store_addresses=(place.store.web.url,))
    setup = HostSetup(config=Config(), token="t" * 32, environment={}, supervisor=SUPERVISOR)
    found = PackageHost(setup, options)
    yield found
    found.close()


def test_a_job_is_ready_when_its_module_is_imported(
    host: PackageHost, place: Place, tmp_path: Path, make_ready: Callable[[str, str], Any]
) -> None:
    """SCN-5, on a node: the process that imported it waits for the first run."""
    make_ready(CODE, "job")
    (worker,) = host._pool.idle
    make_ready(CODE, "leave")
    assert host._pool.idle == [worker]


@pytest.fixture
def make_ready(host: PackageHost, place: Place, tmp_path: Path) -> Callable[[str, str], None]:
    made: dict[str, PackageReference] = {}

    def make(code: str, name: str) -> None:
        if code not in made:
            folder = tmp_path / str(len(made))
            folder.mkdir()
            made[code] = place.store.add(make_wheel(folder, "ready", "1.0", {"ready.py": code}))
        known = made[code]
        fields = {item: getattr(known, item) for item in known.__struct_fields__}
        host.make_ready(PackageReference(**{**fields, "group": "ready", "name": name}), Cancel(), lambda _: None)

    return make


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        (
            "import not_there\n" + MARKED,
            "job",
            "import_failed: module 'ready' cannot be imported: ModuleNotFoundError: No module",
        ),
        ("1 / 0\n" + MARKED, "job", "import_failed: module 'ready' cannot be imported: ZeroDivisionError"),
        (
            "import os\nos._exit(3)\n" + MARKED,
            "job",
            "import_failed: while ready was imported, the job's process ended with exit",
        ),
        (CODE, "other", "no_such_job: the package has no ready.other"),
    ],
)
def test_what_cannot_be_imported_is_told_before_a_run(
    make_ready: Callable[[str, str], None], code: str, name: str, words: str
) -> None:
    """SCN-5: the module and the exception; the operation that wanted the job fails with it."""
    with pytest.raises(PackageRunError) as caught:
        make_ready(code, name)
    assert str(caught.value).startswith(words)
    assert caught.value.is_permanent
