"""Start the demonstration, show it, end it, and say honestly whether everything ran."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from xwheel.clock import SystemClock
from xwheel.config import build_config, load_config
from xwheel.errors import XwheelError
from xwheel.model.access import acting
from xwheel.node.first_secrets import first_credentials
from xwheel.node.way_in import ONCE, has_console, link_in
from xwheel.plugin.discovery import load_plugins
from xwheel.private_files import make_folder, write_text
from xwheel.runtime.ports import free_port
from xwheel.runtime.signals import StopSignals
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage.access import tokens
from xwheel.storage.database import startup
from xwheel.storage.database.engine import Database
from xwheel.storage.database.startup import open_database
from xwheel.wire.http.rest import RestClient
from xwheel_commands.connection import command_actor

from xwheel_devtools.quickstart.handlers import EXECUTIONS_VARIABLE
from xwheel_devtools.quickstart.jobs import APP_NAME, definition, demo_jobs
from xwheel_devtools.quickstart.processes import Child
from xwheel_devtools.quickstart.verify import SHOWN, expected_executions, verify
from xwheel_devtools.quickstart.view import Board
from xwheel_devtools.verify.records import FindingKind, Verdict

logger = logging.getLogger(__name__)

READY_S: Final = 30
SETTLE_S: Final = 60
LEAD_MS: Final = 2000
REFRESH_S: Final = 0.5
STOP_S: Final = 30
RUNS: Final = 100  # that the table is made of, the latest
OPEN: Final = "planned,dispatching,running"
ENDLESS_S: Final = 10 * 365 * 86_400
DOUBLED: Final = frozenset({FindingKind.DOUBLE, FindingKind.TWICE_PLANNED})
PLAN_FILE: Final = "quickstart.json"
EXECUTIONS_FILE: Final = "executions.jsonl"
OUR_NAMES: Final = frozenset({
    "xwheel.toml", "xwheel.db", "xwheel.db-wal", "xwheel.db-shm", "xwheel.db.lock", "node.log", "executor.log",
    "executor", PLAN_FILE, EXECUTIONS_FILE,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for.

    Attributes:
        seconds: End by itself after this many seconds of fires; None to go on until Ctrl-C.
        as_json: Print one JSON object at the end and nothing else on standard output.
        rate: Further fires a second.
        data_dir: Where everything is kept; None for a temporary folder that is deleted at the end.
        database: SQLAlchemy URL; None for SQLite in the data folder.
    """

    seconds: int | None = None
    as_json: bool = False
    rate: int = 0
    data_dir: Path | None = None
    database: str | None = None


def quickstart(options: Options) -> int:
    """Run the demonstration; return the exit status: 0 only if every count agrees, or after Ctrl-C."""
    folder = options.data_dir or Path(tempfile.mkdtemp(prefix="xwheel-quickstart-"))
    make_folder(folder, ours=OUR_NAMES)
    try:
        return _Demonstration(options, folder).run()
    finally:
        if options.data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)


class _Demonstration:
    """One run of the demonstration in a folder."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = options
        self._folder = folder.resolve()
        self._console = Console(stderr=options.as_json, highlight=False)
        self._clock = SystemClock()
        self._signals = StopSignals()
        self._board = Board(began_ms=self._clock.now_ms())
        self._url = options.database or f"sqlite:///{self._folder / 'xwheel.db'}"
        self._executions = self._folder / EXECUTIONS_FILE

    def run(self) -> int:
        with self._signals:
            self._signals.be_up()
            token, config_path, api_url = self._prepare()
            environment = {EXECUTIONS_VARIABLE: str(self._executions), "XWHEEL_CONFIG": str(config_path)}
            node = Child("node", ["server"], self._folder / "node.log", environment)
            executor = Child(
                "executor",
                ["executor", "xwheel_devtools.quickstart.handlers"],
                self._folder / "executor.log",
                environment,
            )
            client = RestClient(api_url, token)
            try:
                node.start()
                status = self._conduct(client, node, executor)
            except XwheelError as error:
                self._console.print(f"quickstart failed: {error!s}", style="red", markup=False)
                for child in (node, executor):
                    self._console.print(f"--- last lines of {child.name}\n{child.tail()}", markup=False)
                return 1
            finally:
                statuses = {child.name: child.stop(STOP_S) for child in (executor, node)}
                if any(statuses.values()):
                    self._console.print(f"[yellow]exit statuses: {statuses}[/yellow]")
            return self._judge_interrupted(node, executor) if status is None else status

    def _prepare(self) -> tuple[str, Path, str]:
        """Make secrets, configuration and database; return management token, configuration file and API address."""
        api_port, executor_api_port = free_port(), free_port()
        token, executor_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        values: dict[str, Any] = {
            "database": {"url": self._url},
            "api": {"port": api_port, "executor_port": executor_api_port, "executor_token": executor_token},
            "executor": {
                "app_name": APP_NAME,
                "admin_addresses": [f"http://127.0.0.1:{executor_api_port}"],
                "access_token": executor_token,
                "port": 0,
                "data_dir": str(self._folder / "executor"),
            },
        }
        path = self._folder / "xwheel.toml"
        write_text(path, _toml(values))
        plugins = load_plugins(load_config(path))
        startup.upgrade(self._url, plugins.tables)
        with closing(Database(self._url)) as db, ExitStack() as undo:
            now_ms = self._clock.now_ms()
            db.transaction(lambda conn: tokens.replace_token(conn, APP_NAME, token, now_ms))
            said: list[str] = []
            undo.callback(lambda: self._print(said))
            trail = AuditTrail(plugins, db, self._clock)
            for first in first_credentials(plugins, trail, now_ms, said.append):
                undo.callback(first.show_unknown)
                first.ensure(db)
            if has_console(plugins):
                url = f"http://127.0.0.1:{api_port}"
                with acting(command_actor()):
                    link = link_in(plugins, db, trail)
                said.append(f"console            {url}{link or '/'}" + (f"   ({ONCE})" if link else ""))
            undo.pop_all()
        self._console.print(f"data folder        {self._folder}", soft_wrap=True)
        self._console.print(f"management API     http://127.0.0.1:{api_port}/api/v1", soft_wrap=True)
        self._console.print(f"executor API       http://127.0.0.1:{executor_api_port}", soft_wrap=True)
        self._console.print(f"management token   {token}   (shown once)", soft_wrap=True)
        self._console.print(f"executor token     {executor_token}   (shown once)", soft_wrap=True)
        self._print(said)
        return token, path, f"http://127.0.0.1:{api_port}"

    def _print(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._console.print(line, soft_wrap=True)

    def _conduct(self, client: RestClient, node: Child, executor: Child) -> int | None:
        """Return the exit status; None if a signal came first, and the count is to follow once both have drained."""
        children = (node, executor)
        group_id = self._until_ready(client, node, executor)
        plan = self._create_jobs(client, group_id)
        is_whole = self._watch(client, children, plan)
        if is_whole:
            self._settle(client, children)
        if self._signals.number:
            self._console.print("interrupted: draining")
            return None
        verdict = self._verdict(plan)
        self._tell(verdict, expected_executions(plan), {child.name: child.restarts for child in children})
        return 0 if verdict.ok else 1

    def _verdict(self, plan: Mapping[str, Any]) -> Verdict:
        db = open_database(build_config({"database": {"url": self._url}}), create=False)
        try:
            return verify(db, plan, self._executions)
        finally:
            db.close()

    def _judge_interrupted(self, *children: Child) -> int:
        """Count what ran until the signal came; return 1 if anything ran twice, else 0.

        Whether anything is missing cannot be said: what was due a moment ago may wait in the database.
        """
        plan = json.loads((self._folder / PLAN_FILE).read_text())
        # what is due from now on is left out: without --seconds that is ten years of fires
        verdict = self._verdict({**plan, "end_ms": max(plan["start_ms"], min(plan["end_ms"], self._clock.now_ms()))})
        doubled = [item for item in verdict.findings if item.kind in DOUBLED]
        counted = replace(verdict, findings=doubled)
        self._tell(counted, None, {child.name: child.restarts for child in children})
        return 1 if doubled else 0

    def _until_ready(self, client: RestClient, node: Child, executor: Child) -> int:
        """Wait for the node, start the executor, wait for its registration; return the id of its group."""
        deadline = time.monotonic() + READY_S
        group_id = 0
        while not self._signals.heard(0.05):
            for child in (node, executor):
                child.revive()
            try:
                if not group_id:
                    client.call("GET", "/readyz")
                    group_id = self._group(client)
                    executor.start()
                if client.call("GET", f"/api/v1/groups/{group_id}/executors")["items"]:
                    return group_id
            except XwheelError as error:
                if time.monotonic() > deadline:
                    raise
                logger.debug("not ready yet: %s", error)
            if time.monotonic() > deadline:
                raise XwheelError(f"no executor registered within {READY_S} s")
        raise XwheelError("interrupted before everything had started")

    def _group(self, client: RestClient) -> int:
        known = {group["app_name"]: group["id"] for group in client.call("GET", "/api/v1/groups")["items"]}
        if APP_NAME in known:
            return int(known[APP_NAME])
        return int(client.call("POST", "/api/v1/groups", {"app_name": APP_NAME, "title": "Quickstart"})["id"])

    def _create_jobs(self, client: RestClient, group_id: int) -> dict[str, Any]:
        """Create the jobs, all to fire between two instants that are written down first."""
        start_ms = (self._clock.now_ms() + LEAD_MS + 20 * self._options.rate) // 1000 * 1000 + 1000
        seconds = self._options.seconds if self._options.seconds is not None else ENDLESS_S
        plan: dict[str, Any] = {
            "start_ms": start_ms,
            "end_ms": start_ms + seconds * 1000,
            "rate": self._options.rate,
            "jobs": {},
            "calls": {},
        }
        self._delete_earlier(client, group_id)
        for demo in demo_jobs(self._options.rate):
            body = definition(demo, group_id, start_ms, plan["end_ms"])
            body["enabled"] = body["schedule_type"] != "NONE" and bool(
                demo.due(start_ms, min(plan["end_ms"], start_ms + 60_000))
            )
            plan["jobs"][demo.name] = client.call("POST", "/api/v1/jobs", body)["id"]
        self._write_plan(plan)
        return plan

    def _delete_earlier(self, client: RestClient, group_id: int) -> None:
        """Delete the jobs of an earlier quickstart in the same folder, whose names are taken again."""
        params = {"group_id": group_id, "limit": 1000}
        while found := client.call("GET", "/api/v1/jobs", params=params)["items"]:
            client.call("POST", "/api/v1/jobs/bulk/delete", {"ids": [job["id"] for job in found]})

    def _write_plan(self, plan: Mapping[str, Any]) -> None:
        write_text(self._folder / PLAN_FILE, json.dumps(plan, indent=2))

    def _watch(self, client: RestClient, children: tuple[Child, ...], plan: dict[str, Any]) -> bool:
        """Show the table until the end; False if interrupted."""
        calls = [(demo.name, number) for demo in demo_jobs(self._options.rate) for number in range(demo.calls)]
        is_live = self._console.is_terminal and not self._options.as_json
        with Live(console=self._console, auto_refresh=False) if is_live else nullcontext() as live:
            # a node that comes back late still gets its calls
            while self._clock.now_ms() <= plan["end_ms"] + (1000 * READY_S if calls else 0):
                if self._signals.heard(REFRESH_S):
                    return False
                for child in children:
                    child.revive()
                try:
                    if calls and self._clock.now_ms() > plan["start_ms"]:
                        self._call_by_hand(client, plan, *calls[-1])
                        calls.pop()
                    self._refresh(client, plan["start_ms"])
                except XwheelError as error:
                    logger.debug("the node does not answer: %s", error)
                left_s = (plan["end_ms"] - self._clock.now_ms()) // 1000
                title = "xwheel quickstart: Ctrl-C drains and ends" + (
                    "" if left_s > ENDLESS_S // 2 else f"; {max(0, left_s)} s left"
                )
                if live:
                    live.update(self._board.table(self._clock.now_ms(), title), refresh=True)
        for name, number in calls:
            self._call_by_hand(client, plan, name, number)
        return True

    def _call_by_hand(self, client: RestClient, plan: dict[str, Any], name: str, number: int) -> None:
        job_id = plan["jobs"][name]
        # the key makes a repeated call harmless when the node dies between its commit and its answer
        key = {"Idempotency-Key": f"{plan['start_ms']}-{number}"}
        run = client.call("POST", f"/api/v1/jobs/{job_id}/run", {"param": f"caller {number + 1}"}, headers=key)
        known = plan["calls"].setdefault(name, [])
        if run["id"] not in known:
            known.append(run["id"])
        self._write_plan(plan)

    def _refresh(self, client: RestClient, start_ms: int) -> None:
        jobs = client.call("GET", "/api/v1/jobs", params={"limit": 30})["items"]
        runs = client.call("GET", "/api/v1/runs", params={"from_ms": start_ms, "limit": RUNS})["items"]
        with self._first_fire():
            self._board.update(jobs, runs, is_all=len(runs) < RUNS)

    @contextmanager
    def _first_fire(self) -> Iterator[None]:
        """Print when the first fire was, once, if what is done inside tells it."""
        was_known = self._board.first_ms is not None
        yield
        if not was_known and (line := self._board.first_fire()) is not None:
            self._console.print(line)

    def _settle(self, client: RestClient, children: tuple[Child, ...]) -> None:
        """Wait until no run is open."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and not self._signals.heard(REFRESH_S):
            for child in children:
                child.revive()
            try:
                # jobs first, and all states at once: what a job fires, and what follows a run, is written with its end
                jobs = client.call("GET", "/api/v1/jobs", params={"limit": 1000})["items"]
                open_runs = client.call("GET", "/api/v1/runs", params={"state": OPEN, "limit": 1})["items"]
            except XwheelError as error:
                logger.debug("the node does not answer: %s", error)
                continue
            if not open_runs and not any(job["next_fire_ms"] for job in jobs):
                return

    def _tell(self, verdict: Verdict, expected: int | None, restarts: Mapping[str, int]) -> None:
        """Print the count; without an expected number it is the one of an interrupted demonstration."""
        with self._first_fire():
            self._board.end(verdict.lateness)
        found = [item.text for item in verdict.findings]
        if self._options.as_json:
            facts = {**verdict.facts(), "expected": expected, "restarts": dict(restarts), "mismatches": found}
            print(json.dumps(facts), flush=True)  # noqa: T201 - the one line that machines read
            return
        self._console.print(
            f"{'' if expected is None else f'expected {expected}   '}run rows {verdict.rows}   "
            f"executions {verdict.executions}"
            + (f"   lateness p50 {verdict.late(0.5)} ms, p99 {verdict.late(0.99)} ms" if verdict.lateness else "")
        )
        for text in found[:SHOWN]:
            self._console.print(f"  {text}", style="red", markup=False)
        good = "every fire ran exactly once" if expected is not None else "no fire ran twice"
        is_good = verdict.ok if expected is not None else not found
        words = good if is_good else f"{len(found)} mismatches"
        self._console.print(words, style="green" if is_good else "red")


def _toml(values: Mapping[str, Mapping[str, Any]]) -> str:
    """Write nested values as TOML; JSON's strings, numbers and lists are TOML's too."""
    lines: list[str] = []
    for section, entries in values.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in entries.items()]
    return os.linesep.join(lines) + os.linesep
