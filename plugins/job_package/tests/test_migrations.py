"""The store's tables as an older version left them, on each kind of database: whose packages are then."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine, insert, text

from xwheel_job_package.owners import Owned, Owners, read_owned, write_owned
from xwheel_job_package.tables import JOB, OWNER, PACKAGE, PROJECT, PackageTables

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.support import servers
from tests.support.plugin_schema import Database, forget, made_job, opened, upgrade

SHA = "a" * 64
SERVERS = {"mariadb": (servers.mariadb, "mysql"), "postgresql": (servers.postgresql, "postgres")}


class Before:
    """The tables of the version before packages had groups."""

    name = "job_package"

    def migrations(self) -> Any:
        return PackageTables().migrations()[:2]

    def tables(self) -> Any:
        return sorted(set(PackageTables().tables()) - {OWNER.name, PROJECT.name})


@pytest.fixture(scope="module")
def server_of() -> Iterator[Callable[[str], str]]:
    """Give a function that makes an empty database on a server, which is started once."""
    bases: dict[str, str] = {}
    numbers = itertools.count()
    with ExitStack() as running:

        def make(backend: str) -> str:
            run, admin = SERVERS[backend]
            if backend not in bases:
                if not servers.is_installed(backend) and not os.environ.get("REQUIRE_SERVERS"):
                    pytest.skip(f"no {backend} here")
                bases[backend] = running.enter_context(run())
            name = f"store_{next(numbers)}"
            engine = create_engine(bases[backend] + admin, isolation_level="AUTOCOMMIT")
            with closing(engine.connect()) as conn:
                conn.execute(text(f"CREATE DATABASE {name}"))
            engine.dispose()
            return bases[backend] + name

        yield make


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path, server_of: Callable[[str], str]) -> Iterator[Database]:
    is_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'store.db'}" if is_file else server_of(request.param)
    with opened(url) as found:
        yield found


def package(number: int, project: str, sha256: str = SHA) -> dict[str, Any]:
    return {
        "id": number,
        "project": project,
        "version": f"{number}",
        "file": f"{project}-{number}.zip",
        "sha256": sha256,
        "size": 1,
        "container": "Common",
        "state": "stored",
        "uploaded_ms": 1,
        "uploaded_by": "anna",
        "report": "{}",
        "signature": "",
    }


def store_job(conn: Any, number: int, project: str, package_id: int) -> None:
    row = {"job_id": number, "project": project, "group_name": "m", "name": f"j{number}", "package_id": package_id}
    conn.execute(insert(JOB).values(**row, cron="", misfire="None", time_zone="", state="Shutdown", version=1))


def test_packages_belong_to_the_groups_whose_jobs_use_them(db: Database) -> None:
    """S15: of a job that the store made, or one that names package and hash; what no job uses is of no group."""
    upgrade(db, Before())
    with db.write() as conn:
        for row in (package(1, "made"), package(2, "named"), package(3, "unused"), package(4, "made")):
            conn.execute(insert(PACKAGE).values(row))
        made_job(conn, 11, 101, None)
        store_job(conn, 11, "made", 1)
        made_job(conn, 12, 102, None, is_gone=True)
        store_job(conn, 12, "made", 4)
        named = {"package_id": 2, "sha256": SHA}
        made_job(conn, 21, 201, json.dumps(named))
        made_job(conn, 22, 202, json.dumps(named))
        # what never ran is no use of it, nor is what is none
        wrong = [{**named, "sha256": "b" * 64}, {"package_id": [2], "sha256": SHA}, [], {"sha256": SHA}]
        for number, source in enumerate([json.dumps(one) for one in wrong] + ["{", "[" * 5000], 31):
            made_job(conn, number, 300 + number, source)
    for _ in range(2):  # the second time as on MariaDB, which keeps what was done before a failure
        upgrade(db, PackageTables())
        with db.read() as conn:
            found = {name: read_owned(conn, name) for name in ("made", "named", "unused", "other")}
        assert found == {
            "made": Owned(groups=(101,)),
            "named": Owned(groups=(201, 202)),
            "unused": Owned(),
            "other": None,
        }
        forget(db, "job_package", "0003_groups")
        with db.write() as conn:
            conn.execute(PROJECT.delete().where(PROJECT.c.project == "named"))


def test_ownership_is_kept_on_each_database(db: Database) -> None:
    """Whose a project is, in the order in which groups were named, and a name that two want at once is one's."""
    upgrade(db, PackageTables())
    with db.write() as conn:
        for row in (package(1, "one"), package(2, "two"), package(3, "three")):
            conn.execute(insert(PACKAGE).values(row))
        write_owned(conn, "one", Owned(groups=(9, 3)))
        write_owned(conn, "two", Owned(everywhere=True))
        write_owned(conn, "two", Owned(groups=(3,)))
        write_owned(conn, "three", Owned(everywhere=True))
    with db.read() as conn:
        assert read_owned(conn, "one", lock=True) == Owned(groups=(9, 3))
        assert read_owned(conn, "two") == Owned(groups=(3,))
    owners = Owners(site_of(db))
    assert [owners.is_of_group(number, 3) for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert [owners.is_of_group(number, 9) for number in (1, 2, 3)] == [True, False, True]


def site_of(db: Database) -> Any:
    return SimpleNamespace(database=db, executors=SimpleNamespace(groups=list))
