"""What run listeners cost the pipeline: fires per second with one that sleeps, with one that counts, and without any.

The same node, executor and database fire thousands of jobs at once, in turn without a listener, with one that sleeps a
second at every call, and with one that only counts what it is told. Each is a plugin that the node finds by its entry
point; the node is started again in between, since plugins load at start-up.
"""

from __future__ import annotations

import json
import signal

from xwheel_devtools.quickstart.processes import Child

from benchmarks._report import Report
from benchmarks._site import Site, site
from benchmarks.pipeline import measure_flat_out
from tests.support.plugin_homes import lay_plugin

GOAL = 0.95
KINDS = ("none", "sleeping", "counting")
MODULE = """\
import time
from xwheel.plugin import hookimpl

class Listener:
    name = "bench"
    told = 0

    def on_change(self, changes):
        {body}

@hookimpl
def xwheel_register_run_listeners(config):
    return [Listener()]
"""


def start_with(place: Site, kind: str) -> None:
    """Start the node with one listener, or with none."""
    place.stop_node()
    disabled = [f"bench_{name}" for name in KINDS[1:] if name != kind]
    place.node = Child(
        "node",
        ["server"],
        place.folder / "node.log",
        {
            "XWHEEL_CONFIG": str(place.folder / "xwheel.toml"),
            "XWHEEL_PLUGINS__DISABLED": json.dumps(disabled),
            "PYTHONPATH": str(place.folder / "plugins"),
        },
    )
    place.start_node()


def main() -> None:
    """Measure each kind in turn."""
    report = Report(__doc__ or "", repeats=5)
    report.parser.add_argument("--fires", type=int, default=10_000, help="jobs due at once")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    used: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with site() as place:
        for name, body in (("sleeping", "time.sleep(1)"), ("counting", "self.told += len(changes)")):
            lay_plugin(place.folder / "plugins", f"bench_{name}", MODULE.format(body=body))
        measure_flat_out(place, args.fires)  # what comes first pays for an empty file
        for turn in range(args.repeats):
            for kind in KINDS if turn % 2 else reversed(KINDS):
                start_with(place, kind)
                _, final, cpu = measure_flat_out(place, args.fires)
                rates[kind].append(final)
                used[kind].append(cpu["node"])
    for kind in KINDS:
        report.figure(f"final, listener: {kind}", rates[kind], "fires/s")
        report.figure(f"CPU per fire, node, listener: {kind}", used[kind], "us")
    for kind in KINDS[1:]:
        slow, fast = [1 / rate for rate in rates["none"]], [1 / rate for rate in rates[kind]]
        report.ratio(f"rate with a {kind} listener / without", slow, fast, goal=GOAL)
        # what else the machine does hardly shows in this one
        report.ratio(f"CPU without / with a {kind} listener", used["none"], used[kind])
    report.finish()


if __name__ == "__main__":
    main()
