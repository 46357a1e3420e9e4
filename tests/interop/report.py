"""Prints the table of peers and steps after the tests."""

from __future__ import annotations

import pytest

from tests.interop.expectations import ODD, USUAL

PROPERTY = "interop"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was seen with each peer in this run."""
    seen: dict[str, dict[str, str]] = {}
    for name in ("passed", "failed"):
        for report in terminalreporter.stats.get(name, []):
            seen |= dict(value for key, value in getattr(report, "user_properties", ()) if key == PROPERTY)
    if not seen:
        return
    terminalreporter.section("peers")
    peers = sorted(seen)
    widths = [max(len(peer), 6) for peer in peers]
    write = terminalreporter.write_line
    write(" " * 38 + "  ".join(peer.ljust(width) for peer, width in zip(peers, widths, strict=True)))
    odd: list[str] = []
    for name, usual in USUAL.items():
        cells = []
        for peer in peers:
            text = seen[peer].get(name, "nothing")
            known = ODD.get((peer, name))
            if text == usual.seen and known is None:
                cells.append("yes")
                continue
            cells.append("odd" if known is not None and text == known.seen else "WRONG")
            odd.append(f"{peer}, {usual.title}: {text[:300]}")
        words = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        write(usual.title.ljust(38) + words)
    for line in odd:
        write(line)
