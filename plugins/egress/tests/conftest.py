"""Policies and resolvers."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import trustme
from hypothesis import settings
from xwheel import Config
from xwheel_devtools.testing import WebServer

from xwheel_egress import EgressPolicy

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None)
settings.load_profile("xwheel")


def policy_of(*webs: WebServer, ca: Path | None = None) -> EgressPolicy:
    section = {"allow_networks": ["127.0.0.1"], "allow_ports": [web.port for web in webs], "ca_file": ca}
    return EgressPolicy.from_config(Config(egress=section))  # type: ignore[arg-type]


class Names:
    """A resolver whose answers change: each question gets the next one, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def tls_for(ca: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context
