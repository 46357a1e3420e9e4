"""What a connection to MariaDB does as its driver would, in less time."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

pymysql = pytest.importorskip("pymysql")

from pymysql.constants import SERVER_STATUS  # noqa: E402 - the driver may be missing

from tests.support.tls import Authority  # noqa: E402
from xwheel.storage.database.watched_pymysql import WatchedPyMySQL  # noqa: E402

NO_BACKSLASH = SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES
HARD = [*map(chr, range(300)), "\\'", "'\\", '\\\\"', "\\n\n", "\0'\x1a%s %(a)s", "\N{SNOWMAN}", ""]


@pytest.mark.parametrize("status", [0, NO_BACKSLASH])
def test_values_are_written_as_the_driver_writes_them(status: int) -> None:
    ours = WatchedPyMySQL(defer_connect=True)
    drivers = pymysql.connections.Connection(defer_connect=True)
    ours.server_status = drivers.server_status = status
    for value in (*HARD, "".join(HARD), b"'\\", 1, None, True, 1.5):
        assert ours.escape(value, ours.encoders) == drivers.escape(value, drivers.encoders)


def test_connections_without_certificates_share_what_tls_needs(tmp_path: Path) -> None:
    first, second = (WatchedPyMySQL(defer_connect=True) for _ in range(2))
    checked = WatchedPyMySQL(defer_connect=True, ssl={"ca": str(Authority(tmp_path).file)})
    assert first.ctx is second.ctx
    assert first.ctx.verify_mode == pymysql.connections.Connection(defer_connect=True).ctx.verify_mode
    assert checked.ctx is not first.ctx
    assert checked.ctx.verify_mode is ssl.CERT_REQUIRED
