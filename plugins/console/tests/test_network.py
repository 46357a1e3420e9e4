"""Where the console goes: to its node alone, wherever that is mounted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from conftest import PASSWORD, Site, Watch, opened, visit
from playwright.sync_api import Browser, expect
from tests.support import chromium

PLACES = (
    "/",
    "/jobs",
    "/jobs/new",
    "/runs",
    "/nodes",
    "/executors",
    "/calendars",
    "/audit",
    "/alarms",
    "/accounts",
    "/system",
    "/me",
    "/welcome",
    "/wall",
)


def test_every_page_loads_and_asks_nobody_else(browser: Browser, site: Site, tmp_path: Path, watch: Watch) -> None:
    """By the browser's own record of its connections, and not by what its pages say."""
    log = tmp_path / "net.json"
    flags = chromium.flags(f"--log-net-log={log}")
    recorded = browser.browser_type.launch(executable_path=chromium.PLACE, headless=True, args=flags)
    with opened(recorded, site, watch) as context:
        context.add_cookies([site.signed_in("chief")])
        page = context.new_page()
        for place in PLACES:
            visit(page, site, place)
    recorded.close()
    record = json.loads(log.read_text())
    types = {number: name for name, number in record["constants"]["logEventTypes"].items()}
    tried = [
        event["params"]["address"]
        for event in record["events"]
        if types[event["type"]] == "TCP_CONNECT_ATTEMPT" and "address" in event.get("params", {})
    ]
    assert tried
    assert {address.rpartition(":")[0] for address in tried} == {"127.0.0.1"}
    assert not [event for event in record["events"] if types[event["type"]] == "UDP_BYTES_SENT"]


class Proxy(ThreadingHTTPServer):
    """Serves a node below a prefix, which it strips, and nothing else."""

    daemon_threads = True

    def __init__(self, target: str, prefix: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def forward(self) -> None:
                if not self.path.startswith(prefix):
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = requests.request(
                    self.command,
                    target + self.path.removeprefix(prefix.rstrip("/")),
                    data=body,
                    headers={**self.headers, "Accept-Encoding": "identity"},
                    timeout=30,
                    allow_redirects=False,
                )
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.forward)
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}{prefix}"


@pytest.fixture
def mounted(site: Site) -> Iterator[str]:
    """The console behind a proxy at the address that XXL-JOB's users know."""
    proxy = Proxy(site.url, "/xxl-job-admin/")
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    yield proxy.url
    proxy.shutdown()
    thread.join()
    proxy.server_close()


def test_it_works_below_a_prefix(browser: Browser, site: Site, mounted: str, watch: Watch) -> None:
    job_id = site.job("mounted")
    watch.allowed.append("401")
    with browser.new_context(locale="en-US") as context:
        watch.attach(context, mounted)
        page = context.new_page()
        page.goto(f"{mounted}#/login?to=/jobs%3Fq%3Dmounted")
        page.get_by_label("Name").fill("chief")
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        row = page.locator(f"tr[data-id='{job_id}']")
        row.focus()
        page.keyboard.press("r")
        expect(page.locator(".note.good")).to_contain_text("mounted will run now")
        for place in PLACES:
            page.goto(f"{mounted}#{place}")
            expect(page.locator("[data-page] h1").first).to_be_visible()
    site.wait_for_runs(job_id, 1)
