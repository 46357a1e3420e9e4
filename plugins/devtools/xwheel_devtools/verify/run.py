"""``xwheel verify``: a load on a cluster that runs, and what came of it."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from xwheel.errors import XwheelError
from xwheel.private_files import make_folder
from xwheel.runtime.signals import StopSignals

from xwheel_devtools.quickstart.processes import Child
from xwheel_devtools.verify.check import HANDLERS, Check, executor_settings
from xwheel_devtools.verify.records import Disturbances, Verdict
from xwheel_devtools.verify.site import Site

SHOWN: Final = 20
REGISTER_S: Final = 60
SETTLE_S: Final = 180
STOP_S: Final = 30
FINDINGS_FILE: Final = "findings.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What the command line asks for.

    Attributes:
        seconds: How long jobs fire.
        rate: Fires a second of jobs to which nothing is done.
        seed: Decides what is done to the other jobs; None for one at random, which is printed.
        folder: Gets executors' logs and what they execute; None for a temporary one, deleted if nothing is found.
        database: URL of the cluster's database, to be watched meanwhile; None to go by the rows alone.
        settle_s: How long to wait for the last runs.
        as_json: Print one JSON object at the end and nothing else on standard output.
        keep: Leave the jobs.
    """

    seconds: int
    rate: int
    seed: int | None = None
    folder: Path | None = None
    database: str | None = None
    settle_s: int = SETTLE_S
    as_json: bool = False
    keep: bool = False


def verify(site: Site, options: VerifyOptions) -> int:
    """Put the load on the cluster; return the exit status: 0 only if nothing was found.

    Executors are started here; their settings (schedulers' addresses, token) are those that ``xwheel executor`` would
    have.
    """
    console = Console(stderr=options.as_json, highlight=False)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="xwheel-verify-"))
    make_folder(folder, ours=frozenset({FINDINGS_FILE}))
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    console.print(f"folder   {folder}\nseed     {seed}", soft_wrap=True)
    verdict = _conduct(site, options, folder.resolve(), seed, console)
    if verdict is None:
        return 1
    _tell(verdict, options, folder, console)
    if verdict.ok and options.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if verdict.ok else 1


def _conduct(site: Site, options: VerifyOptions, folder: Path, seed: int, console: Console) -> Verdict | None:
    """Return the verdict, or None if the load was interrupted."""
    with ExitStack() as stack:
        signals = stack.enter_context(StopSignals())
        signals.be_up()
        children = _start_executors(folder, stack)
        check = stack.enter_context(Check(site, folder, rate=options.rate, resilient=True, people=True, seed=seed))
        _wait_for_executors(check, children, signals)
        check.begin(options.seconds)
        if not options.keep:
            stack.callback(_clean, check, console)
        watcher = None
        if options.database:
            watcher = stack.enter_context(check.watcher(options.database))
        console.print(f"{len(check.ids)} jobs fire for {options.seconds} s; do to the cluster what you like")
        if signals.heard(options.seconds):
            console.print("interrupted: no verdict")
            return None
        check.calm_down()
        for child in children:
            child.revive()
        check.settle(options.settle_s)
        disturbances = Disturbances(executors_ended=True, overdue_limit_ms=None, slack_ms=options.settle_s * 1000)
        return check.judge(watcher.seen if watcher else None, disturbances)


def _start_executors(folder: Path, stack: ExitStack) -> list[Child]:
    found: list[Child] = []
    for name, settings in executor_settings(folder).items():
        environment = {**settings, "XWHEEL_EXECUTOR__PORT": "0"}
        child = Child(name, ["executor", HANDLERS], folder / f"{name}.log", environment)
        child.start()
        stack.callback(child.stop, STOP_S)
        found.append(child)
    return found


def _wait_for_executors(check: Check, children: Sequence[Child], signals: StopSignals) -> None:
    for _ in range(REGISTER_S * 4):
        if check.are_executors_there():
            return
        if signals.heard(0.25):
            raise XwheelError("interrupted before the executors had registered")
        for child in children:
            if child.revive():
                raise XwheelError(f"{child.name} ended:\n{child.tail()}")
    raise XwheelError(
        f"the executors did not register within {REGISTER_S} s: do executor.admin_addresses and "
        f"executor.access_token fit the cluster?\n{children[0].tail()}"
    )


def _clean(check: Check, console: Console) -> None:
    try:
        check.stop()
        problems = check.clean()
    except XwheelError as error:
        problems = [str(error)]
    if problems:
        console.print(f"the jobs are left there: {problems[0]}", style="yellow", markup=False)


def _tell(verdict: Verdict, options: VerifyOptions, folder: Path, console: Console) -> None:
    lines = [f"{item.kind} (invariant {item.invariant}): {item.text}" for item in verdict.findings]
    (folder / FINDINGS_FILE).write_text("\n".join([*lines, ""]))
    if options.as_json:
        facts = {**verdict.facts(), "samples": lines[:SHOWN], "folder": str(folder)}
        print(json.dumps(facts), flush=True)  # noqa: T201 - the one line that machines read
        return
    late = [verdict.late(part) for part in (0.5, 0.99, 1.0)]
    console.print(
        f"due {verdict.due}   run rows {verdict.rows}   executions {verdict.executions}   executed {verdict.executed}\n"
        f"lateness p50 {late[0]} ms, p99 {late[1]} ms, max {late[2]} ms"
    )
    for line in lines[:SHOWN]:
        console.print(f"  {line}", style="red", markup=False)
    if verdict.ok:
        console.print("nothing was lost, nothing ran twice, nothing is stuck", style="green")
        return
    counts = ", ".join(f"{kind} {count}" for kind, count in verdict.counts.items()) or "nothing was due"
    console.print(f"{counts}; invariants that broke: {verdict.invariants or 'none'}; all in {folder}", style="red")
