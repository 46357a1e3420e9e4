"""What is not needed any more goes back."""

from __future__ import annotations

from pathlib import Path

from xwheel.runtime.memory import tidy

BLOCK = 100_000  # what is larger, the allocator gives back by itself
MB = 1024 * 1024


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_what_is_free_between_what_is_used_goes_back_to_the_system() -> None:
    """Steady: a node kept 17 MB of its 126 for nothing after 40 minutes."""
    blocks = [b"x" * BLOCK for _ in range(640)]
    kept = blocks[::16]
    del blocks
    before = _resident()
    tidy()
    assert before - _resident() > 30 * MB
    assert len(kept) == 40
