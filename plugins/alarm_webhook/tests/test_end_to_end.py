"""A real node that reports a refused run to a signed robot, over TLS, and tries again when the robot says so."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
from conftest import KEY
from xwheel_devtools.testing import NodeProcess, WebRequest, WebServer, wait_until, web_reply

SECRET = "SEC0123456789abcdef"


def test_a_node_reports_a_refused_run_to_a_signed_robot(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    answers = [web_reply(429, b"{}", {"Retry-After": "1"}), web_reply(200, b'{"errcode":0,"errmsg":"ok"}')]

    def reply(handler: BaseHTTPRequestHandler, seen: WebRequest) -> None:
        answers[min(len(provider.requests), len(answers)) - 1](handler, seen)

    with WebServer(reply, tls=tls) as provider:
        robot = {"url": f"{provider.url}/robot/send?access_token={KEY}", "secret": SECRET}
        settings = {
            "XWHEEL_PLUGINS__OPTIONS": json.dumps({"alarm_webhook": {"dingtalk": {"ops": robot}}}),
            "XWHEEL_EGRESS__ALLOW_NETWORKS": '["127.0.0.1"]',
            "XWHEEL_EGRESS__ALLOW_PORTS": json.dumps([provider.port]),
            "XWHEEL_EGRESS__CA_FILE": str(tmp_path / "ca.pem"),
        }
        with NodeProcess(tmp_path / "node", **settings) as node:
            group_id = node.call("POST", "groups", {"app_name": "empty"})["id"]
            rule = {"kinds": ["refused"], "targets": [{"channel": "dingtalk", "receivers": ["ops", "@all"]}]}
            node.call("POST", "alarms/rules", {"group_id": group_id, **rule})
            job = {"group_id": group_id, "name": "close the day", "handler": "demo"}
            job_id = node.call("POST", "jobs", job)["id"]
            node.call("POST", f"jobs/{job_id}/run", {})

            def answered() -> Any:
                found = node.call("GET", f"alarms/attempts?job_id={job_id}")["items"]
                return len(found) > 1 and all(one["answer"] for one in found) and found

            attempts = wait_until(answered)
            output = node.output.read_text()
    second, first = attempts[:2]
    assert (first["number"], second["number"]) == (1, 2)
    assert first["answer"].startswith("ops: HTTP 429")
    assert second["answer"] == "ops: HTTP 200 errcode 0: ok"
    for text in (json.dumps(attempts), output):
        assert KEY not in text
        assert SECRET not in text
    for seen in provider.requests:
        query = parse_qs(urlsplit(seen.path).query)
        signed = f"{query['timestamp'][0]}\n{SECRET}".encode()
        assert base64.b64decode(query["sign"][0]) == hmac.digest(SECRET.encode(), signed, "sha256")
        body = json.loads(seen.body)
        assert "close the day" in body["text"]["content"]
        assert body["at"]["isAtAll"] is True
