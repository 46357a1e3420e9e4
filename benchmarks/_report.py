"""Figures and ratios of a benchmark: a table for people, one JSON object for machines.

Every benchmark takes ``--json``; then its last line is exactly one object, ``{"ratios": {name: number}, "figures":
{name: {"min": …, "median": …, "max": …, "unit": …}}}``. A ratio is the median of the ratios of runs made one after
the other, so that what else the machine does meanwhile hits both sides; its spread stands among the figures.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

if importlib.util.find_spec("xwheel") is None:  # a checkout that is not installed
    sys.path.insert(0, str(Path(__file__).parents[1]))


class Report:
    """Collects what a benchmark measured; :meth:`finish` prints it.

    Args:
        description: First line of ``--help``.
        repeats: How often each measurement is made unless ``--repeats`` says otherwise.
    """

    def __init__(self, description: str, repeats: int = 5) -> None:
        self.parser = argparse.ArgumentParser(description=description)
        self.parser.add_argument("--json", action="store_true", help="end with one JSON object")
        self.parser.add_argument("--repeats", type=int, default=repeats, help="runs of each measurement")
        self.args = argparse.Namespace(json=False, repeats=repeats)
        self.ratios: dict[str, float] = {}
        self.figures: dict[str, dict[str, float | str]] = {}
        self._notes: dict[str, str] = {}

    def parse(self, argv: list[str] | None = None) -> argparse.Namespace:
        """Read the command line; a benchmark may add its own options to ``parser`` first."""
        self.args = self.parser.parse_args(argv)
        return self.args

    def figure(self, name: str, samples: Iterable[float], unit: str) -> None:
        """Record one measured quantity, with its spread."""
        values = sorted(samples)
        self.figures[name] = {"min": values[0], "median": statistics.median(values), "max": values[-1], "unit": unit}

    def ratio(self, name: str, slow: list[float], fast: list[float], *, goal: float | None = None) -> None:
        """Record how many times less ``fast`` takes than ``slow``; pairs were measured one after the other."""
        values = [one / other for one, other in zip(slow, fast, strict=True)]
        self.ratios[name] = round(statistics.median(values), 2)
        self.figure(f"{name}.spread", values, "x")
        if goal is not None:
            self._notes[name] = f"goal {goal:g}: {'held' if self.ratios[name] >= goal else 'MISSED'}"

    def note(self, name: str, text: str) -> None:
        """Add words after a figure or ratio in the table."""
        self._notes[name] = text

    def finish(self) -> None:
        """Print the table, and the JSON object if it was asked for."""
        for name, figure in self.figures.items():
            if not name.endswith(".spread"):
                low, middle, high = (float(figure[key]) for key in ("min", "median", "max"))
                print(f"{name:44} {middle:12.4g} {figure['unit']:8} ({low:.4g} to {high:.4g})", end="")
                print(f"  {self._notes[name]}" if name in self._notes else "")
        for name, value in self.ratios.items():
            spread = self.figures[f"{name}.spread"]
            words = f"{name:44} {value:12.2f} x        ({spread['min']:.2f} to {spread['max']:.2f})"
            print(words + (f"  {self._notes[name]}" if name in self._notes else ""))
        if self.args.json:
            print(json.dumps({"ratios": self.ratios, "figures": self.figures}))


def timed(run: Callable[[], object]) -> float:
    """Return how many seconds a call takes; the garbage collector waits."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    finally:
        gc.enable()
