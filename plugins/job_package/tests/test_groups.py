"""A package belongs to groups: each call answers only to them, whatever is shown."""

from __future__ import annotations

import http.client
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from archives import JOB, wheel
from xwheel_devtools.testing import NodeSite, check_routes, wait_until

from xwheel_job_package.routes import PackageRoutes
from xwheel_job_package.service import PackageService
from xwheel_job_package.store_options import StoreOptions

SHARED = "a-secret-that-all-executors-share"
TOKEN_HEADER = "XXL-JOB-ACCESS-TOKEN"
APP_HEADER = "XXL-JOB-APPNAME"
OURS = "ours"
"""A team whose packages no one else may see; its executors have a secret of their own."""

THEIRS = "theirs"
"""Another team, from which the attacks come."""

PROJECT, VERSION, MODULE = "hush-hush", "7.3.1", "secluded"
UNKNOWN = 987_654
ROUTES: Mapping[tuple[str, str], Mapping[str, int]] = {
    # what a viewer and an admin of another group are answered; "" is what executors are
    ("POST", ""): {"viewer": 403, "admin": 409},
    ("GET", ""): {"viewer": 200, "admin": 200},
    ("GET", "/{package_id:id}"): {"viewer": 404, "admin": 404},
    ("GET", "/{package_id:id}/file"): {"viewer": 403, "admin": 404, "executor": 404},
    ("GET", "/{package_id:id}/sources"): {"viewer": 403, "admin": 404},
    ("GET", "/{package_id:id}/sources/text"): {"viewer": 403, "admin": 404},
    ("GET", "/limits"): {"viewer": 200, "admin": 200},
    ("GET", "/projects"): {"viewer": 200, "admin": 200},
    ("GET", "/projects/{project}"): {"viewer": 404, "admin": 404},
    ("PUT", "/projects/{project}/groups"): {"viewer": 403, "admin": 404},
    ("GET", "/{package_id:id}/jobs"): {"viewer": 404, "admin": 404},
    ("POST", "/{package_id:id}/switch"): {"viewer": 403, "admin": 404},
    ("GET", "/jobs"): {"viewer": 200, "admin": 200},
    ("GET", "/jobs/{job_id:id}"): {"viewer": 404, "admin": 404},
    ("POST", "/jobs/{job_id:id}/operations"): {"viewer": 404, "admin": 404},
    ("GET", "/jobs/{job_id:id}/operations"): {"viewer": 404, "admin": 404},
    ("GET", "/jobs/{job_id:id}/versions"): {"viewer": 404, "admin": 404},
    ("POST", "/jobs/{job_id:id}/run"): {"viewer": 404, "admin": 404},
    ("DELETE", "/{package_id:id}"): {"viewer": 403, "admin": 404},
}
LISTS = ("", "/projects", "/jobs")


@dataclass
class Site:
    """A node with a store, two teams, and who belongs to them."""

    node: NodeSite
    folder: Path
    groups: dict[str, int]
    people: dict[str, str]
    secrets: dict[str, str]

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        token: str = "",
        secret: str = "",
        app_name: str = "",
    ) -> tuple[int, bytes]:
        """Return status and content of an answer, of the executor API if a secret is shown."""
        base = (self.node.executor_url if secret else self.node.url).removeprefix("http://")
        headers = {TOKEN_HEADER: secret} if secret else {"Authorization": f"Bearer {token or self.node.token}"}
        headers |= {APP_HEADER: app_name} if app_name else {}
        with closing(http.client.HTTPConnection(base, timeout=60)) as conn:
            with suppress(BrokenPipeError, ConnectionResetError):
                conn.request(method, f"/api/v1/packages{path}", body, headers)
            answer = conn.getresponse()
            return answer.status, answer.read()

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        status, content = self.call(method, path, None if body is None else json.dumps(body).encode(), **more)
        return status, json.loads(content) if content else None

    def upload(self, path: Path, query: str = "", **more: Any) -> tuple[int, Any]:
        status, content = self.call("POST", f"?file={path.name}{query}", path.read_bytes(), **more)
        return status, json.loads(content)

    def token(self, name: str, **grants: str) -> str:
        """Make a token with roles in named groups."""
        rights = [{"group_id": self.groups[group], "role": role} for group, role in grants.items()]
        made = self.node.call("POST", "tokens", {"name": name, "groups": rights})
        return str(made["token"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("groups")
    options = {"job_package": {"store": {"directory": str(folder / "packages")}}}
    settings = {"api": {"port": 0, "executor_port": 0, "executor_token": SHARED}}
    with NodeSite(folder / "node", "job_package", options=options, executors=0, settings=settings) as node:
        groups = {
            name: node.call("POST", "groups", {"app_name": name, "title": name})["id"]
            for name in ("package-nodes", OURS, THEIRS, "open")
        }
        secrets = {
            name: node.call("POST", "secrets", {"name": f"of-{name}", "group_id": groups[name]})["secret"]
            for name in (OURS, THEIRS)
        }
        found = Site(node, folder, groups, {}, secrets)
        found.people = {
            "viewer": found.token("their-viewer", theirs="viewer"),
            "admin": found.token("their-admin", theirs="admin"),
            "ours": found.token("our-admin", ours="admin"),
            "our-viewer": found.token("our-viewer", ours="viewer"),
            "both": found.token("both-admin", ours="admin", theirs="admin"),
        }
        made = node.call("POST", "tokens", {"name": "their-code", "group_id": groups[THEIRS]})
        found.people["code"] = made["token"]
        yield found


@pytest.fixture(scope="module")
def package(site: Site) -> Any:
    """Return the package of one team, uploaded by its own admin."""
    path = secret_wheel(site.folder)
    status, found = site.upload(path, token=site.people["ours"])
    assert status == 201, found
    assert found["groups"] == [OURS]
    return found


def secret_wheel(folder: Path, version: str = VERSION, more: str = "") -> Path:
    files = {f"{MODULE}/__init__.py": "", f"{MODULE}/jobs.py": JOB + more}
    return wheel(folder, files, name="hush_hush", version=version)


def routes() -> Sequence[Any]:
    return check_routes(PackageRoutes(StoreOptions(directory="/nowhere")))


def filled(path: str, package: Any, *, unknown: bool = False) -> str:
    job_id = package["jobs"][0]["job_id"]
    return (
        path.replace("{package_id:id}", str(UNKNOWN if unknown else package["id"]))
        .replace("{job_id:id}", str(UNKNOWN if unknown else job_id))
        .replace("{project}", "no-such-thing" if unknown else PROJECT)
    )


def body_of(method: str, path: str, folder: Path) -> tuple[str, bytes | None]:
    """Return what a call sends that would be right of somebody who may."""
    if (method, path) == ("POST", ""):
        made = secret_wheel(folder, "8.0.0")
        return f"?file={made.name}", made.read_bytes()
    bodies = {
        "/{package_id:id}/switch": {"job_ids": [1]},
        "/projects/{project}/groups": {"groups": [THEIRS]},
        "/jobs/{job_id:id}/operations": {"operation": "Start"},
        "/jobs/{job_id:id}/run": {},
    }
    query = f"?path={MODULE}/jobs.py" if path.endswith("/text") else ""
    return query, json.dumps(bodies[path]).encode() if path in bodies and method != "GET" else None


def test_each_route_says_what_strangers_are_answered() -> None:
    """A route that comes later is none that is forgotten here."""
    assert {(route.method, route.path) for route in routes()} == set(ROUTES)


@pytest.mark.parametrize("who", ["viewer", "admin"])
@pytest.mark.parametrize(("method", "path"), list(ROUTES))
def test_a_stranger_learns_nothing(site: Site, package: Any, who: str, method: str, path: str, tmp_path: Path) -> None:
    """S15: what is another team's is not there: no list has it, and its ids answer as ids of nothing do."""
    query, body = body_of(method, path, tmp_path)
    status, content = site.call(method, filled(path, package) + query, body, token=site.people[who])
    assert status == ROUTES[method, path][who], content
    said = content.decode()
    for word in (package["sha256"], package["sha256"][:12], MODULE, VERSION, OURS + '"', "our-admin"):
        assert word not in said, word
    if status == 200 and path in LISTS:
        assert json.loads(content)["items"] == []
    if status == 404:
        assert same(content) == same(
            site.call(method, filled(path, package, unknown=True) + query, body, token=site.people[who])[1]
        )


def same(content: bytes) -> dict[str, Any]:
    """Return an answer without what differs from one object to the other anyway."""
    found: dict[str, Any] = json.loads(content)
    return {key: value for key, value in found.items() if key not in {"detail", "instance", "request_id"}}


@pytest.mark.parametrize("who", ["secret", "shared", "code"])
def test_a_stranger_s_executor_gets_nothing(site: Site, package: Any, who: str) -> None:
    """S15: each route for executors, with each kind of secret that another group's executor may show."""
    shown = {"secret": (site.secrets[THEIRS], ""), "shared": (SHARED, ""), "code": (site.people["code"], THEIRS)}
    secret, app_name = shown[who]
    mine = [route for route in routes() if route.for_executors]
    assert mine
    for route in mine:
        wanted = 401 if who == "code" else ROUTES[route.method, route.path]["executor"]
        for path in (filled(route.path, package), filled(route.path, package, unknown=True)):
            status, content = site.call(route.method, path, secret=secret, app_name=app_name)
            assert (status, b"PK" in content[:2]) == (wanted, False), content


def test_its_own_executors_get_it(site: Site, package: Any) -> None:
    for secret, wanted in ((site.secrets[OURS], 200), (site.secrets[THEIRS], 404), (SHARED, 404)):
        assert site.call("GET", f"/{package['id']}/file", secret=secret)[0] == wanted


def test_its_own_people_see_it(site: Site, package: Any) -> None:
    for name in ("ours", "our-viewer"):
        token = site.people[name]
        assert [item["id"] for item in site.ask("GET", "", token=token)[1]["items"]] == [package["id"]]
        assert [item["project"] for item in site.ask("GET", "/projects", token=token)[1]["items"]] == [PROJECT]
        assert site.ask("GET", f"/{package['id']}", token=token)[1]["groups"] == [OURS]
        jobs = site.ask("GET", "/jobs", token=token)[1]["items"]
        assert [item["job_id"] for item in jobs] == [package["jobs"][0]["job_id"]]
    job = site.node.call("GET", f"jobs/{package['jobs'][0]['job_id']}")
    assert job["group_id"] == site.groups[OURS]
    assert site.call("GET", f"/{package['id']}/file", token=site.people["ours"])[0] == 200
    assert site.call("GET", f"/{package['id']}/file", token=site.people["our-viewer"])[0] == 403


def test_a_new_version_is_for_those_who_may_all(site: Site, package: Any, tmp_path: Path) -> None:
    """A name that is taken is refused without a word about whose it is; a viewer of it is told what it takes."""
    path = secret_wheel(tmp_path, VERSION, "# other\n")
    status, refused = site.upload(path, token=site.people["admin"])
    assert (status, refused["reason"], refused.get("facts", {})) == (409, "project_taken", {})
    mixed = site.token("mixed", ours="viewer", theirs="admin")
    status, refused = site.upload(path, token=mixed)
    assert status == 403, refused
    status, refused = site.upload(secret_wheel(tmp_path, "7.4.0"), f"&groups={THEIRS}", token=site.people["both"])
    assert (status, refused["reason"]) == (409, "groups_differ")
    status, found = site.upload(secret_wheel(tmp_path, "7.4.0"), token=site.people["ours"])
    assert (status, found["groups"]) == (201, [OURS])
    assert site.call("DELETE", f"/{found['id']}", token=site.people["ours"])[0] == 200


def test_groups_are_named_by_those_who_may(site: Site, tmp_path: Path) -> None:
    def send(name: str, query: str = "", who: str = "") -> tuple[int, Any]:
        made = wheel(tmp_path, {f"{name}/jobs.py": JOB}, name=name)
        return site.upload(made, query, token=site.people.get(who, ""))

    assert send("one", who="both")[1]["field"] == "groups"
    status, refused = send("one", f"&groups={OURS}", "admin")
    assert (status, refused["field"]) == (422, "groups")
    assert refused["detail"] == send("one", "&groups=nothing", "admin")[1]["detail"].replace("nothing", OURS)
    assert send("one", "&groups=*", "admin")[0] == 403
    status, found = send("one", f"&groups={THEIRS},{OURS}", "both")
    assert (status, found["groups"]) == (201, [THEIRS, OURS])
    assert site.node.call("GET", f"jobs/{found['jobs'][0]['job_id']}")["group_id"] == site.groups[THEIRS]
    assert send("two")[1]["groups"] == ["package-nodes"]
    status, every = send("three", "&groups=*")
    assert (status, every["groups"]) == (201, ["*"])
    for secret in (site.secrets[OURS], site.secrets[THEIRS], SHARED):
        assert site.call("GET", f"/{every['id']}/file", secret=secret)[0] == 200
    assert site.ask("GET", f"/{every['id']}", token=site.people["viewer"])[0] == 200
    assert site.call("DELETE", f"/{every['id']}", token=site.people["admin"])[0] == 403
    for item in site.ask("GET", "")[1]["items"]:
        if item["project"] in {"one", "two", "three"}:
            assert site.call("DELETE", f"/{item['id']}")[0] == 200


def test_the_shared_secret_is_for_groups_without_one(site: Site, tmp_path: Path) -> None:
    """What the shared secret covers ends with the first secret of the group's own."""
    made = wheel(tmp_path, {"open/jobs.py": JOB}, name="open_jobs")
    found = site.upload(made, "&groups=open")[1]
    assert site.call("GET", f"/{found['id']}/file", secret=SHARED)[0] == 200
    assert site.call("GET", f"/{found['id']}/file", secret=site.secrets[OURS])[0] == 404
    own = {"name": "of-open", "group_id": site.groups["open"]}
    secret = site.node.call("POST", "secrets", own)["secret"]
    assert site.call("GET", f"/{found['id']}/file", secret=SHARED)[0] == 404
    wait_until(lambda: site.call("GET", f"/{found['id']}/file", secret=secret)[0] == 200)
    assert site.call("DELETE", f"/{found['id']}")[0] == 200


def test_groups_are_changed_by_those_who_may_all(site: Site, tmp_path: Path) -> None:
    made = wheel(tmp_path, {"moves/jobs.py": JOB}, name="moves")
    found = site.upload(made, token=site.people["ours"])[1]
    path = "/projects/moves/groups"
    assert site.ask("PUT", path, {"groups": [OURS, THEIRS]}, token=site.people["ours"])[1]["field"] == "groups"
    assert site.ask("PUT", path, {"groups": [OURS]}, token=site.people["our-viewer"])[0] == 403
    for wrong in ({}, {"groups": []}, {"groups": "ours"}, {"groups": [1]}, {"groups": [OURS], "more": 1}):
        assert site.ask("PUT", path, wrong, token=site.people["ours"])[1]["field"] == "groups"
    status, changed = site.ask("PUT", path, {"groups": [OURS, THEIRS]}, token=site.people["both"])
    assert (status, changed["groups"]) == (200, [OURS, THEIRS])
    assert site.ask("GET", f"/{found['id']}", token=site.people["viewer"])[1]["groups"] == [THEIRS]
    assert site.call("GET", f"/{found['id']}/file", secret=site.secrets[THEIRS])[0] == 200
    assert site.ask("PUT", path, {"groups": [OURS]}, token=site.people["ours"])[0] == 403
    assert site.call("DELETE", f"/{found['id']}", token=site.people["admin"])[0] == 403
    refused = site.ask("PUT", path, {"groups": [THEIRS]}, token=site.people["both"])[1]
    assert (refused["reason"], refused["facts"]["jobs"]) == ("group_in_use", [found["jobs"][0]["job_id"]])
    assert site.ask("PUT", path, {"groups": [OURS]}, token=site.people["both"])[1]["groups"] == [OURS]
    assert site.call("GET", f"/{found['id']}/file", secret=site.secrets[THEIRS])[0] == 404
    assert site.call("DELETE", f"/{found['id']}", token=site.people["ours"])[0] == 200
    noted = Counter(
        (row["action"], row["group_id"])
        for row in site.node.call("GET", "audit?limit=100")["items"]
        if (row["object_kind"], row["object_id"]) in {("package", str(found["id"])), ("project", "moves")}
    )
    ours, theirs = site.groups[OURS], site.groups[THEIRS]
    moved = {("package.groups", ours): 2, ("package.groups", theirs): 2}
    assert noted == {("package.upload", ours): 1, **moved, ("package.delete", ours): 1}
    (last, first) = (
        row["detail"]["after"]
        for row in site.node.call("GET", "audit?limit=100&action=package.groups")["items"]
        if row["group_id"] == theirs
    )
    assert (first["groups"], last["groups"]) == ([ours, theirs], [ours])


def test_two_teams_may_have_modules_of_one_name(site: Site, package: Any, tmp_path: Path) -> None:
    """A name of a job is taken in its group alone, and whose it is is said to those who may know."""
    files = {f"{MODULE}/__init__.py": "", f"{MODULE}/jobs.py": JOB}
    status, found = site.upload(wheel(tmp_path, files, name="lookalike"), token=site.people["admin"])
    assert status == 201, found
    assert found["jobs"][0]["job_id"] != package["jobs"][0]["job_id"]
    status, refused = site.upload(wheel(tmp_path, files, name="rival"), token=site.people["ours"])
    assert (status, refused["reason"]) == (422, "job_name_taken")
    assert PROJECT in refused["detail"]
    assert site.call("DELETE", f"/{found['id']}", token=site.people["admin"])[0] == 200


def test_a_job_of_another_project_is_not_taken(
    site: Site, package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N36: two uploads at once that pass the check of names: the second one gets no hold of the first one's job."""
    before = site.ask("GET", f"/jobs/{package['jobs'][0]['job_id']}")[1]
    monkeypatch.setattr(PackageService, "_refuse_taken", lambda *_: None)
    files = {f"{MODULE}/__init__.py": "", f"{MODULE}/jobs.py": JOB}
    status, refused = site.upload(wheel(tmp_path, files, name="rival"), token=site.people["ours"])
    assert (status, refused["type"].rpartition(":")[2]) == (409, "name-taken"), refused
    assert site.ask("GET", f"/jobs/{before['job_id']}")[1] == before
    for item in site.ask("GET", "")[1]["items"]:
        if item["project"] == "rival":
            assert site.call("DELETE", f"/{item['id']}")[0] == 200
    assert site.ask("GET", f"/jobs/{before['job_id']}")[1] == before


def test_a_package_of_a_group_that_is_gone_is_for_those_who_may_all(site: Site, tmp_path: Path) -> None:
    gone = site.node.call("POST", "groups", {"app_name": "short-lived", "title": ""})["id"]
    made = wheel(tmp_path, {"orphan/__init__.py": ""}, name="orphan")
    found = site.upload(made, "&groups=short-lived&allow_empty=true")[1]
    site.node.call("DELETE", f"groups/{gone}")
    assert site.ask("GET", f"/{found['id']}", token=site.people["both"])[0] == 404
    newer = wheel(tmp_path, {"orphan/__init__.py": ""}, name="orphan", version="2.0")
    status, again = site.upload(newer, f"&groups={OURS}&allow_empty=true")
    assert (status, again["groups"]) == (201, [OURS]), again
    for item in (found, again):
        assert site.call("DELETE", f"/{item['id']}", token=site.people["ours"])[0] == 200


def test_the_command_names_groups(site: Site, tmp_path: Path) -> None:
    made = wheel(tmp_path, {"typed/jobs.py": JOB}, name="typed")
    (tmp_path / "token").write_text(site.node.token)
    (tmp_path / "token").chmod(0o600)
    where = ["--url", site.node.url, "--token-file", str(tmp_path / "token")]

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "xwheel", "package", *words, *where]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert f"of {OURS}, {THEIRS}" in run("upload", str(made), "--group", OURS, "--group", THEIRS)
    assert f"{OURS}, {THEIRS}" in run("list")
    assert run("groups", "typed", "--group", "*").strip() == "typed: *"
    assert run("groups", "typed").strip() == "typed: *"
    (item,) = [one for one in site.ask("GET", "")[1]["items"] if one["project"] == "typed"]
    assert site.call("DELETE", f"/{item['id']}")[0] == 200


def test_a_job_is_of_a_package_of_its_group(site: Site, package: Any, tmp_path: Path) -> None:
    """Where a group has lost a package, by a backup or by hand, its jobs of it are neither started nor switched."""
    job_id = package["jobs"][0]["job_id"]
    newer = site.upload(secret_wheel(tmp_path, "7.5.0"), token=site.people["ours"])[1]

    def give(name: str) -> None:
        with closing(sqlite3.connect(site.folder / "node" / "node.db", timeout=30)) as conn, conn:
            statement = "UPDATE job_package_owner SET group_id = ? WHERE project = ?"
            assert conn.execute(statement, (site.groups[name], PROJECT)).rowcount == 1

    give(THEIRS)
    try:
        for body in ({"operation": "Start"}, {"operation": "Restart", "package_id": newer["id"]}):
            status, refused = site.ask("POST", f"/jobs/{job_id}/operations", body)
            assert (status, refused["reason"]) == (422, "not_of_group"), refused
        assert site.ask("GET", f"/jobs/{job_id}/versions", token=site.people["ours"])[1]["items"] == []
        # what belongs to no one is for those who have their rights everywhere
        with closing(sqlite3.connect(site.folder / "node" / "node.db", timeout=30)) as conn, conn:
            conn.execute("DELETE FROM job_package_owner WHERE project = ?", (PROJECT,))
        assert site.ask("GET", f"/{newer['id']}", token=site.people["both"])[0] == 404
        assert site.ask("GET", f"/{newer['id']}")[1]["groups"] == []
        for secret in (SHARED, *site.secrets.values()):
            assert site.call("GET", f"/{newer['id']}/file", secret=secret)[0] == 404
        assert site.ask("PUT", f"/projects/{PROJECT}/groups", {"groups": [OURS]})[1]["groups"] == [OURS]
    finally:
        site.node.call("PUT", f"packages/projects/{PROJECT}/groups", {"groups": [OURS]})
    assert site.call("DELETE", f"/{newer['id']}", token=site.people["ours"])[0] == 200
