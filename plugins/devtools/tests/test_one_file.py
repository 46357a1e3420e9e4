"""``xwheel plugins check``: a plugin of one file is loaded and tried, and what is wrong with it is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner
from xwheel.cli.main import app
from xwheel.config import build_config

from xwheel_devtools.testing.one_file import Trials, check_file

PutFile = Callable[..., Path]

ROUTER = """
import dataclasses
from xwheel import hookimpl
@dataclasses.dataclass
class Mine:
    name: str = "{name}"
    def route(self, context):
        return context.addresses[:1]
@hookimpl
def xwheel_register_routers(options):
    return [Mine(**options)]
"""
CHANNEL = """
from pathlib import Path
from xwheel import hookimpl
class Note:
    name = "note"
    def __init__(self, path): self.path = path
    def send(self, alarm):
        with open(self.path, "a") as file:
            file.write(alarm.title)
        return "written"
class Hours:
    name = "HOURS"
    def check(self, spec): int(spec.conf)
    def next_ms(self, spec, after_ms): return after_ms + int(spec.conf) * 3600000
class Echo:
    name = "ECHO"
    def build(self, request, handlers): return lambda: request.source
@hookimpl
def xwheel_register_alarms(options):
    return [Note(options["path"])]
@hookimpl
def xwheel_register_schedule_types():
    return [Hours()]
@hookimpl
def xwheel_register_glue_types():
    return [Echo()]
"""


@pytest.fixture
def put_file(tmp_path: Path) -> PutFile:
    """Put a plugin of one file into a folder, and return the folder."""

    def put(name: str, source: str) -> Path:
        folder = tmp_path / "plugins"
        folder.mkdir(mode=0o755, exist_ok=True)
        path = folder / name
        path.write_text(source)
        path.chmod(0o644)
        return folder

    return put


def check(folder: Path, name: str, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["plugins", "check", str(folder / name), *more])
    return done.exit_code, done.output


def test_u10_check_says_what_is_wrong_with_a_file(put_file: PutFile) -> None:
    folder = put_file("nearby.py", ROUTER.format(name="NEARBY"))
    assert check(folder, "nearby.py") == (0, "router NEARBY: ok\n")
    put_file("twice.py", ROUTER.format(name="TWICE").replace("[:1]", "[:1] * 2"))
    status, said = check(folder, "twice.py")
    assert (status, said) == (
        1,
        "router TWICE: wrong: router TWICE chose http://10.0.0.1:9999 twice: each executor takes one shard\n",
    )
    put_file("broken.py", "import nothing_of_that_name")
    status, said = check(folder, "broken.py")
    assert status == 1
    assert "plugin broken: wrong: plugin broken (" in said
    put_file("empty.py", ROUTER.format(name="X").replace("[Mine(**options)]", "[]"))
    assert check(folder, "empty.py")[1] == "plugin empty: wrong: registers nothing: its hooks return no objects\n"
    (folder / "nearby.py").chmod(0o666)
    assert "can be written by others" in check(folder, "nearby.py")[1]


def test_u10_check_sends_alarms_only_if_asked_to(put_file: PutFile, tmp_path: Path) -> None:
    folder = put_file("note.py", CHANNEL)
    written, settings = tmp_path / "written", tmp_path / "xwheel.toml"
    settings.write_text(f"[plugins.options.note]\npath = '{written}'\n")
    status, said = check(folder, "note.py", "-c", str(settings))
    assert status == 0, said
    assert "alarm channel note: its form is ok; --send sends " in said
    assert "schedule type HOURS: its form is ok; --conf" in said
    assert "glue type ECHO: its form is ok; --source" in said
    assert not written.exists()
    source = tmp_path / "source"
    source.write_text("a source")
    status, said = check(folder, "note.py", "-c", str(settings), "--send", "--conf", "5", "--source", str(source))
    # a source of the type is never empty
    assert "glue type ECHO: wrong: glue type ECHO took the source ''; it must raise ExecutorError" in said
    assert "alarm channel note: ok" in said
    assert "schedule type HOURS: ok" in said
    assert status == 1
    assert "nightly report failed" in written.read_text()


def test_u10_check_does_not_wait_for_a_plugin_that_hangs(put_file: PutFile) -> None:
    folder = put_file("stuck.py", ROUTER.format(name="STUCK").replace(
        "return context", "import threading; threading.Event().wait()\n        return context"
    ))  # fmt: skip
    (found,) = check_file(folder / "stuck.py", build_config({}), Trials(limit_s=0.2))
    assert found.problem == "did not come back within 0.2 s"


PROVIDER = """
from xwheel import hookimpl
from xwheel_accounts import Identity

class Open:
    name = "open"

    def sign_in(self, name, password, known):
        return Identity(subject="1", name="guest")

    def refresh(self, identity, known):
        return identity

@hookimpl
def xwheel_register_identity_providers():
    return [Open()]
"""


def test_check_tries_identity_providers_with_strangers_if_that_is_wanted(put_file: PutFile) -> None:
    file = put_file("door.py", PROVIDER) / "door.py"
    (found,) = check_file(file, build_config({}))
    assert (found.kind, found.name, found.problem) == ("identity provider", "open", "")
    assert found.note == "--send signs strangers in with it, who must be refused"
    (found,) = check_file(file, build_config({}), Trials(send=True))
    assert "identity provider open: sign_in lets in '*'" in found.problem
