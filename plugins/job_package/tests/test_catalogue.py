"""What the console's pages ask of the store: projects, versions, their users, switches, and what is in a file."""
# ruff: noqa: F811 - fixtures of another module

from __future__ import annotations

import json
from pathlib import Path

import pytest
from archives import sdist, wheel, zipped
from test_store import TWO, Store, core_job, module_store, nightly_of, operate, store, viewer  # noqa: F401
from xwheel.plugin import NotFoundError, RouteRefusedError

from xwheel_job_package import sources

NIGHTLY_ONLY = {
    "acme/__init__.py": "",
    "acme/jobs.py": (
        "from xwheel_package import schedule\n\n@schedule(cron='0 0 1 * * ?')\ndef nightly():\n    pass\n"
    ),
}


def test_projects_are_listed_with_their_versions(store: Store, tmp_path: Path) -> None:
    first = store.upload(wheel(tmp_path, TWO))[1]
    store.upload(wheel(tmp_path, TWO, version="1.3.0"))
    store.upload(wheel(tmp_path, {"shop/jobs.py": NIGHTLY_ONLY["acme/jobs.py"]}, name="shop"))
    operate(store, nightly_of(first), "Start")
    items = store.ask("GET", "/projects")[1]["items"]
    shown = [(item["project"], item["total"], [one["version"] for one in item["versions"]]) for item in items]
    assert shown == [("acme-jobs", 2, ["1.3.0", "1.2.0"]), ("shop", 1, ["1.2.0"])]
    newest, oldest = items[0]["versions"]
    assert (newest["jobs"], newest["started"], oldest["jobs"], oldest["started"]) == (0, 0, 2, 1)
    assert oldest["uploaded_by"] == "first"
    page = store.ask("GET", "/projects?limit=1")[1]
    assert page["next"] == "acme-jobs"
    assert [item["id"] for item in store.ask("GET", "/projects?after=acme-jobs")[1]["items"]] == ["shop"]
    assert [item["id"] for item in store.ask("GET", "/projects?search=HO")[1]["items"]] == ["shop"]
    assert store.ask("GET", "/projects?search=%25")[1]["items"] == []
    versions = store.ask("GET", "/projects/acme-jobs?limit=1")[1]
    assert [item["version"] for item in versions["items"]] == ["1.3.0"]
    older = store.ask("GET", f"/projects/acme-jobs?limit=1&after={versions['next']}")[1]
    assert ([item["version"] for item in older["items"]], older["next"]) == (["1.2.0"], None)
    assert store.ask("GET", "/projects/nothing")[0] == 404


def test_a_list_of_users_is_of_those_whom_one_may_read(store: Store, tmp_path: Path) -> None:
    group = store.node.call("POST", "groups", {"app_name": "others", "title": "Others"})["id"]
    old = store.upload(wheel(tmp_path, TWO), "&groups=package-nodes,others")[1]
    new = store.upload(wheel(tmp_path, NIGHTLY_ONLY, version="1.3.0"))[1]
    users = {item["name"]: item for item in store.ask("GET", f"/{new['id']}/jobs")[1]["items"]}
    assert {name: (item["uses"], item["offered"]) for name, item in users.items()} == {
        "nightly": (False, True),
        "by_hand": (False, False),
    }
    assert users["nightly"]["package_version"] == "1.2.0"
    assert users["nightly"]["job_name"] == "acme.jobs.nightly"
    assert all(item["uses"] for item in store.ask("GET", f"/{old['id']}/jobs")[1]["items"])
    grants = [{"group_id": group, "role": "admin"}]
    token = store.node.call("POST", "tokens", {"name": "of-others", "groups": grants})["token"]
    assert store.ask("GET", f"/{new['id']}/jobs", token=token) == (200, {"items": [], "next": None})
    job_id = users["nightly"]["job_id"]
    status, found = store.ask("POST", f"/{new['id']}/switch", {"job_ids": [job_id]}, token=token)
    assert (status, found["items"][0]["reason"]) == (200, "not_found")
    assert store.ask("GET", f"/jobs/{job_id}")[1]["package_id"] == old["id"]
    choices = store.ask("GET", f"/jobs/{job_id}/versions")[1]["items"]
    assert [item["id"] for item in choices] == [new["id"], old["id"]]


def test_the_limits_are_known_before_an_upload(store: Store) -> None:
    found = store.ask("GET", "/limits")[1]
    assert (found["max_upload_bytes"], found["group"]) == (6 * 1024 * 1024, "package-nodes")
    assert found["group_id"] is not None


def test_jobs_are_switched_one_by_one(store: Store, tmp_path: Path) -> None:
    """What is started goes on with the new version, what is not stays so, and what cannot is named."""
    old = store.upload(wheel(tmp_path, TWO))[1]
    jobs = {job["name"]: job["job_id"] for job in old["jobs"]}
    new = store.upload(wheel(tmp_path, TWO, version="1.3.0"))[1]
    last = store.upload(wheel(tmp_path, NIGHTLY_ONLY, version="1.4.0"))[1]
    operate(store, jobs["nightly"], "Start")
    wanted = {"job_ids": [jobs["nightly"], jobs["by_hand"], jobs["nightly"], 999_999]}
    status, found = store.ask("POST", f"/{new['id']}/switch", wanted)
    assert status == 200
    assert [(item["job_id"], item["result"], item["reason"]) for item in found["items"]] == [
        (jobs["nightly"], "Success", ""),
        (jobs["by_hand"], "Success", ""),
        (999_999, "Failed", "not_found"),
    ]
    assert {job_id: core_job(store, job_id)["enabled"] for job_id in jobs.values()} == {
        jobs["nightly"]: True,
        jobs["by_hand"]: False,
    }
    for job_id in jobs.values():
        assert store.ask("GET", f"/jobs/{job_id}")[1]["package_id"] == new["id"]
        assert core_job(store, job_id)["glue_version"] == 2
    log = store.ask("GET", f"/jobs/{jobs['by_hand']}/operations")[1]["items"]
    assert [(item["operation"], json.loads(item["after"])["state"]) for item in log] == [("Switch", "Shutdown")]
    again = store.ask("POST", f"/{new['id']}/switch", {"job_ids": [jobs["nightly"]]})[1]["items"][0]
    assert again["reason"] == "same_version"
    missing = store.ask("POST", f"/{last['id']}/switch", {"job_ids": [jobs["by_hand"]]})[1]["items"][0]
    assert (missing["result"], missing["reason"]) == ("Failed", "no_such_job_in_package")


@pytest.mark.parametrize("body", [{}, {"job_ids": []}, {"job_ids": ["1"]}, {"job_ids": [1], "more": 1}])
def test_a_switch_takes_a_list_of_ids(store: Store, tmp_path: Path, body: object) -> None:
    found = store.upload(wheel(tmp_path, TWO))[1]
    status, refused = store.ask("POST", f"/{found['id']}/switch", body)
    assert (status, refused["field"]) == (422, "job_ids")


def test_an_operator_changes_no_version(store: Store, tmp_path: Path) -> None:
    """A version is code: it takes the permissions to edit and for scripts."""
    old = store.upload(wheel(tmp_path, TWO))[1]
    new = store.upload(wheel(tmp_path, TWO, version="1.3.0"))[1]
    wanted = {"job_ids": [nightly_of(old)]}
    operator = store.node.call("POST", "tokens", {"name": "runs", "role": "operator"})["token"]
    assert store.ask("POST", f"/{new['id']}/switch", wanted, token=operator)[0] == 403
    editor = store.node.call("POST", "tokens", {"name": "edits", "role": "editor"})["token"]
    status, found = store.ask("POST", f"/{new['id']}/switch", wanted, token=editor)
    assert (status, found["items"][0]["reason"]) == (200, "forbidden")
    assert store.ask("GET", f"/jobs/{nightly_of(old)}")[1]["package_id"] == old["id"]
    assert store.ask("GET", f"/jobs/{nightly_of(old)}/operations")[1]["items"] == []


def test_a_refused_package_names_all_that_is_wrong(store: Store, tmp_path: Path) -> None:
    """SCN-7: each bad cron with its file and line."""
    text = "from xwheel_package import schedule\n\n" + "".join(
        f"@schedule(cron='6{number} * * * * ?')\ndef f{number}():\n    pass\n\n" for number in (1, 2)
    )
    status, refused = store.upload(wheel(tmp_path, {"acme/jobs.py": text}))
    assert (status, refused["reason"]) == (422, "bad_cron")
    places = [(item["file"], item["line"]) for item in refused["facts"]["problems"]]
    assert places == [("acme/jobs.py", 4), ("acme/jobs.py", 8)]
    assert store.files() == []


def test_a_report_says_what_a_package_needs(store: Store, tmp_path: Path) -> None:
    text = "from xwheel_package import schedule\nC = ''\n\n@schedule(cron=C)\ndef f():\n    pass\n"
    path = wheel(tmp_path, {"acme/jobs.py": text}, metadata="Requires-Dist: frobnicate>=2\n")
    report = store.upload(path)[1]["report"]
    assert report["dependencies"] == ["frobnicate>=2"]
    assert report["unresolved"] == [{"job": "acme.jobs.f", "arguments": ["cron"], "file": "acme/jobs.py", "line": 5}]
    assert report["confirmed"] is False


def test_files_of_a_package_can_be_read(store: Store, tmp_path: Path, viewer: str) -> None:
    found = store.upload(wheel(tmp_path, TWO))[1]
    files = {item["path"]: item["size"] for item in store.ask("GET", f"/{found['id']}/sources")[1]["items"]}
    assert files["acme/jobs.py"] == len(TWO["acme/jobs.py"])
    text = store.ask("GET", f"/{found['id']}/sources/text?path=acme/jobs.py")[1]
    assert (text["text"], text["is_cut"]) == (TWO["acme/jobs.py"], False)
    for wrong in ("", "acme/none.py", "../jobs.py", "/etc/passwd"):
        assert store.ask("GET", f"/{found['id']}/sources/text?path={wrong}")[0] == 404
    assert store.ask("GET", f"/{found['id']}/sources", token=viewer)[0] == 403


def test_only_the_beginning_of_a_file_is_shown(tmp_path: Path) -> None:
    long = "x" * (sources.MOST_TEXT - 1) + "é" + "more"
    files = {"a/long.py": long, "a/odd.bin": "\0\1", "a/latin.txt": "fine"}
    for path in (zipped(tmp_path / "a-1.zip", files), sdist(tmp_path / "a-1.tar.gz", files)):
        assert [item["path"] for item in sources.list_files(path)["items"]] == sorted(files)
        cut = sources.read_text(path, "a/long.py")
        assert (cut["text"], cut["is_cut"], cut["size"]) == ("x" * (sources.MOST_TEXT - 1), True, len(long.encode()))
        assert sources.read_text(path, "a/odd.bin")["text"] is None
        assert sources.read_text(path, "a/latin.txt")["text"] == "fine"
        with pytest.raises(NotFoundError):
            sources.read_text(path, "a/none.py")


def test_a_stored_file_that_is_broken_is_said_to_be_so(tmp_path: Path) -> None:
    for name in ("a-1.zip", "a-1.tar.gz"):
        path = tmp_path / name
        path.write_bytes(b"PK no archive")
        with pytest.raises(RouteRefusedError, match="cannot be read"):
            sources.list_files(path)


def test_a_name_is_one_projects_alone(store: Store, tmp_path: Path) -> None:
    """A job whose name another project or a person's job has is refused with its place, and nothing is kept."""
    store.upload(wheel(tmp_path, NIGHTLY_ONLY))
    kept = store.files()
    status, refused = store.upload(wheel(tmp_path, NIGHTLY_ONLY, name="other"))
    assert (status, refused["reason"], refused["facts"]["line"]) == (422, "job_name_taken", 4)
    assert "acme-jobs has the name acme.jobs.nightly" in refused["detail"]
    group = store.node.call("GET", "groups?app_name=package-nodes")["items"][0]["id"]
    mine = store.node.call("POST", "jobs", {"group_id": group, "name": "shop.jobs.nightly", "handler": "hello"})
    status, refused = store.upload(wheel(tmp_path, {"shop/jobs.py": NIGHTLY_ONLY["acme/jobs.py"]}, name="shop"))
    assert (status, refused["reason"]) == (422, "job_name_taken")
    assert f"job {mine['id']}" in refused["detail"]
    assert store.files() == kept
    assert [item["project"] for item in store.ask("GET", "/projects")[1]["items"]] == ["acme-jobs"]
    store.node.call("DELETE", f"jobs/{mine['id']}")
