"""The plugin's options, and what schedulers see of it."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from conftest import ALL
from xwheel import Config
from xwheel.plugin import Command, ConfigError, ExecutorError, GlueRequest, GlueType
from xwheel_devtools.testing import check_glue_type

import xwheel_glue_script
from xwheel_glue_script import xwheel_register_glue_types


def register(**options: Any) -> list[GlueType]:
    config = Config(plugins={"options": {"glue_script": options}})  # type: ignore[arg-type]
    return list(xwheel_register_glue_types(config))


def request_of(source: str) -> GlueRequest:
    return GlueRequest(job_id=3, handler="", source=source, updated_ms=5)


def test_the_entry_point_registers_all_types_without_allowing_any() -> None:
    (entry,) = {entry for entry in entry_points(group="xwheel") if entry.name == "glue_script"}
    assert entry.load() is xwheel_glue_script
    found = register()
    assert [item.name for item in found] == ALL
    assert all(item.takes_source for item in found)
    assert list(Config().executor.allowed_glue_types) == []


def test_all_types_keep_the_contract() -> None:
    for glue in register():
        check_glue_type(glue, source="echo hello", bad_sources=[" \n"])


def test_a_command_carries_the_source() -> None:
    built = register(limits={"cpu_s": 5})[0].build(request_of("echo"), None)  # type: ignore[arg-type]
    assert isinstance(built, Command)
    assert (built.data["source"], built.data["job_id"], built.data["updated_ms"]) == ("echo", 3, 5)
    assert built.data["options"]["limits"] == {"cpu_s": 5}
    with pytest.raises(ExecutorError, match="job 3 has no GLUE_SHELL source"):
        register()[0].build(request_of("\n"), None)  # type: ignore[arg-type]


def test_scripts_are_kept_in_the_executors_folder_unless_told(tmp_path: Path) -> None:
    config = Config(executor={"data_dir": tmp_path})  # type: ignore[arg-type]
    (first, *_) = xwheel_register_glue_types(config)
    built = first.build(request_of("x"), None)  # type: ignore[arg-type]
    assert built.data["options"]["directory"] == str(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interpreter": {}}, "interpreter is not an option; did you mean interpreters?"),
        ({"interpreters": "bash"}, "interpreters: must be a table"),
        ({"interpreters": {"GLUE_COBOL": "cobol"}}, "interpreters.GLUE_COBOL: must be 'GLUE_SHELL', "),
        ({"interpreters": {"GLUE_PHP": ""}}, "interpreters.GLUE_PHP: "),
        ({"interpreters": {"GLUE_PHP": ["php"]}}, "interpreters.GLUE_PHP: must be a text"),
        ({"limits": {"memory": 5}}, "limits.memory is not an option; did you mean memory_mb?"),
        ({"limits": {"cpu_s": 0}}, "limits.cpu_s: must be greater than or equal to 1"),
        ({"limits": {"cpu_s": True}}, "limits.cpu_s: must be a whole number"),
        ({"limits": []}, "limits: must be a table"),
        ({"environments": 0}, "environments: must be greater than or equal to 1"),
        ({"environments": 1001}, "environments: must be less than or equal to 1000"),
        ({"environments": "5"}, "environments: must be a whole number"),
        ({"pip_args": "--no-index"}, "pip_args: must be a list"),
        ({"run_as": 0}, "run_as: must be a text"),
        ({"directory": 5}, "directory: must be a text"),
    ],
)
def test_a_wrong_option_stops_the_start(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        register(**options)
    assert f"plugins.options.glue_script.{words}" in str(caught.value)
