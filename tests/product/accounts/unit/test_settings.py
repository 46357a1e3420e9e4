"""The sections of the settings come with the distributions that read them, and cost a process nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from xwheel.config import load_config
from xwheel.errors import ConfigError


def test_settings_of_distributions_are_read_without_their_plugins() -> None:
    code = (
        "import sys; from xwheel.config import load_config; print(load_config().accounts.providers[0], "
        "{'sqlalchemy', 'xwheel.plugin', 'xwheel_accounts.identities'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "local set()\n"


@pytest.mark.parametrize("section", ["accounts", "alarm", "audit", "run_logs"])
def test_an_unknown_key_in_a_section_of_ours_is_refused(section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"XWHEEL_{section.upper()}__NOTHING_OF_THAT_NAME", "1")
    with pytest.raises(ConfigError, match=rf"^{section}\.nothing_of_that_name is not a setting; known: "):
        load_config()
