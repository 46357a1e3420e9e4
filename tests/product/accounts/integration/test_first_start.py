"""U22: a node says where its console is and how people sign in; at its first start by a link that does it once."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests
from xwheel_devtools.testing import NodeProcess
from xwheel_devtools.testing.processes import XwheelProcess

pytestmark = pytest.mark.processes


def test_u22_a_server_says_where_its_console_is_and_signs_the_first_person_in(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        link = node.find(r"console \(signs in once, for ten minutes\): (.*)")
        address, _, secret = link.partition("/#/login?link=")
        assert address == node.url
        assert requests.get(f"{address}/", timeout=30).ok
        entered = requests.post(f"{address}/api/v1/session", json={"link": secret}, timeout=30)
        assert (entered.status_code, entered.json()["role"]) == (201, "admin")
    with XwheelProcess(tmp_path, "server", "--port", "0", "--executor-port", "0") as again:
        said = again.find("console on (http.*)")
        assert "sign in with an account's name and password, or a link of 'xwheel account link NAME'" in said
    assert "link=" not in again.output.read_text()
