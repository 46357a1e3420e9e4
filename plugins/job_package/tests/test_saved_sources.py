"""S12: a scheduler saves a source only if it names a job that was found in that package at its upload."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from wheels import make_wheel
from xwheel_devtools.testing import NodeSite

from xwheel_job_package.reference import PackageReference

CODE = "from xwheel_package import schedule\n@schedule()\ndef hello(): ...\n@schedule()\ndef bye(): ...\n"


class Site(NamedTuple):
    """A node with a store, two versions of a package, and what the store wrote as the source of ``acme.hello``."""

    node: NodeSite
    job_id: int
    source: dict[str, Any]
    other: dict[str, Any]

    def call(self, method: str, path: str, body: Any) -> requests.Response:
        return requests.request(
            method,
            f"{self.node.url}/api/v1/{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.node.token}"},
            timeout=60,
        )

    @property
    def group_id(self) -> int:
        return int(self.node.call("GET", f"jobs/{self.job_id}")["group_id"])


def upload(node: NodeSite, path: Path) -> dict[str, Any]:
    answer = requests.post(
        f"{node.url}/api/v1/packages",
        params={"file": path.name},
        data=path.read_bytes(),
        headers={"Authorization": f"Bearer {node.token}"},
        timeout=60,
    )
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@contextmanager
def site_in(folder: Path) -> Iterator[Site]:
    store = {"job_package": {"store": {"directory": str(folder / "store")}}}
    with NodeSite(folder / "node", "job_package", options=store, executors=0) as node:
        node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})
        found = []
        for version, code in (("1.0", CODE), ("2.0", CODE.replace("def bye", "def good_bye"))):
            made = upload(node, make_wheel(folder, "acme", version, {"acme.py": code}))
            job = next(item for item in made["jobs"] if item["name"] in ("bye", "good_bye"))
            number = next(item["job_id"] for item in made["jobs"] if item["name"] == "hello")
            found.append(json.loads(node.call("GET", f"jobs/{job['job_id']}/glue/1")["source"]))
        yield Site(node, number, {**found[0], "name": "hello"}, {**found[1], "name": "hello"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A node on which nothing is saved."""
    with site_in(tmp_path_factory.mktemp("saved")) as found:
        yield found


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """A node of one test."""
    with site_in(tmp_path) as found:
        yield found


WRONG: Mapping[str, tuple[Mapping[str, object], str]] = {
    "another module": ({"group": "logging.config", "name": "dictConfig"}, "group and name: "),
    "an attribute": ({"group": "acme.hello", "name": "__call__"}, "group and name: "),
    "not of this version": ({"name": "good_bye"}, "group and name: "),
    "another hash": ({"sha256": "0" * 64}, "sha256: "),
    "no such package": ({"package_id": 99}, "package_id: "),
    "another version": ({"version": "2.0"}, "version: "),
    "another project": ({"package": "other"}, "package: "),
    "another file": ({"file": "acme-1.0.zip"}, "file: "),
    "a container": ({"container": "Container"}, "container: "),
    "another call": ({"call": "static"}, "call: "),
    "a signature": ({"signature": "x"}, "signature: "),
    "a dotted name": ({"name": "x.hello"}, ""),
}


def fields_of(site: Site, source: str, **more: Any) -> dict[str, Any]:
    return {"group_id": site.group_id, "glue_type": "PACKAGE", "glue_source": source, "schedule_type": "NONE", **more}


def create(site: Site, source: str) -> requests.Response:
    return site.call("POST", "jobs", fields_of(site, source, name="made by hand"))


def create_started(site: Site, source: str) -> requests.Response:
    fields = {"schedule_type": "FIX_RATE", "schedule_conf": "60", "enabled": True, "name": "made by hand"}
    return site.call("POST", "jobs", fields_of(site, source, **fields))


def change(site: Site, source: str) -> requests.Response:
    return site.call("PATCH", f"jobs/{site.job_id}", {"glue_source": source})


def save(site: Site, source: str) -> requests.Response:
    return site.call("POST", f"jobs/{site.job_id}/glue", {"source": source, "remark": "mine"})


WAYS: Mapping[str, Callable[[Site, str], requests.Response]] = {
    "create": create,
    "create and start": create_started,
    "change": change,
    "editor": save,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_source_that_names_no_job_of_its_package_is_not_saved(site: Site, way: str, wrong: str) -> None:
    changes, words = WRONG[wrong]
    answer = WAYS[way](site, json.dumps({**site.source, **changes}))
    assert answer.status_code in (400, 422), answer.text
    assert "glue_source" in answer.text
    assert words in answer.text
    assert len(site.node.call("GET", f"jobs/{site.job_id}/glue")["items"]) == 1


def test_what_the_store_itself_would_write_is_saved(own_site: Site) -> None:
    answer = save(own_site, json.dumps(own_site.other))
    assert answer.status_code in (200, 201), answer.text
    answer = save(own_site, json.dumps(own_site.source))
    assert answer.status_code in (200, 201), answer.text


def test_an_old_source_is_compared_again_whichever_way_it_comes_back(own_site: Site) -> None:
    """Roll back of a source and of a job, and a copy: of a package that the store has no more."""
    number = save(own_site, json.dumps(own_site.other)).json()["number"]
    revision = own_site.node.call("GET", f"jobs/{own_site.job_id}")["revision"]
    kept = own_site.call("POST", "jobs", fields_of(own_site, json.dumps(own_site.other), name="kept")).json()["id"]
    save(own_site, json.dumps(own_site.source))
    gone = requests.delete(
        f"{own_site.node.url}/api/v1/packages/{own_site.other['package_id']}",
        params={"force": "true"},
        headers={"Authorization": f"Bearer {own_site.node.token}"},
        timeout=60,
    )
    assert gone.json()["state"] == "deleted", gone.text
    answers = [
        own_site.call("POST", f"jobs/{own_site.job_id}/glue/{number}/restore", {"remark": "back"}),
        own_site.call("POST", f"jobs/{own_site.job_id}/versions/{revision}/restore", {}),
        own_site.call("POST", f"jobs/{kept}/copy", {"name": "a copy"}),
    ]
    for answer in answers:
        assert answer.status_code in (400, 422), answer.text
        assert f"package_id: there is no package {own_site.other['package_id']} in the store" in answer.text


def test_a_node_without_a_store_saves_no_source(tmp_path: Path) -> None:
    with NodeSite(tmp_path / "node", "job_package", executors=0) as node:
        group = node.call("POST", "groups", {"app_name": "package-nodes", "title": "Packages"})["id"]
        source = (
            PackageReference(
                package="acme", version="1.0", package_id=1, sha256="0" * 64, file="acme-1.0.zip", group="a", name="b"
            )
        ).source()
        answer = requests.post(
            f"{node.url}/api/v1/jobs",
            json={
                "group_id": group,
                "name": "x",
                "glue_type": "PACKAGE",
                "glue_source": source,
                "schedule_type": "NONE",
            },
            headers={"Authorization": f"Bearer {node.token}"},
            timeout=60,
        )
    assert answer.status_code in (400, 422), answer.text
    assert "package_id: this node has no store of packages" in answer.text
