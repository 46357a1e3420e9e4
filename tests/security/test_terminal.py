"""Finding S7: what an executor says in its log or its errors moves nothing on the operator's terminal."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from xwheel_commands.output import Colours

from xwheel.cli.log_lines import PlainFormatter
from xwheel.cli.output import plain, print_json, visible

OSC_52 = "\x1b]52;c;cm0gLXJmIH4K\x07"
CLEAR = "\x1b[2J\x1b[H"
BIDI = "\u202egnp.exe\u2066"
C1 = "\x9b2J"
HOSTILE = f"a{OSC_52}b{CLEAR}c{BIDI}d{C1}e\x08\x08f\u2028g\U000e0041h\x7fi"
RED = "\x1b[1;31m"
DANGEROUS = [
    *map(chr, [*range(0x20), *range(0x7F, 0xA0)]),
    *"\u061c\u200b\u200e\u200f\u202a\u202e\u2060\u2066\u2069\ufeff",
]


class Api(BaseHTTPRequestHandler):
    """A node that has one log, and passes on what an executor said."""

    def do_GET(self) -> None:
        if "/runs/1/log" in self.path:
            content = (
                f"one {RED}red\x1b[0m\nprogress 1%\rprogress 2%\r\ntwo {HOSTILE}\n中文 🙂 👩\u200d🚀 {RED}still red\n"
            )
            self._answer(200, {"run_id": 1, "from_line": 1, "next_line": 4, "content": content, "is_end": True})
        else:
            self._answer(502, {"title": "refused", "detail": f"the executor said {HOSTILE}\nxwheel: all is well"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def node() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def on_terminal(node: str, *words: str) -> str:
    """Return all that a command writes to the terminal, standard error included."""
    master, slave = pty.openpty()
    # whatever terminal the tests have; NO_COLOR would be obeyed
    mine = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    environment = {**mine, "XWHEEL_URL": node, "XWHEEL_TOKEN": "t" * 20}
    process = subprocess.Popen(
        [sys.executable, "-m", "xwheel", *words], stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    found = b""
    try:
        while piece := os.read(master, 65536):
            found += piece
    except OSError:  # the other side is closed
        pass
    process.wait()
    os.close(master)
    return found.decode().replace("\r\n", "\n")


def piped(node: str, *words: str) -> str:
    environment = {**os.environ, "XWHEEL_URL": node, "XWHEEL_TOKEN": "t" * 20}
    done = subprocess.run([sys.executable, "-m", "xwheel", *words], capture_output=True, env=environment, check=False)
    return (done.stdout + done.stderr).decode()


def check_harmless(text: str) -> None:
    for letter in DANGEROUS:
        assert letter in "\n\t\x1b" or letter not in text, repr(letter)
    assert set(text.split("\x1b")[1:]) == set() or all(
        piece.partition("m")[0].lstrip("[").replace(";", "").isdigit() for piece in text.split("\x1b")[1:]
    )


def test_s7_of_a_log_only_text_reaches_a_pipe(node: str) -> None:
    text = piped(node, "run", "log", "1")
    check_harmless(text)
    assert "\x1b" not in text
    assert "one red\nprogress 1%\nprogress 2%\ntwo a\\x1b]52;c;" in text
    assert text.endswith("中文 🙂 👩\u200d🚀 still red\n")


def test_s7_of_a_log_only_text_and_colours_reach_the_terminal(node: str) -> None:
    text = on_terminal(node, "run", "log", "1")
    check_harmless(text)
    assert f"one {RED}red\x1b[0m\nprogress 1%\nprogress 2%\ntwo a\\x1b]52;c;" in text
    assert "中文 🙂 👩\u200d🚀" in text
    assert text.endswith(f"{RED}still red\n\x1b[0m")  # what comes after is the operator's own


def test_s7_raw_passes_everything_on(node: str) -> None:
    assert HOSTILE in piped(node, "run", "log", "1", "--raw")


@pytest.mark.parametrize("run", [on_terminal, piped])
def test_s7_an_error_is_one_line_of_visible_text(node: str, run: Any) -> None:
    place = f"node {node}\n" if run is on_terminal else ""
    text = run(node, "run", "show", "1")
    check_harmless(text)
    assert "\x1b" not in text
    assert text.startswith(f"{place}xwheel: GET /api/v1/runs/1: the executor said a\\x1b]52;c;")
    assert text.removeprefix(place).count("\n") == 1


def test_s7_json_says_the_same_without_a_byte_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"message": HOSTILE, "name": "中文 🙂"}
    print_json(value)
    text = capsys.readouterr().out
    check_harmless(text)
    assert json.loads(text) == value
    assert "中文 🙂" in text


@pytest.mark.parametrize("letter", DANGEROUS, ids=lambda letter: f"{ord(letter):04x}")
def test_s7_each_letter_alone(letter: str) -> None:
    if letter not in "\n\t\r":
        assert plain(f"a{letter}b") == f"a{letter.encode('unicode_escape').decode()}b"
    assert letter not in visible(f"a{letter}b")


def test_s7_colours_in_pieces() -> None:
    """A sequence that an executor cut in two is text."""
    colours = Colours(keep=True)
    assert colours.only(f"a{RED}b\x1b[") + colours.only("2Jc") == f"a{RED}b\\x1b[2Jc"
    assert colours.end() == "\x1b[0m"
    assert Colours(keep=True).end() == ""
    colours.only("\x1b[0m\x1b[m")
    assert colours.end() == ""
    assert Colours(keep=False).only(f"a{RED}b\x1b[38:5:1mc") == "abc"
    assert Colours(keep=True).only(f"\x1b[{'1;' * 100}m").startswith("\\x1b")


def test_s7_what_others_say_adds_no_line_to_the_log_of_a_process() -> None:
    formatter = PlainFormatter("%(levelname)s %(message)s")
    said = logging.makeLogRecord({"msg": "it said %s", "args": (f"{OSC_52}\nERROR forged",), "levelname": "INFO"})
    assert formatter.format(said) == "INFO it said \\x1b]52;c;cm0gLXJmIH4K\\x07\\nERROR forged"
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        failed = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    text = formatter.format(failed)
    check_harmless(text)
    assert text.splitlines()[1].startswith("Traceback")
