"""What our other distributions bring, so that a refusal of a name says what to install: ``xwheel.hints``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SHIPPED: Final[Mapping[str, Mapping[str, str]]] = {
    "router": dict.fromkeys(
        (
            "BUSYOVER",
            "CONSISTENT_HASH",
            "FAILOVER",
            "LABELS",
            "LABELS_ASKING",
            "LEAST_FREQUENTLY_USED",
            "LEAST_LOADED",
            "LEAST_RECENTLY_USED",
            "STICKY",
            "WEIGHTED",
        ),
        "xwheel-router-extra",
    ),
    "glue type": {
        "GLUE_HTTP": "xwheel-glue-http",
        "GLUE_NODEJS": "xwheel-glue-script",
        "GLUE_PHP": "xwheel-glue-script",
        "GLUE_POWERSHELL": "xwheel-glue-script",
        "GLUE_PYTHON": "xwheel-glue-script",
        "GLUE_PYTHON2": "xwheel-glue-script",
        "GLUE_SHELL": "xwheel-glue-script",
    },
    "alarm channel": {"email": "xwheel-alarm-email", "sms": "xwheel-alarm-sms"},
    "log store": {"s3": "xwheel-log-s3", "sql": "xwheel-log-sql"},
}
"""Kind to the names that distributions of ours bring next to those of xwheel itself, and which brings each."""

XXL: Final = frozenset({"xwheel-alarm-email", "xwheel-glue-script", "xwheel-router-extra"})
"""What the extra ``xxl`` brings."""


def _hint(kind: str, name: str, distribution: str) -> str:
    wanted = "'xwheel[xxl]'" if distribution in XXL else distribution
    return f"{name} comes with {distribution}: pip install {wanted} next to each node" + (
        " and each executor that runs it" if kind == "glue type" else ""
    )


HINTS: Final = {
    kind: {name: _hint(kind, name, distribution) for name, distribution in names.items()}
    for kind, names in SHIPPED.items()
}
"""The same, and how each is installed."""
