"""``python -m tests.faults.soak.moving``: run movements by hand, and say what broke."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.faults.soak.cluster import GALERA, PAIRS, databases
from tests.faults.soak.movements import MOVEMENTS, Result, run
from tests.support.databases import BACKENDS
from xwheel.errors import XwheelError

SHOWN: Final = 12
HEADS: Final = ("run", "backend", "movement", "due", "rows", "executed")
OF_PAIRS: Final = ("failover", "automatic_failover", "pair_upgrade")
OF_MEMBERS: Final = ("member", "member_upgrade")
FIVE: Final = ("join", "leave", "rolling", "kill", "database")
COUNTED: Final = ("skipped", "lost", "double", "missing", "refused")
COLUMNS: Final = (*HEADS, *COUNTED, "other", "p50", "p99", "max", "window-p99")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the movements; return 1 if something broke."""
    options = _parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every process is stopped then too
    home = Path(tempfile.mkdtemp(prefix="xwheel-checker-"))
    facts: list[dict[str, Any]] = []
    for backend in options.backend:
        with databases(backend, home) as fresh:
            for movement in options.movement:
                for number in range(1, options.times + 1):
                    folder = home / f"{backend}-{movement}-{number}"
                    found = _once(fresh(), folder, movement, options)
                    facts.append({"run": number, "backend": backend, "movement": movement, **found})
                    if found["ok"] and not options.keep:
                        shutil.rmtree(folder, ignore_errors=True)
                    if not options.json:
                        _print(facts[-1])
    broken = sum(not item["ok"] for item in facts)
    if not broken and not options.keep:
        shutil.rmtree(home, ignore_errors=True)
    if options.json:
        print(json.dumps(facts, indent=1))
    else:
        _print_table(facts)
        print(f"{len(facts) - broken} of {len(facts)} runs held" + (f"; what is left is in {home}" if broken else ""))
    return 1 if broken else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak.moving", description=__doc__)
    parser.add_argument(
        "--backend",
        action="append",
        choices=["sqlite", *sorted(BACKENDS), *PAIRS, GALERA],
        help="again for more; default: mariadb",
    )
    parser.add_argument(
        "--movement", action="append", choices=[*MOVEMENTS, "all"], help="again for more; all: the five on two nodes"
    )
    parser.add_argument("--times", type=int, default=1, help="runs of each movement (default 1)")
    parser.add_argument("--rate", type=int, default=60, help="fires a second in sum, at least 20 (default 60)")
    parser.add_argument(
        "--seconds", type=int, default=0, help="how long jobs fire at least; default: until the movement is over"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list at the end and nothing else")
    parser.add_argument("--keep", action="store_true", help="keep the folders of runs that held, too")
    options = parser.parse_args(arguments)
    if options.rate < 20:
        parser.error("--rate must be at least 20: jobs of every schedule type need this many")
    options.backend = options.backend or ["mariadb"]
    names = options.movement or ["all"]
    options.movement = list(FIVE) if "all" in names else names
    for kind, backends in ((OF_PAIRS, PAIRS), (OF_MEMBERS, (GALERA,))):
        if any((name in kind) != (backend in backends) for name in options.movement for backend in options.backend):
            parser.error(f"{', '.join(kind)} are possible, and nothing else, with --backend {' and '.join(backends)}")
    if "sqlite" in options.backend and set(options.movement) != {"restart"}:
        parser.error("on sqlite there is one node, so that only --movement restart is possible")
    return options


def _once(url: str, folder: Path, movement: str, options: argparse.Namespace) -> dict[str, Any]:
    try:
        result = run(url, folder, [movement], rate=options.rate, least_s=options.seconds)
    except (RuntimeError, OSError, XwheelError) as error:
        return {"ok": False, "problems": [str(error)], "folder": str(folder)}
    _write(result)
    return {**result.facts(), "samples": [item.text for item in result.verdict.findings[:SHOWN]]}


def _write(result: Result) -> None:
    """Leave everything that was found next to the logs."""
    lines = [f"{item.kind} (invariant {item.invariant}): {item.text}" for item in result.verdict.findings]
    (result.folder / "findings.txt").write_text("\n".join([*result.problems, *result.late, *lines, ""]))
    (result.folder / "result.json").write_text(json.dumps(result.facts(), indent=1))


def _print(item: dict[str, Any]) -> None:
    word = "held" if item["ok"] else "BROKE"
    print(f"{item['backend']} {item['movement']} {item['run']}: {word}; {_line(item)}", flush=True)
    if not item["ok"]:
        broken = item.get("invariants")
        lines = [*item["problems"], *item.get("samples", [])]
        lines += [f"invariants that broke: {broken}"] if broken else []
        for line in [*lines, f"kept in {item['folder']}"]:
            print(f"    {line}", flush=True)


def _line(item: dict[str, Any]) -> str:
    if "due" not in item:
        return "it did not come to a verdict"
    found = ", ".join(f"{name} {count}" for name, count in item["findings"].items()) or "nothing found"
    windows = "; ".join(
        f"{name} took {facts['seconds']:.1f} s, late p50 {facts['lateness_ms']['p50']}"
        f" p99 {facts['lateness_ms']['p99']} max {facts['lateness_ms']['max']} ms"
        for name, facts in item["windows"].items()
    )
    return f"due {item['due']}, rows {item['rows']}, executed {item['executed']}; {found}; {windows}"


def _print_table(facts: Sequence[dict[str, Any]]) -> None:
    rows = [list(COLUMNS), *(_cells(item) for item in facts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _cells(item: dict[str, Any]) -> list[str]:
    head = [str(item["run"]), item["backend"], item["movement"]]
    if "due" not in item:
        return [*head, *["-"] * (len(COLUMNS) - len(head))]
    found, late = item["findings"], item["lateness_ms"]
    other = sum(found.values()) - sum(found.get(name, 0) for name in COUNTED)
    window = "/".join(str(facts["lateness_ms"]["p99"]) for facts in item["windows"].values())
    counts = [item["due"], item["rows"], item["executed"], *(found.get(name, 0) for name in COUNTED), other]
    return [*head, *map(str, [*counts, late["p50"], late["p99"], late["max"], window])]


if __name__ == "__main__":
    sys.exit(main())
