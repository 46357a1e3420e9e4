"""A short siege: S2 and S3 on all three listeners of real processes; ``siege`` itself takes as long as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.siege import FEW, lay


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "per_address"), [("127.0.0.2", 256), pytest.param("127.0.0.1", 0, marks=pytest.mark.nightly)]
)
def test_s2_s3_strangers_stop_no_listener(tmp_path: Path, source: str, per_address: int) -> None:
    siege = lay(tmp_path, 4, source=source, per_address=per_address)
    # how soon is the long siege's question: another program may have the machine for a while
    assert not any(probe.failures for probe in siege.probes), str(siege)
    assert all(len(probe.took_s) >= FEW for probe in siege.probes), str(siege)
    assert siege.finished >= 1
    assert siege.beats >= FEW
