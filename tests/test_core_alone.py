"""What this suite says holds for a core with no plugins but those that the extra ``server`` brings."""

from __future__ import annotations

from importlib.metadata import entry_points


def test_no_other_plugin_is_installed() -> None:
    found = {entry.dist.name for entry in entry_points(group="xwheel") if entry.dist}
    assert found == {
        "xwheel",
        "xwheel-accounts",
        "xwheel-console",
        "xwheel-devtools",
        "xwheel-jobs-as-code",
    }, "plugins are tested in environments of their own: run 'make clean', then 'make test'"
