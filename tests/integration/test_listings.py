"""Every listing of every page is run by a test."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from xwheel_devtools.testing.processes import NodeProcess

from tests.support.delivery_cases import CASES
from tests.support.listing_site import ListingSite, Reader, run_shell
from tests.support.listings import RUN, THEIRS, Claim, Listing, all_listings, listings_of, one_listing, runs
from tests.support.paths import ROOT
from tests.support.plugin_homes import lay_plugin, plugin_home
from tests.support.tls import Authority
from tests.support.xxl_rows import XXL_JOBS
from xwheel.cli.plugin_commands import INDEX
from xwheel.config import load_config
from xwheel.errors import XwheelError
from xwheel.plugin.hookspecs import BROUGHT
from xwheel.runtime.http_limits import Cut, CutLog
from xwheel.wire.codec import encode_batch, encode_log_parts, encode_states
from xwheel.wire.messages import LogPart, RunKey, TriggerRequest

MODULES_HERE = (
    "tests.integration.test_coming_from",
    "tests.integration.test_listings",
    "tests.integration.test_listings_python",
)
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
SECRETS = {"": "https://hooks.example.com/8Kq3vXz81Lm", "telegram": "123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"}
THEIR_LINES = 12
TUTORIAL = ("python", "sh", "text")
ALL_PLUGINS = [path.parent.name for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]

ELSEWHERE = [
    Claim("README.md", "tests/integration/test_install_rows.py", beginning="pip wheel"),
    Claim("docs/tutorial/embedded.md", "tests/integration/test_embedded_tutorial.py"),
    Claim("docs/howto/backup.md", "tests/integration/test_backup.py"),
    Claim("docs/howto/databases.md", "tests/faults/test_server_galera.py", beginning="[mariadb]"),
    Claim("docs/howto/databases.md", "tests/support/patroni.py", beginning="bootstrap:"),
    Claim("docs/howto/databases.md", "tests/support/between.py", beginning="defaults"),
    Claim("docs/tutorial/first-executor.md", "tests/integration/test_executor_tutorial.py"),
    Claim("docs/tutorial/first-plugin.md", "tests/integration/test_third_party_plugins.py"),
    Claim("docs/tutorial/one-file-plugin.md", "tests/integration/test_plugin_tutorial.py"),
    Claim("docs/tutorial/packages.md", "plugins/cluster_zookeeper/tests/test_tutorial.py"),
    Claim("docs/howto/cells.md", "plugins/cells/tests/test_howto.py", beginning="xwheel token create"),
    Claim("docs/howto/cells.md", "plugins/cells/tests/test_howto.py", beginning="curl"),
    Claim("docs/howto/coming-from/apscheduler.md", "tests/integration/test_coming_from.py", languages=TUTORIAL),
    Claim("docs/howto/coming-from/celery-beat.md", "tests/integration/test_coming_from.py", languages=TUTORIAL),
    Claim("docs/howto/tls.md", "tests/integration/test_tls.py", languages=("toml", "nginx")),
    Claim("docs/howto/databases.md", "tests/faults/test_u12_mariadb_sql.py", languages=("sql",)),
    Claim("docs/howto/listeners.md", "tests/unit/runtime/test_http_page.py"),
    Claim("docs/howto/wsgi.md", "tests/integration/test_wsgi_servers.py", languages=("sh",)),
    Claim("docs/reference/xxl-job-openapi.md", "tests/product/xxl_calls/test_job_calls.py"),
]


def is_drawing(listing: Listing) -> bool:
    return listing.language == "text" and "▶" in listing.text


def is_directive(listing: Listing) -> bool:
    return listing.language.startswith("{")


def is_settings(listing: Listing) -> bool:
    return listing.language == "toml" and not listing.text.startswith("[project")


def is_nginx(listing: Listing) -> bool:
    return listing.language == "nginx"


def is_installation(listing: Listing) -> bool:
    lines = listing.text.splitlines()
    return listing.language == "sh" and all(line.startswith("pip install ") for line in lines)


def is_theirs(listing: Listing) -> bool:
    return listing.mark == THEIRS


def is_for_developers(listing: Listing) -> bool:
    words = r"(\$ )?(make|(\.venv/bin/)?python -m (pytest|tests)\S*) "
    lines = listing.text.splitlines()
    return listing.language in {"sh", "console"} and all(re.match(words, line) for line in lines)


KINDS: dict[Callable[[Listing], bool], str] = {
    is_drawing: "nothing to run",
    is_theirs: "test_listings_of_other_products_are_few_and_short",
    is_directive: "test_directives_name_what_there_is",
    is_settings: "test_settings_are_taken",
    is_nginx: "test_nginx_takes_its_blocks",
    is_installation: "test_what_is_installed_is_a_package_of_ours",
    is_for_developers: "test_commands_for_developers",
}


@dataclass(frozen=True, slots=True)
class Story:
    """A page whose commands are typed in their order.

    Attributes:
        words: What to write in place of words of the page; see :class:`Reader`.
        variables: Environment of the commands, in the same way.
        files: What the reader has before.
        saves: Names under which the reader saves listings besides, by how their first lines begin.
        seen: What a listing prints, as a regular expression, by how its first line begins.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    saves: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)


CRONTAB = """\
# m h dom mon dow command
MAILTO=root@example.com
PATH=/usr/bin:/bin
30 2 * * 1-5  /usr/local/bin/backup --all
@daily ls $HOME
*/5 * * * 7 date +\\%F
@reboot /usr/local/bin/warm-up
0 9 1 jan * echo 'a: "b"'
"""
TOOLS = {"docs/howto/accounts.md": ("curl",), "docs/howto/hardening.md": ("ss", "curl")}
ON_THE_DATABASE = {"XWHEEL_DATABASE__URL": "{database}", "XWHEEL_API__PORT": "{port}"}
STORIES: dict[str, Story] = {
    "docs/howto/accounts.md": Story(
        variables=ON_THE_DATABASE,
        seen={
            "xwheel account reset admin": r"password \(shown once\): (\w{5}-){3}\w{5}",
            "xwheel account create": "ann.*viewer everywhere, editor and scripts in orders",
            "xwheel account role": "(?s)ann: operator everywhere.*bob is disabled.*bob may sign in.*bob is deleted",
            "xwheel account unlock": "ann is not locked",
            "xwheel account link": r"http://127\.0\.0\.1:\d+/#/login\?link=[\w-]{43}",
            "xwheel account reset ann": r'"name":"ann".*"must_change":false',
            "xwheel token create": "(?s)dashboards for viewer everywhere.*editor in orders",
        },
    ),
    "docs/howto/alarms.md": Story(seen={"xwheel alarm test": "taken", "xwheel alarm rule list": "tell the team"}),
    "docs/howto/audit.md": Story(
        variables=ON_THE_DATABASE,
        seen={
            "xwheel audit list": "(?s)group.create.*group/.*new team",
            "sleep": r"(?s)sound.*has \d+ lines.*sealed rows.*sound",
        },
    ),
    "docs/howto/bring-executors.md": Story(words={"orders": "orders-2"}),
    "docs/howto/calendars.md": Story(
        seen={"xwheel job preview": r"2026-01-04T\S+\n2026-01-05T\S+\n2026-01-06T", "xwheel pause": "paused since"}
    ),
    "docs/howto/databases.md": Story(files={"xwheel.toml": '[database]\nurl = "sqlite:///own.db"\n'}),
    "docs/howto/hardening.md": Story(
        words={"https://scheduler.example.com:8443": "{url}", "/var/lib/xwheel": "{folder}"},
        seen={"ss -ltnp": r"^State[^/]*\n401\n$"},
    ),
    "docs/howto/coming-from/cron.md": Story(
        words={
            "http://127.0.0.1:8081": "{executor_api}",
            "/usr/local/bin:/usr/bin:/bin": "{here}:/usr/bin:/bin",
            "crontab -l > crontab.txt": "true",
        },
        variables=ON_THE_DATABASE,
        files={"backup": "#!/bin/sh\necho all is saved\n", "crontab.txt": CRONTAB},
        seen={"xwheel job create": "succeeded", "crontab -l": "(?s)1 backup .*2 ls .*3 date .*4 echo "},
    ),
    "docs/howto/coming-from/xxl-job.md": Story(
        words={"mysql --batch xxl_job < xxl_jobs.sql > xxl_jobs.tsv": "true", "orders-1": "orders-9"},
        variables=ON_THE_DATABASE,
        files={"xxl_jobs.tsv": XXL_JOBS},
        seen={"xwheel group show": "succeeded", "mysql": "8 changes are made"},
    ),
    "docs/howto/versions.md": Story(
        seen={
            "xwheel job versions": r"(?s)2 .*edit.*OPS-21: it hung.*\n1 .*create.*OPS-17",
            "xwheel job diff": r"(?s)timeout_s +0 +30",
            "xwheel job rollback": r"rolled back +invoices \(\d+\), revision 3",
        }
    ),
    "docs/howto/why.md": Story(
        seen={
            "xwheel job create": "has had no due time yet",
            "xwheel why billing": r"no such time; the nearest ones: before 2030-01-31T03:00:00Z, after 2030-02-01T03",
            "xwheel job stop": r"The job was stopped: .*OPS-41: it bills twice",
        }
    ),
    "docs/howto/http-jobs.md": Story(),
    "docs/howto/jobs-in-code.md": Story(
        words={"http://127.0.0.1:8081": "{executor_api}", "shop": "shop-2"},
        variables=ON_THE_DATABASE,
        seen={
            "xwheel group create": r"(?s)2 differences.*create shop-2/report.*2 changes are made.*nothing differs",
            "xwheel executor": "owned_by_code|owned by code",
            "xwheel job release": "(?s)released.*changed.*given back.*released",
        },
    ),
    "docs/howto/limits.md": Story(words={"http://10.0.0.5:9999": "{executor}"}),
    "docs/howto/retention.md": Story(),
    "docs/howto/run-a-node.md": Story(
        words={"orders": "orders-3", "sqlite:////var/lib/xwheel/xwheel.db": "sqlite:///own.db"},
        saves={"[database]": "xwheel.toml"},
    ),
    "docs/howto/scripts.md": Story(
        files={"clean.sh": "echo cleaned\n"},
        seen={"xwheel job create": "succeeded", "xwheel glue save": "(?s)say it better.*echo cleaned"},
    ),
    "docs/howto/tokens.md": Story(
        words={"FOLDER": "{embedded}", "https://node.example": "{url}"},
        variables=ON_THE_DATABASE,
        seen={"xwheel secret create": "orders-1", "xwheel token create": "ops"},
    ),
}


def answers_elsewhere() -> dict[Listing, str]:
    """Return which listings have a test of their own, and which cannot be run."""
    for module in MODULES_HERE:
        import_module(module)
    return {listing: claim.by for claim in (*ELSEWHERE, *RUN) for listing in claim.listings()}


def of_kind(kind: Callable[[Listing], bool]) -> list[Listing]:
    taken = answers_elsewhere()
    return [item for item in all_listings() if kind(item) and item not in taken]


def answer_for(listing: Listing, taken: Mapping[Listing, str]) -> str | None:
    """Return who runs a listing."""
    kinds = (test for kind, test in KINDS.items() if kind(listing))
    told = listing.page in STORIES and (listing.language == "sh" or listing.file)
    return taken.get(listing) or next(kinds, None) or ("test_pages_can_be_followed" if told else None)


def test_every_listing_is_run_by_a_test() -> None:
    taken = answers_elsewhere()
    assert [str(item) for item in all_listings() if answer_for(item, taken) is None] == []


def test_no_listing_is_answered_for_twice() -> None:
    answers_elsewhere()
    claims = (*ELSEWHERE, *RUN)
    counts = Counter(listing for claim in claims for listing in claim.listings())
    assert [str(item) for item, count in counts.items() if count > 1] == []
    assert [page for page in STORIES if not listings_of(page, "sh")] == []


@pytest.mark.parametrize("claim", ELSEWHERE, ids=lambda claim: claim.page)
def test_who_runs_a_page_reads_it(claim: Claim) -> None:
    assert Path(claim.page).name in (ROOT / claim.by).read_text("utf-8")


def test_a_listing_without_a_test_is_found() -> None:
    nobody = Listing("docs/howto/nothing.md", 3, "sh", "xwheel health\n")
    assert answer_for(nobody, answers_elsewhere()) is None
    told = Listing("docs/howto/limits.md", 3, "python", "pass\n")
    assert answer_for(told, answers_elsewhere()) is None


# -- settings


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where all our plugins can be imported, and what they say they need is said to be there."""
    needed = tmp_path_factory.mktemp("needed")
    for name, version in (("aiosmtplib", "5.0"), ("boto3", "1.40"), ("kazoo", "2.11")):
        lay_plugin(needed, name, "", version=version)
        (needed / f"{name}-{version}.dist-info" / "entry_points.txt").unlink()
    return ":".join(map(str, [*(plugin_home(name) for name in ALL_PLUGINS), needed]))


@pytest.mark.processes
def test_settings_are_taken(plugin_path: str, tmp_path: Path) -> None:
    certificate = Authority(tmp_path).file.read_text()
    files: dict[str, Listing] = {}
    for number, listing in enumerate(of_kind(is_settings)):
        text = re.sub("/etc/xwheel|/run/secrets", str(tmp_path), listing.text).replace("…", "xyz")
        for name in re.findall(rf'"{tmp_path}/([\w.-]+)"', text):
            (tmp_path / name).touch(0o600)
            (tmp_path / name).write_text(certificate if name.endswith(".pem") else SECRETS.get(name, SECRETS[""]))
        path = tmp_path / f"{number}.toml"
        path.write_text(text, "utf-8")
        path.chmod(0o600)
        files[str(path)] = listing
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.settings_child", *files],
        env={**os.environ, "PYTHONPATH": plugin_path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, list[str]] = json.loads(done.stdout)
    assert {str(files[path]): errors for path, errors in told.items() if errors} == {}


# -- commands


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListingSite]:
    with ListingSite(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.mark.processes
@pytest.mark.parametrize("page", STORIES)
def test_pages_can_be_followed(site: ListingSite, tmp_path: Path, page: str) -> None:
    missing = [tool for tool in TOOLS.get(page, ()) if shutil.which(tool) is None]
    if missing and not os.environ.get("REQUIRE_SERVERS"):
        pytest.skip(f"no {missing[0]} here")
    story, taken = STORIES[page], answers_elsewhere()
    with Reader(site, tmp_path / "reader", story.words, story.variables) as reader:
        for name, text in story.files.items():
            reader.save(name, text)
        saves = {one_listing(page, beginning): name for beginning, name in story.saves.items()}
        for listing in listings_of(page):
            if name := saves.get(listing, listing.file):
                reader.save(name, listing.text)
        for listing in listings_of(page, "sh"):
            if listing not in taken and not is_installation(listing):
                text = reader.type(listing.text)
                wanted = [words for start, words in story.seen.items() if listing.first.startswith(start)]
                assert [words for words in wanted if not re.search(words, text)] == [], text


def test_listings_of_other_products_are_few_and_short() -> None:
    theirs = of_kind(is_theirs)
    assert [str(item) for item in theirs if "/coming-from/" not in item.page] == []
    assert [str(item) for item in theirs if item.text.count("\n") > THEIR_LINES] == []


@pytest.mark.processes
@runs("docs/howto/jobs-as-files.md", "xwheel job export")
@runs("docs/howto/jobs-as-files.md", "calendars:")
def test_jobs_as_files(site: ListingSite, tmp_path: Path) -> None:
    page = "docs/howto/jobs-as-files.md"
    reader = Reader(site, tmp_path / "reader", {}, {})  # leaves nothing running
    reports = site.node.call("POST", "groups", {"app_name": "reports"})["id"]
    site.node.call("POST", "jobs", {"group_id": reports, "name": "daily", "handler": "greet"})
    export, *commands = one_listing(page, "xwheel job export").text.splitlines()
    reader.save("jobs.yaml", one_listing(page, "calendars:").text)
    plan, change, difference = map(reader.type, commands)
    assert [bool(re.search("mail-report", text)) for text in (plan, change, difference)] == [True, True, False]
    reader.type(export)
    assert "mail-report" in (reader.folder / "jobs.yaml").read_text()


@pytest.mark.processes
@runs("docs/howto/calendars.md", '{"holidays": "US", "without"')
def test_the_corrected_calendar(site: ListingSite) -> None:
    definition = json.loads(one_listing("docs/howto/calendars.md", '{"holidays": "US", "without"').text)
    calendar = site.node.call("PUT", "calendars/corrected", definition)
    assert calendar["definition"] == definition


@pytest.mark.processes
@runs("docs/howto/http-jobs.md", '{"url": ')
@runs("docs/howto/http-jobs.md", "{")
@runs("plugins/glue_http/README.md", "{")
def test_http_calls_are_taken(site: ListingSite) -> None:
    job: dict[str, object] = {"group_id": 1, "glue_type": "GLUE_HTTP"}
    sources = [*listings_of("docs/howto/http-jobs.md", "json"), *listings_of("plugins/glue_http/README.md", "json")]
    for listing in sources:
        site.node.call("POST", "jobs", {**job, "name": str(listing), "glue_source": listing.text})
    wrong = sources[-1].text.replace("expect_status", "expct_status")
    with pytest.raises(XwheelError, match="expct_status"):
        site.node.call("POST", "jobs", {**job, "name": "wrong", "glue_source": wrong})


@pytest.mark.processes
@runs("docs/reference/routers.md", "route_strategy: LABELS")
@runs("plugins/router_extra/README.md", "route_strategy: LABELS")
@pytest.mark.parametrize("page", ["docs/reference/routers.md", "plugins/router_extra/README.md"])
def test_labels_are_asked_for(site: ListingSite, page: str) -> None:
    fields = yaml.safe_load(one_listing(page, "route_strategy: LABELS").text)
    made = site.node.call("POST", "jobs", {"group_id": 1, "name": page, "handler": "greet", **fields})
    assert made["route_options"] == fields["route_options"]


@pytest.mark.processes
@runs("docs/reference/errors.md", "{")
def test_a_failure_of_the_management_api(site: ListingSite) -> None:
    request = urllib.request.Request(
        f"{site.node.url}/api/v1/jobs",
        data=json.dumps({"group_id": 1, "name": "  ", "handler": "greet"}).encode(),
        headers={"Authorization": f"Bearer {site.node.token}", "Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert json.load(caught.value) == json.loads(one_listing("docs/reference/errors.md", "{").text)
    caught.value.close()


@runs("docs/reference/wire.md", '{"instance": "f00d", "runs"')
@runs("docs/reference/wire.md", '{"instance": "f00d", "keys"')
@runs("docs/reference/wire.md", '{"instance": "f00d", "logs"')
def test_calls_between_xwheel_peers() -> None:
    page = "docs/reference/wire.md"
    asked = one_listing(page, '{"instance": "f00d", "keys"').text
    assert json.loads(encode_states("f00d", [RunKey(12, 7, 1790000000123)])) == json.loads(asked)
    sent = json.loads(one_listing(page, '{"instance": "f00d", "runs"').text)
    (run,) = sent["runs"]
    assert run.pop("…") == "as /run"
    written = json.loads(encode_batch("f00d", [TriggerRequest(job_id=7, run_id=12, created_ms=1)]))
    written["runs"] = [{key: item[key] for key in run} for item in written["runs"]]
    assert written == sent
    shipped = LogPart(run_id=12, created_ms=1790000000123, from_line=1, content="first\nsecond\n")
    said = one_listing(page, '{"instance": "f00d", "logs"').text
    assert json.loads(encode_log_parts("f00d", [shipped])) == json.loads(said)


@runs("docs/howto/proxies.md", "executor-api listener closed")
def test_the_line_about_cut_connections() -> None:
    log = CutLog()
    for number in range(310):
        log.note(Cut.HEAD if number < 300 else Cut.REFUSED, "10.0.3.7", 0 if number == 0 else 1)
    (line,) = one_listing("docs/howto/proxies.md", "executor-api listener closed").text.splitlines()
    assert line == f"executor-api listener closed {log.line(30)}"


# -- proxies, packages, developers


@pytest.mark.skipif(NGINX is None and not os.environ.get("REQUIRE_SERVERS"), reason="no nginx here")
def test_nginx_takes_its_blocks(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).issue("host")
    for listing in of_kind(is_nginx):
        (tmp_path / "nginx.conf").write_text(
            f"pid {tmp_path}/pid;\nevents {{}}\n"
            f"http {{\naccess_log off;\nssl_certificate {cert};\nssl_certificate_key {key};\n{listing.text}}}\n"
        )
        command = [str(NGINX), "-t", "-q", "-p", tmp_path, "-e", "stderr", "-c", tmp_path / "nginx.conf"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), listing


def test_directives_name_what_there_is() -> None:
    for listing in of_kind(is_directive):
        for kind, name in re.findall(r"^\.\. auto(module|class):: (\S+)$", listing.text, re.MULTILINE):
            module, _, item = name.rpartition(".") if kind == "class" else (name, "", "")
            assert not item or hasattr(import_module(module), item), name
            import_module(module)
        if listing.language == "{toctree}":
            pages = [line for line in listing.text.split() if "/" in line]
            assert [page for page in pages if not [*(ROOT / "docs").glob(f"{page}*")]] == []


def test_what_is_installed_is_a_package_of_ours() -> None:
    places = {f"xwheel-{name.replace('_', '-')}": ROOT / "plugins" / name for name in ALL_PLUGINS}
    extras = {
        name: tomllib.loads((place / "pyproject.toml").read_text())["project"].get("optional-dependencies", {})
        for name, place in {**places, "xwheel": ROOT}.items()
    }
    taken = answers_elsewhere()
    for listing in all_listings():
        if listing.language == "sh" and listing not in taken:
            for words in re.findall(r"^pip install (.*)", listing.text, re.MULTILINE):
                for name, given in (word.rstrip("]").partition("[")[::2] for word in shlex.split(words, comments=True)):
                    assert name in extras, listing
                    assert set(given.split(",")) - {""} <= extras[name].keys(), listing


def test_commands_for_developers() -> None:
    targets = set(re.findall(r"^([\w./$()-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets |= {".venv/.ready", *(f"test-{name}" for name in ALL_PLUGINS)}
    lines = [line for listing in of_kind(is_for_developers) for line in listing.text.splitlines()]
    for words in (shlex.split(line.removeprefix("$ "), comments=True) for line in lines):
        if words[0] == "make":
            assert words[1] in targets, words
            continue
        is_module = words[2] != "pytest"
        (place,) = [words[2].replace(".", "/")] if is_module else [w for w in words if w.startswith("tests/")]
        found = [ROOT / f"{place}.py", ROOT / place, *(ROOT / place).rglob("*.py")]
        source = "".join(path.read_text() for path in found if path.is_file())
        assert source, words
        wanted = {words[words.index("-k") + 1]} if "-k" in words else set[str]()
        if is_module:
            wanted |= {f'"{word}"' for word in words if word.startswith("--")}
        assert [word for word in wanted if word not in source] == [], words


@runs("docs/explanation/delivery.md", "$ python -m pytest tests/component/scheduler/test_delivery.py")
def test_a_case_of_the_delivery_table() -> None:
    (line,) = one_listing("docs/explanation/delivery.md", "$ python -m pytest").text.splitlines()
    case = line.split()[-1].removeprefix("xwheel-")
    assert case in {case.name for cases in CASES.values() for case in cases}


@runs("docs/reference/plugins.md", '[project.entry-points."xwheel.hooks"]')
def test_hooks_of_ones_own_are_named_where_they_are_read() -> None:
    text = one_listing("docs/reference/plugins.md", '[project.entry-points."xwheel.hooks"]').text
    assert tomllib.loads(text)["project"]["entry-points"] == {BROUGHT: {"toys": "acme_toys.shops:HOOKS"}}


@runs("docs/reference/plugins.md", '[project.entry-points."xwheel.commands"]')
def test_the_index_of_commands_is_what_is_read() -> None:
    found = tomllib.loads(one_listing("docs/reference/plugins.md", '[project.entry-points."xwheel.commands"]').text)
    assert found["project"]["entry-points"][INDEX] == {
        "toys": "acme_toys.commands:app",
        "job/paint": "acme_toys.painting",
    }


@runs("docs/reference/plugins.md", "export XWHEEL_PLUGINS__OPTIONS=")
def test_options_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = one_listing("docs/reference/plugins.md", "export XWHEEL_PLUGINS__OPTIONS=").text.splitlines()
    _, variable = shlex.split(line)
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    assert load_config().plugin("NAME") == {"key": 5}


@pytest.mark.long
@runs("docs/howto/verify.md", "$ export XWHEEL_TOKEN=…")
@runs("docs/howto/verify.md", "due 6421")
def test_verify_says_what_its_page_says(tmp_path: Path) -> None:
    before, after = (listing.text.splitlines() for listing in listings_of("docs/howto/verify.md"))
    commands = [line.removeprefix("$ ") for line in before if line.startswith("$ ")]
    shown = [line for line in (*before, *after) if not line.startswith("$ ")]
    with NodeProcess(tmp_path / "node") as node:
        ours = {
            r"XWHEEL_TOKEN=…": f"XWHEEL_TOKEN={node.token}",
            r"ACCESS_TOKEN=…": f"ACCESS_TOKEN={node.executor_token}",
            r"http://node\d:8081": node.executor_url,
            r"http://node\d:8080": node.url,
            r"10\.0\.0\.7": "127.0.0.1",
            r"--seconds 120": "--seconds 5",
        }
        text = "\n".join(commands)
        for words, mine in ours.items():
            text, count = re.subn(words, mine, text)
            assert count, words
        variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        told = run_shell(text, tmp_path, variables).splitlines()
    patterns = [re.sub(r"\d+", r"\\d+", re.sub("/tmp/.*", r"\\S+", line)) for line in shown]
    assert [line for line, pattern in zip(told, patterns, strict=True) if not re.fullmatch(pattern, line)] == []
