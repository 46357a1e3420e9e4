"""``python -m tests.faults.soak``: random faults from seeds, on each database, and what was found."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.faults.mutants.names import MUTANTS
from tests.faults.soak.cluster import GALERA, PAIR
from tests.faults.soak.seeds import DISK_MB, Ground
from tests.support import servers
from tests.support.small_disk import unshare

BACKENDS: Final = ("sqlite", "mariadb", "postgresql")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; return 1 if something was found."""
    options = _parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every process is stopped then too
    if len(options.backend) == 1:
        return _one_backend(options)
    first = secrets.randbelow(10**6) if options.first is None else options.first
    home = Path(tempfile.mkdtemp(prefix="xwheel-soak-"))
    print(f"seeds {first} to {first + options.seeds - 1}; folder {home}", flush=True)
    began = time.monotonic()
    children = [
        _lane(options, backend, seeds, home)
        for number, backend in enumerate(options.backend)
        if (seeds := list(range(first + number, first + options.seeds, len(options.backend))))
    ]
    try:
        statuses = [child.wait() for child in children]
    finally:
        for child in children:
            child.terminate()
    facts = [json.loads(path.read_text()) for path in sorted(home.glob("*/*/result.json"))]
    _summary(facts, options.seeds, time.monotonic() - began)
    if not any(statuses):
        shutil.rmtree(home, ignore_errors=True)
    return int(any(statuses))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many (default 3), shared by the databases")
    parser.add_argument("--first", type=int, help="the first seed; default: at random")
    parser.add_argument("--seconds", type=int, default=12, help="how long jobs fire (default 12)")
    parser.add_argument(
        "--backend",
        action="append",
        choices=[*BACKENDS, PAIR, GALERA],
        help=f"again for more; default: {', '.join(BACKENDS)}, side by side",
    )
    parser.add_argument("--list", help="these seeds, between commas, instead of several in a row")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="run xwheel with a guard taken out")
    parser.add_argument("--until-caught", action="store_true", help="end at the first seed that finds something")
    parser.add_argument("--keep", action="store_true", help="keep the folders of seeds that held, too")
    parser.add_argument("--folder", type=Path, help="for a single database: where everything is kept")
    parser.add_argument("--disk", type=Path, help="for sqlite: a small disk for the database file")
    options = parser.parse_args(arguments)
    options.backend = options.backend or _there()
    return options


def _there() -> list[str]:
    """Return the databases that are installed; where all are required, all of them."""
    is_required = bool(os.environ.get("REQUIRE_SERVERS"))
    found = [name for name in BACKENDS if name == "sqlite" or is_required or servers.is_installed(name)]
    for name in set(BACKENDS) - set(found):
        print(f"{name} is not installed and left out")
    return found


def _lane(options: argparse.Namespace, backend: str, seeds: Sequence[int], home: Path) -> subprocess.Popen[bytes]:
    words = ["--backend", backend, "--list", ",".join(map(str, seeds)), "--seconds", str(options.seconds)]
    words += ["--folder", str(home / backend)]
    words += ["--mutant", options.mutant] if options.mutant else []
    words += [word for word in ("--keep", "--until-caught") if getattr(options, word[2:].replace("-", "_"))]
    program = [sys.executable, "-m", "tests.faults.soak", *words]
    if backend == "sqlite":
        disk = home / "disk"
        disk.mkdir()
        program = unshare(str(disk), DISK_MB, [*program, "--disk", str(disk)], as_root=False)
    return subprocess.Popen(program)


def _seeds(options: argparse.Namespace) -> Iterator[int]:
    if options.list:
        yield from map(int, options.list.split(","))
    else:
        first = secrets.randbelow(10**6) if options.first is None else options.first
        yield from range(first, first + options.seeds)


def _one_backend(options: argparse.Namespace) -> int:
    (backend,) = options.backend
    home = options.folder or Path(tempfile.mkdtemp(prefix="xwheel-soak-"))
    home.mkdir(parents=True, exist_ok=True)
    broken = 0
    with Ground(backend, home, options.disk) as ground:
        for seed in _seeds(options):
            folder = home / str(seed)
            try:
                result = ground.run(seed, seconds=options.seconds, mutant=options.mutant)
            except RuntimeError as error:
                print(f"{backend} seed {seed}: BROKE; {error}", flush=True)
                broken += 1
                continue
            _print(result.facts())
            broken += not result.ok
            if result.ok and not options.keep:
                for path in [*folder.glob("*.log"), *folder.glob("*.executions"), *folder.glob("*-data")]:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            if broken and options.until_caught:
                break
    return int(broken > 0)


def _print(facts: dict[str, Any]) -> None:
    word = "held" if facts["ok"] else "BROKE"
    found = ", ".join(f"{name} {count}" for name, count in facts["findings"].items()) or "nothing found"
    late = facts["lateness_ms"]
    print(
        f"{facts['backend']} seed {facts['seed']}: {word} in {facts['seconds']} s; due {facts['due']}, rows "
        f"{facts['rows']}, executed {facts['executed']}; {found}; late p50 {late['p50']} p99 {late['p99']} ms",
        flush=True,
    )
    if not facts["ok"]:
        settled = [] if facts["settled"] else ["not settled in time"]
        for line in [*facts["faults"], *facts["problems"], *settled, *facts["samples"]]:
            print(f"    {line}", flush=True)
        print(f"    invariants that broke: {facts['invariants'] or 'none'}; kept in {facts['folder']}", flush=True)


def _summary(facts: Sequence[dict[str, Any]], seeds: int, seconds: float) -> None:
    for backend in (*BACKENDS, PAIR, GALERA):
        mine = [item for item in facts if item["backend"] == backend]
        if mine:
            found = sum((Counter(item["findings"]) for item in mine), Counter[str]())
            kinds = Counter(kind for item in mine for kind in item["kinds"])
            print(
                f"{backend}: {sum(item['ok'] for item in mine)} of {len(mine)} seeds held; due "
                f"{sum(item['due'] for item in mine)}, executed {sum(item['executed'] for item in mine)}; "
                f"{dict(found) or 'nothing found'}; faults {dict(kinds)}"
            )
    print(f"{sum(item['ok'] for item in facts)} of {seeds} seeds held in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
