"""P9: what a team that leaves XXL-JOB misses on a bare node is named, with what brings it."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator

import pytest
from xwheel_devtools.shipped import SHIPPED, XXL
from xwheel_devtools.testing.samples import strangers

from tests.support.paths import ROOT
from xwheel.config import build_config
from xwheel.errors import ConfigError, UnknownNameError
from xwheel.executor import Executor
from xwheel.plugin.discovery import load_plugins, survey_plugins

OPTIONS = {
    "alarm_email": {"host": "mail.example.org", "sender": "xwheel@example.org"},
    "alarm_sms": {"gateway": {"url": "https://sms.example.org"}},
}
XXL_JOBS = {
    "router": [
        "FIRST", "LAST", "ROUND", "RANDOM", "CONSISTENT_HASH", "LEAST_FREQUENTLY_USED", "LEAST_RECENTLY_USED",
        "FAILOVER", "BUSYOVER", "SHARDING_BROADCAST",
    ],
    "glue type": ["BEAN", "GLUE_SHELL", "GLUE_PYTHON", "GLUE_PHP", "GLUE_NODEJS", "GLUE_POWERSHELL"],
}  # fmt: skip
"""All but GLUE_GROOVY, which no executor of ours runs."""


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make our plugins importable as they stand in this tree."""
    for folder in (ROOT / "plugins").iterdir():
        monkeypatch.syspath_prepend(str(folder))
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        if name.startswith("xwheel_"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "name", ["alarm_email", "alarm_sms", "glue_http", "glue_script", "log_s3", "log_sql", "router_extra"]
)
def test_p9_what_each_distribution_brings_is_known(name: str, sources: None) -> None:
    try:
        plugin = importlib.import_module(f"xwheel_{name}")
    except ImportError as error:  # a library of its own, such as aiosmtplib
        pytest.skip(str(error))
    settings = {"disabled": sorted(strangers()), "options": {name: OPTIONS.get(name, {})}}
    survey = survey_plugins(build_config({"plugins": settings}), {name: plugin})
    assert not survey.errors
    (info,) = (item for item in survey.plugins.installed if item.origin.name == name)
    distribution = f"xwheel-{name.replace('_', '-')}"
    expected = {
        kind: sorted(item for item, owner in names.items() if owner == distribution) for kind, names in SHIPPED.items()
    }
    assert info.registers == {kind: names for kind, names in expected.items() if names}


def test_p9_the_extra_brings_what_the_refusals_promise() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["project"]["optional-dependencies"]["xxl"]) == XXL | {"xwheel-xxl-calls"}


def test_p9_all_routes_and_glue_types_of_xxl_job_are_there_or_named() -> None:
    plugins = load_plugins(build_config({"plugins": {"disabled": sorted(strangers())}}))
    for table in (plugins.routers, plugins.glue_types):
        for name in XXL_JOBS[table.kind]:
            if name not in table:
                with pytest.raises(UnknownNameError, match=rf"{name} comes with .*: pip install 'xwheel\[xxl\]'"):
                    table[name]


def test_p9_an_executor_names_what_brings_an_allowed_glue_type() -> None:
    executor = Executor(
        build_config({"plugins": {"disabled": sorted(strangers())}}),
        app_name="demo",
        admin_addresses=["http://127.0.0.1:1"],
        access_token="a-token-for-tests-only",
        allowed_glue_types=["GLUE_SHELL"],
    )
    with pytest.raises(ConfigError, match=r"GLUE_SHELL comes with xwheel-glue-script: pip install 'xwheel\[xxl\]'"):
        executor.start()
