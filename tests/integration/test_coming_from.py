"""The pages for those who come from APScheduler and Celery beat, run as they stand; of XXL-JOB's, the query.

Other pages of this kind are followed by ``test_listings.py``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import Connection, create_engine, text

from tests.support import servers
from tests.support.listings import one_listing, runs
from tests.support.tutorials import Tutorial
from tests.support.xxl_rows import XXL_COLUMNS, XXL_JOBS, XXL_ROWS

APSCHEDULER = "howto/coming-from/apscheduler.md"
CELERY_BEAT = "howto/coming-from/celery-beat.md"
CRON = "docs/howto/coming-from/cron.md"
XXL_JOB = "docs/howto/coming-from/xxl-job.md"
CELERY_CONFIG = """
from pathlib import Path

here = Path(__file__).parent
for name in ("messages", "control", "results"):
    (here / name).mkdir(exist_ok=True)
broker_url = "filesystem://"
broker_transport_options = {
    "data_folder_in": str(here / "messages"),
    "data_folder_out": str(here / "messages"),
    "control_folder": str(here / "control"),
}
result_backend = f"file://{here / 'results'}"
"""


def tutorial_of(page: str, folder: Path) -> Tutorial:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ours = {"PATH": path, "PYTHONUNBUFFERED": "1", "XDG_CONFIG_HOME": str(folder / "config")}
    made = Tutorial(page, folder, {**os.environ, **ours}, {"-": "-"})
    made.save_files()
    return made


def done_well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.long
@pytest.mark.processes
def test_jobs_of_apscheduler(tmp_path: Path, stack: ExitStack) -> None:
    tutorial = tutorial_of(APSCHEDULER, tmp_path)
    stack.callback(tutorial.close)
    program, look, remind = tutorial.shells
    (reminded,) = tutorial.outputs
    tutorial.start(program, "program.log")
    tutorial.said("program.log", r"(?m)^(polled)$")
    seen = done_well(tutorial.type(look))
    assert re.search(r"(?s)report.*T06:00:00.*succeeded after 1 run.*embedded/poll", seen), seen
    assert done_well(tutorial.type(remind)) == reminded


@pytest.mark.long
@pytest.mark.processes
def test_tasks_of_celery(tmp_path: Path, stack: ExitStack) -> None:
    (tmp_path / "celeryconfig.py").write_text(CELERY_CONFIG)
    tutorial = tutorial_of(CELERY_BEAT, tmp_path)
    stack.callback(tutorial.close)
    worker, schedule, look = tutorial.shells
    # one process for tasks is enough here
    tutorial.start(worker.replace("worker", "worker --pool solo"), "worker.log")
    tutorial.start(schedule, "program.log")
    tutorial.said("program.log", "( leads)")
    tutorial.said("worker.log", "(report about south)")
    seen = done_well(tutorial.type(look))
    assert "result north is done" not in seen
    assert "result all is done" in seen
    for region in ("north", "all"):
        tutorial.said("worker.log", f"(report about {region})")


@pytest.mark.long
@pytest.mark.skipif(
    not servers.is_installed("mariadb") and not os.environ.get("REQUIRE_SERVERS"), reason="no MariaDB here"
)
@runs(XXL_JOB, "SELECT g.app_name")
def test_the_query_for_jobs_of_xxl_job() -> None:
    with servers.mariadb() as base:
        engine = create_engine(base, isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            fill(conn)
        engine.dispose()
        url = engine.url
        client = ["mariadb", "--batch", f"--host={url.host}", f"--port={url.port}", f"--user={url.username}"]
        done = subprocess.run(
            [*client, "--default-character-set=utf8mb4", "xxl_job"],
            input=one_listing(XXL_JOB, "SELECT g.app_name").text.encode(),
            env={**os.environ, "MYSQL_PWD": str(url.password)},
            capture_output=True,
            check=True,
        )
    assert done.stdout.decode() == XXL_JOBS


CRONTAB = r"""
PLAIN = two  words
KEPT = " with blanks "
FOLDER=$HOME/bin
ODD = say "it's" `id` \\ "
'NAMED' = 'in quotes'
MAILTO = root
CRON_TZ = Asia/Tokyo
0 1 * * * printf '[\%s]' "$PLAIN" "$KEPT" "$FOLDER" "$ODD" "$NAMED"
CRON_TZ="Europe/Paris"
FOLDER = elsewhere
0 2 * * * printf '[\%s]' "$FOLDER"
"""


def converted(page: str, beginning: str, given: bytes) -> tuple[list[dict[str, Any]], str]:
    """Run the script of a page that makes jobs of a file; return the jobs, and what it says besides."""
    done = subprocess.run(
        [sys.executable, "-c", one_listing(page, beginning).text], input=given, capture_output=True, check=True
    )
    groups = yaml.safe_load(done.stdout.decode())["groups"]
    return [job for group in groups for job in group["jobs"]], done.stderr.decode()


@pytest.mark.processes
def test_u27_variables_of_a_crontab_are_read_as_cron_does() -> None:
    (first, second), said = converted(CRON, "import re", CRONTAB.encode())
    assert (first["timezone"], second["timezone"], said) == ("Asia/Tokyo", "Europe/Paris", "left out: MAILTO = root\n")
    printed = [
        subprocess.run(["/bin/sh", "-c", job["glue_source"]], capture_output=True, text=True, check=True).stdout
        for job in (first, second)
    ]
    odd = CRONTAB.partition("ODD = ")[2].partition("\n")[0]
    assert printed == [f"[two  words][ with blanks ][$HOME/bin][{odd}][in quotes]", "[elsewhere]"]


@pytest.mark.processes
def test_u27_jobs_of_xxl_job_keep_every_character() -> None:
    jobs, _ = converted(XXL_JOB, "import re", XXL_JOBS.encode())
    fields = {name: number for number, name in enumerate(XXL_COLUMNS)}
    assert [job["param"] for job in jobs] == [row[fields["executor_param"]] for row in XXL_ROWS]
    sources = [row[fields["glue_source"]] for row in XXL_ROWS]
    assert [job.get("glue_source", "") for job in jobs] == sources


def fill(conn: Connection) -> None:
    """Make the two tables with the columns that the query asks for, and the rows."""
    groups = list(dict.fromkeys(row[:2] for row in XXL_ROWS))
    of_job = XXL_COLUMNS[2:]
    conn.execute(text("CREATE DATABASE xxl_job CHARACTER SET utf8mb4"))
    conn.execute(text("USE xxl_job"))
    conn.execute(text("CREATE TABLE xxl_job_group (id INT PRIMARY KEY, app_name TEXT, title TEXT)"))
    conn.execute(text(f"CREATE TABLE xxl_job_info (job_group INT, {', '.join(f'{name} TEXT' for name in of_job)})"))
    for number, (app_name, title) in enumerate(groups):
        values = {"id": number, "app_name": app_name, "title": title}
        conn.execute(text("INSERT INTO xxl_job_group VALUES (:id, :app_name, :title)"), values)
    marks = ", ".join(f":{name}" for name in of_job)
    for row in XXL_ROWS:
        values = {**dict(zip(XXL_COLUMNS, row, strict=True)), "job_group": groups.index(row[:2])}
        conn.execute(text(f"INSERT INTO xxl_job_info VALUES (:job_group, {marks})"), values)
