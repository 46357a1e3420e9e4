"""What a request with a session costs more than one with a token: in turn, over one kept connection each, to one node.

The call reads one group by id, which is little next to what a request costs anyway. SQLite; the node is a process of
its own. Baseline: the same call with a token for everything. The session is read again each second, as always.
"""

from __future__ import annotations

import http.client
import statistics
import time

from xwheel_accounts.accounts import AccountManager

from benchmarks._report import Report
from benchmarks._site import Site, site
from xwheel.access.rights import Rights
from xwheel.clock import SystemClock
from xwheel.config import Config
from xwheel.model.access import ALL
from xwheel.plugin.discovery import load_plugins
from xwheel.scheduler.audit_trail import AuditTrail

NAME = "bench"
PASSWORD = "nine blue ducks on a wall"  # of an account that lives as long as the benchmark
GOAL_MS = 0.3
CALLS = 400


def sign_in(place: Site) -> str:
    """Make an account, and return the cookie of a session of it."""
    clock = SystemClock()
    plugins = load_plugins(Config())
    trail = AuditTrail(plugins, place.db, clock)
    manager = AccountManager(place.db, clock, trail, Rights(plugins.gates))
    manager.create(NAME, ALL, password=PASSWORD, must_change=False)
    conn = http.client.HTTPConnection("127.0.0.1", place.port)
    body = f'{{"name": "{NAME}", "password": "{PASSWORD}"}}'
    conn.request("POST", "/api/v1/session", body, {"Content-Type": "application/json"})
    answer = conn.getresponse()
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    answer.read()
    conn.close()
    return cookie


Way = tuple[http.client.HTTPConnection, dict[str, str]]


def measure(ways: dict[str, Way], path: str) -> dict[str, float]:
    """Return the median time of a call in each way, in milliseconds; the calls are made in turn."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(CALLS):
        for name in sorted(ways, reverse=bool(number % 2)):
            conn, headers = ways[name]
            begin = time.perf_counter()
            conn.request("GET", path, headers=headers)
            answer = conn.getresponse()
            answer.read()
            times[name].append(time.perf_counter() - begin)
            if answer.status != http.client.OK:
                raise SystemExit(f"{path}: {answer.status}")
    return {name: statistics.median(samples) * 1000 for name, samples in times.items()}


def main() -> None:
    """Measure, and print."""
    report = Report(__doc__ or "", repeats=9)
    report.parse()
    with site(with_executor=False) as place:
        cookie = sign_in(place)
        path = f"/api/v1/groups/{place.group_id}"
        shown = {"token": {"Authorization": f"Bearer {place.token}"}, "session": {"Cookie": cookie}}
        ways = {name: (http.client.HTTPConnection("127.0.0.1", place.port), headers) for name, headers in shown.items()}
        measure(ways, path)
        rounds = [measure(ways, path) for _ in range(report.args.repeats)]
        for conn, _ in ways.values():
            conn.close()
    found = {name: [one[name] for one in rounds] for name in ways}
    for name, samples in found.items():
        report.figure(f"a call with a {name}", samples, "ms")
    more = [one - other for one, other in zip(found["session"], found["token"], strict=True)]
    report.figure("more with a session", more, "ms")
    middle = float(report.figures["more with a session"]["median"])
    report.note("more with a session", f"goal below {GOAL_MS} ms: {'held' if middle < GOAL_MS else 'MISSED'}")
    report.ratio("session / token", found["session"], found["token"])
    report.finish()


if __name__ == "__main__":
    main()
