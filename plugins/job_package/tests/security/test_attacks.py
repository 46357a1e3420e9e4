"""Attacks at the whole, as findings S12, S13 and S15 tell them: a node, an executor that trusts one key, an editor.

The editor has ``script`` in one group and may upload nothing. The attacker also knows a service token of that group and
the secret that executors share. What came of it is looked at in the end: which file a foreign call would have made, and
which connection an installer would have opened.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from conftest import Place
from test_groups import LISTS, ROUTES, body_of
from wheels import make_wheel, sha256_of
from xwheel import Config
from xwheel.executor import Executor
from xwheel.wire.codec import encode_log_request, encode_trigger, read_log_data
from xwheel.wire.contract import LOG, RUN, join_url
from xwheel.wire.http import post
from xwheel.wire.messages import LogRequest, Response, TriggerRequest
from xwheel_devtools.testing import NodeSite, WebServer, wait_until, web_reply

from xwheel_job_package.signatures import new_key, sign

PASSWORD = "a long enough sentence, 17"
SECRET = "a-secret-that-all-executors-share"
MINE, OURS = "demo", "ours"
"""The group of the attacker and the executor, and another team's."""

NOW = 1_800_000_000_000
CODE = """
from xwheel_package import schedule

@schedule()
def hello():
    return "hello"

@schedule()
def other():
    return "other"

def plain(parameter):
    open(parameter["mark"], "w").close()
"""
HUSH = CODE.replace('return "hello"', "open(MARK, 'w').close()")


@dataclass
class Site:
    """What is attacked, and what the attacker has."""

    node: NodeSite
    executor: str
    folder: Path
    mark: Path
    web: WebServer
    private: str
    groups: dict[str, int]
    session: requests.Session
    own_token: str
    service_token: str
    secrets: dict[str, str]
    job_id: int = 0
    honest: str = ""
    hidden: Any = None

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Call as the editor, signed in."""
        return self.session.request(method, f"{self.node.url}/api/v1/{path}", json=body, timeout=60)

    def upload(self, path: Path, group: str) -> Any:
        """Upload as an admin of all groups, signed with the key that is trusted."""
        project, version = path.name.split("-")[:2]
        query = {"file": path.name, "groups": group, "signature": sign(self.private, project, version, sha256_of(path))}
        answer = requests.post(
            f"{self.node.url}/api/v1/packages",
            params=query,
            data=path.read_bytes(),
            headers={"Authorization": f"Bearer {self.node.token}"},
            timeout=60,
        )
        assert answer.status_code == 201, answer.text
        return answer.json()

    def source(self, package: Any, name: str) -> tuple[int, str]:
        job_id = next(item["job_id"] for item in package["jobs"] if item["name"] == name)
        return job_id, self.node.call("GET", f"jobs/{job_id}/glue/1")["source"]

    def call_executor(self, path: str, body: bytes) -> Response:
        """Call the executor itself, as a scheduler does."""
        return post(join_url(self.executor, path), body, token=SECRET, timeout_s=60)

    def end_of(self, run_id: int) -> str:
        """Return the executor's log of a run that has ended."""
        request = encode_log_request(LogRequest(run_id=run_id, created_ms=NOW))

        def ended() -> str:
            found = read_log_data(self.call_executor(LOG, request).data)
            return found.content if found.is_end else ""

        return str(wait_until(ended))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("attacks")
    private, public = new_key()
    with WebServer(web_reply(404)) as web, pytest.MonkeyPatch.context() as patch:
        # what a machine may be set to, of which index = "none" takes nothing
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_PROXY"):
            patch.setenv(name, web.url)
        options = {
            "job_package": {
                "store": {"directory": str(folder / "packages"), "trusted_keys": [public], "group": MINE},
                "node": {"index": "none", "trusted_keys": [public]},
            }
        }
        settings = {"api": {"port": 0, "executor_port": 0, "executor_token": SECRET}}
        with (
            NodeSite(
                folder / "node", "job_package", "xxl_calls", options=options, executors=0, settings=settings
            ) as node,
            Executor(
                Config(
                    plugins={"options": options},  # type: ignore[arg-type]
                    executor={  # type: ignore[arg-type]
                        "script_environment": ["PIP_*"],
                        "admin_addresses": [node.executor_url],
                        "access_token": SECRET,
                    },
                ),
                allowed_glue_types=["PACKAGE"],
                app_name=MINE,
                host="127.0.0.1",
                port=0,
                data_dir=folder / "executor",
                stop_timeout_s=5,
            ) as executor,
        ):
            wait_until(lambda: executor.is_registered)
            yield _attacked(node, executor.address, folder, web, private)


def _attacked(node: NodeSite, address: str, folder: Path, web: WebServer, private: str) -> Site:
    groups = {item["app_name"]: item["id"] for item in node.call("GET", "groups")["items"]}
    groups[OURS] = node.call("POST", "groups", {"app_name": OURS, "title": OURS})["id"]
    rights = [{"group_id": groups[MINE], "role": "editor", "script": True}]
    node.call("POST", "accounts", {"name": "eve", "password": PASSWORD, "groups": rights})
    session = requests.Session()
    session.trust_env = False
    url = f"{node.url}/api/v1"
    first = session.post(f"{url}/session", json={"name": "eve", "password": PASSWORD}, timeout=30)
    assert first.status_code == 201, first.text
    session.headers["X-Xwheel-CSRF"] = first.json()["csrf"]
    if first.json().get("must_change"):
        body = {"old_password": PASSWORD, "password": f"{PASSWORD} more"}
        assert session.put(f"{url}/me/password", json=body, timeout=30).status_code in (200, 204)
    token = node.call("POST", "tokens", {"name": "eve-too", "groups": rights})["token"]
    service = node.call("POST", "tokens", {"name": "of-mine", "group_id": groups[MINE]})["token"]
    secret = node.call("POST", "secrets", {"name": "of-ours", "group_id": groups[OURS]})["secret"]
    mark = folder / "mark"
    secrets = {"shared": SECRET, OURS: secret}
    site = Site(node, address, folder, mark, web, private, groups, session, token, service, secrets)
    files = {"acme/__init__.py": "", "acme/jobs.py": CODE}
    package = site.upload(make_wheel(folder, "acme", "1.0", files), MINE)
    site.job_id, site.honest = site.source(package, "hello")
    files = {"secluded/__init__.py": "", "secluded/jobs.py": HUSH.replace("MARK", repr(str(mark)))}
    site.hidden = site.upload(make_wheel(folder, "secluded", "7.3", files), OURS)
    return site


def _with(site: Site, **changes: Any) -> str:
    return json.dumps({**json.loads(site.honest), **changes})


FOREIGN: Mapping[str, Callable[[Site], str]] = {
    "another module": lambda site: _with(site, group="logging.config", name="dictConfig"),
    "not marked": lambda site: _with(site, name="plain"),
    "an attribute": lambda site: _with(site, group="acme.jobs.hello", name="__call__"),
    "another team's": lambda site: site.source(site.hidden, "hello")[1],
    "unsigned": lambda site: _with(site, signature=""),
}


def shell(site: Site) -> str:
    """Return a parameter with which what is foreign would leave a mark."""
    return json.dumps(
        {
            "version": 1,
            "mark": str(site.mark),
            "handlers": {"h": {"class": "subprocess.Popen", "args": ["touch", str(site.mark)]}},
        }
    )


def _fields(site: Site, source: str, **more: Any) -> dict[str, Any]:
    known = {"group_id": site.groups[MINE], "name": "evil", "schedule_type": "NONE", "param": shell(site)}
    return {**known, "glue_type": "PACKAGE", "glue_source": source, **more}


def create(site: Site, source: str) -> str:
    return refused(site.call("POST", "jobs", _fields(site, source)))


def create_started(site: Site, source: str) -> str:
    fields = _fields(site, source, schedule_type="FIX_RATE", schedule_conf="1", enabled=True)
    return refused(site.call("POST", "jobs", fields))


def change(site: Site, source: str) -> str:
    body = {"glue_source": source, "param": shell(site)}
    return refused(site.call("PATCH", f"jobs/{site.job_id}", body))


def editor(site: Site, source: str) -> str:
    return refused(site.call("POST", f"jobs/{site.job_id}/glue", {"source": source, "remark": "mine"}))


def job_file(site: Site, source: str) -> str:
    """Import a file of jobs, by the command and with a token of the same rights."""
    fields = {key: value for key, value in _fields(site, source).items() if key != "group_id"}
    group = {"app_name": MINE, "title": "Demo", "jobs": [fields]}
    (site.folder / "jobs.yaml").write_text(json.dumps({"groups": [group]}))
    command = [sys.executable, "-m", "xwheel", "job", "apply", "-f", str(site.folder / "jobs.yaml")]
    settings = {"XWHEEL_URL": site.node.url, "XWHEEL_TOKEN": site.own_token}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **settings}
    )
    assert done.returncode, done.stdout
    return done.stdout + done.stderr


def add_job(site: Site, source: str) -> str:
    """Make a job by XXL-JOB's call, with the group's token."""
    body = {
        "name": "evil",
        "scheduleType": "NONE",
        "misfireStrategy": "DO_NOTHING",
        "executorRouteStrategy": "FIRST",
        "executorBlockStrategy": "SERIAL_EXECUTION",
        "executorParam": shell(site),
        "glueType": "PACKAGE",
        "glueSource": source,
        "glueRemark": "mine",
    }
    answer = requests.post(
        f"{site.node.executor_url}/api/addJob",
        json=body,
        headers={"XXL-JOB-ACCESS-TOKEN": site.service_token, "XXL-JOB-APPNAME": MINE},
        timeout=60,
    )
    assert (answer.status_code, answer.json()["code"]) == (200, 500), answer.text
    return str(answer.json()["msg"])


def declare(site: Site, source: str) -> str:
    """Declare a job of the glue type, with the group's token: code declares handlers and nothing else."""
    job = {"name": "evil", "place": "evil.py", "glue_type": "PACKAGE", "glue_source": source}
    body = {"app_name": MINE, "release": "1.0", "digest": "a" * 64, "instance": "one", "jobs": [job]}
    answer = requests.post(
        f"{site.node.url}/api/v1/declarations/sync",
        json=body,
        headers={"Authorization": f"Bearer {site.service_token}"},
        timeout=60,
    )
    if answer.status_code == 200:
        assert answer.json()["steps"] == [], answer.text
        return str(answer.json()["problems"])
    return refused(answer)


def refused(answer: requests.Response) -> str:
    assert answer.status_code in (400, 403, 409, 422), answer.text
    return answer.text


WAYS: Mapping[str, Callable[[Site, str], str]] = {
    "create": create,
    "create and start": create_started,
    "change": change,
    "editor": editor,
    "job file": job_file,
    "addJob": add_job,
    "declarations": declare,
}


def kept(site: Site) -> list[tuple[str, int, str]]:
    """Return the jobs of the group with the versions of their sources."""
    jobs = site.node.call("GET", f"jobs?group_id={site.groups[MINE]}&limit=1000")["items"]
    return [(item["name"], item["glue_version"], item["param"]) for item in jobs]


@pytest.mark.parametrize("way", WAYS)
def test_no_way_saves_a_source_that_names_something_else(site: Site, way: str) -> None:
    """S12: each route that takes a source, with each kind of source that would call what no one signed as a job."""
    before = kept(site)
    # a command takes a second to start, and sends what another way sends
    for make in [FOREIGN["another module"]] if way == "job file" else FOREIGN.values():
        words = WAYS[way](site, make(site))
        assert any(name in words for name in ("glue_source", "glueSource", "glue_type", "Glue")), words
        assert "secluded" not in words
        assert kept(site) == before


def test_old_sources_and_copies_are_no_way_around(site: Site) -> None:
    """S12, S15: a source that was right once comes back only while the package is the group's."""
    files = {"lent/__init__.py": "", "lent/jobs.py": HUSH.replace("MARK", repr(str(site.mark)))}
    lent = site.upload(make_wheel(site.folder, "lent", "1.0", files), MINE)
    _, source = site.source(lent, "other")
    made = site.call("POST", "jobs", _fields(site, site.honest, name="mine"))
    assert made.status_code == 201, made.text
    job_id = made.json()["id"]
    number = site.call("POST", f"jobs/{job_id}/glue", {"source": source, "remark": "lent"}).json()["number"]
    revision = site.call("GET", f"jobs/{job_id}").json()["revision"]
    twin = site.call("POST", "jobs", _fields(site, source, name="twin")).json()["id"]
    back = site.call("POST", f"jobs/{job_id}/glue", {"source": site.honest, "remark": "back"})
    assert back.status_code == 201, back.text
    gone = requests.delete(
        f"{site.node.url}/api/v1/packages/{lent['id']}?force=true",
        headers={"Authorization": f"Bearer {site.node.token}"},
        timeout=60,
    )
    assert gone.status_code == 200, gone.text
    before = kept(site)
    for method, path, body in (
        ("POST", f"jobs/{job_id}/glue/{number}/restore", {"remark": "back"}),
        ("POST", f"jobs/{job_id}/versions/{revision}/restore", {}),
        ("POST", f"jobs/{twin}/copy", {"name": "a copy"}),
    ):
        assert f"no package {lent['id']}" in refused(site.call(method, path, body))
    assert kept(site) == before


def test_the_executors_own_call_runs_nothing_else(site: Site) -> None:
    """S12: ``/run`` with the secret that executors share and no role at all."""
    site.mark.unlink(missing_ok=True)
    reasons = {}
    for number, (what, make) in enumerate(FOREIGN.items(), 9_000_001):
        known = {"job_id": number, "created_ms": NOW, "glue_type": "PACKAGE", "glue_updated_ms": NOW}
        request = TriggerRequest(run_id=number, glue_source=make(site), param=shell(site), **known)
        answer = site.call_executor(RUN, encode_trigger(request))
        reasons[what] = site.end_of(number) if answer.ok else str(answer.message)
    for what, reason in (
        ("another module", "no_such_job"),
        ("not marked", "no_such_job"),
        ("an attribute", "no_such_job"),
        ("another team's", "package_missing"),  # the shared secret is not that of the other team
        ("unsigned", "unsigned_package"),
    ):
        assert reason in reasons[what], (what, reasons[what])
    assert not site.mark.exists()


def test_what_may_run_runs_and_nothing_else_did(site: Site) -> None:
    """After all the attacks above: each job of the group is run, and only honest ones are there."""
    site.mark.unlink(missing_ok=True)
    for item in site.node.call("GET", f"jobs?group_id={site.groups[MINE]}&limit=1000")["items"]:
        if item["name"] != "twin":  # of the package that is gone
            started = site.call("POST", f"jobs/{item['id']}/run", {"param": "{}"})
            assert started.status_code == 201, started.text
            run = site.node.wait_for_run(started.json()["id"])
            assert (run["state"], run["message"] in ("hello", "other")) == ("succeeded", True), run
    assert not site.mark.exists()


def test_an_editor_uploads_nothing(site: Site) -> None:
    path = make_wheel(site.folder, "mine", "1.0", {"mine.py": CODE})
    signature = sign(site.private, "mine", "1.0", sha256_of(path))
    answer = site.session.post(
        f"{site.node.url}/api/v1/packages",
        params={"file": path.name, "signature": signature},
        data=path.read_bytes(),
        timeout=60,
    )
    assert answer.status_code == 403, answer.text


@pytest.mark.parametrize(("method", "path"), list(ROUTES))
def test_another_teams_package_is_not_there(site: Site, method: str, path: str, tmp_path: Path) -> None:
    """S15: for the editor as for a token of theirs, what is not refused by their role is not found."""
    job_id = site.hidden["jobs"][0]["job_id"]
    named = (
        path.replace("{package_id:id}", str(site.hidden["id"]))
        .replace("{job_id:id}", str(job_id))
        .replace("{project}", "secluded")
    )
    query, body = body_of(method, path, tmp_path)
    for headers in ({}, {"Authorization": f"Bearer {site.own_token}"}):
        caller = requests if headers else site.session
        answer = caller.request(  # type: ignore[attr-defined]
            method, f"{site.node.url}/api/v1/packages{named}{query}", data=body, headers=headers, timeout=60
        )
        wanted = 404 if path.endswith("/switch") else ROUTES[method, path]["viewer"]
        assert answer.status_code == wanted, answer.text
        assert not any(word in answer.text for word in ("secluded.jobs", "7.3", site.hidden["sha256"]))
        if path in LISTS and method == "GET":
            assert all(item.get("project") != "secluded" for item in answer.json()["items"])


def test_executors_of_others_get_no_file(site: Site) -> None:
    """S15: with the shared secret, a service token, and the other way round with the other team's own."""
    url = f"{site.node.executor_url}/api/v1/packages"
    package_id = json.loads(site.honest)["package_id"]
    for number, secret, status in (
        (site.hidden["id"], SECRET, 404),
        (package_id, SECRET, 200),
        (package_id, site.secrets[OURS], 404),
        (site.hidden["id"], site.secrets[OURS], 200),
        (site.hidden["id"], site.service_token, 401),
        (site.hidden["id"], site.own_token, 401),
    ):
        answer = requests.get(f"{url}/{number}/file", headers={"XXL-JOB-ACCESS-TOKEN": secret}, timeout=60)
        assert answer.status_code == status, (number, answer.text[:200])


def test_index_none_opens_no_connection(site: Site, make_place: Callable[..., Place], tmp_path: Path) -> None:
    """S13: a dependency that is nowhere, one by an address, and a machine that is set to an index and a proxy."""
    files = {"needy/__init__.py": "", "needy/jobs.py": CODE}
    package = site.upload(make_wheel(tmp_path, "needy", "1.0", files, requires=["nowhere"]), MINE)
    job_id, _ = site.source(package, "hello")
    run = site.node.wait_for_run(site.call("POST", f"jobs/{job_id}/run", {}).json()["id"])
    assert (run["state"], "env_build_failed" in run["message"]) == ("failed", True), run
    # signed honestly and never seen by a store: only the node can refuse it
    private, public = new_key()
    place = make_place({"trusted_keys": [public]}, shares=False)
    evil = f"evil @ {site.web.url}/evil-1.0.tar.gz"
    inside = make_wheel(tmp_path, "inside", "1.0", {"inside.py": ""}, requires=[evil])
    for number, (wanted, more) in enumerate(
        (([evil], {}), (["inside"], {f"wheels/{inside.name}": inside.read_bytes()})), 1
    ):
        path = make_wheel(tmp_path, "acme", f"{number}.0", {**files, **more}, requires=wanted)
        known = place.store.add(path, group="needy.jobs")
        signature = sign(private, "acme", f"{number}.0", known.sha256)
        code, text = place.run(msgspec.structs.replace(known, signature=signature))
        assert (code, text.partition(":")[0]) == (500, "direct_reference"), text
    assert site.web.requests == []
