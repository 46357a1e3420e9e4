"""The setting that a wrong name most likely means: what people call it elsewhere, then how it is spelled."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "api": {"access_token": "executor_token", "bind": "host", "listen": "host"},
    "database": {"dsn": "url", "address": "url", "timeout_s": "wait_s"},
    "executor": {
        "secret": "access_token",
        "secret_file": "access_token_file",
        "executor_token": "access_token",
        "executor_token_file": "access_token_file",
        "group": "app_name",
        "scheduler_addresses": "admin_addresses",
        "ip": "host",
        "log_path": "data_dir",
        "log_dir": "data_dir",
    },
    "log": {"tz": "timezone"},
}
"""For each section what people write who know the thing by quite another name; some are XXL-JOB's own words."""

SAME: Final[Mapping[str, str]] = {
    "certificate": "cert",
    "directory": "dir",
    "folder": "dir",
    "millis": "ms",
    "number": "count",
    "passwd": "password",
    "path": "dir",
    "pwd": "password",
    "seconds": "s",
    "secs": "s",
    "uri": "address",
    "url": "address",
    "urls": "addresses",
}
"""Words that mean the same within a name."""


def nearest(word: str, names: Sequence[str], section: str = "") -> str:
    """Return the name, of those of a section, that a wrong one most likely means; or an empty text."""
    plain = word.lower().replace("-", "_")
    meant = MEANINGS.get(section, {}).get(plain, "")
    if meant in names:
        return meant
    parts = [SAME.get(part, part) for part in plain.split("_")]
    for spelled in (plain, "_".join(parts)):
        if spelled in names:
            return spelled
    close = difflib.get_close_matches(plain, names, n=1)
    # a name with all its words, and more of them, says what it is about; letters alone do not
    longer = [name for name in names if set(parts) < set(name.split("_"))]
    return (longer or close or [""])[0]
