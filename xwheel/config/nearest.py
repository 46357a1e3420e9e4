"""The setting that a wrong name most likely means: what people call it elsewhere, then how it is spelled."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "api": {"token": "executor_token", "access_token": "executor_token", "bind": "host", "listen": "host"},
    "database": {"dsn": "url", "uri": "url", "address": "url", "pool": "pool_size", "timeout_s": "wait_s"},
    "executor": {
        "token": "access_token",
        "token_file": "access_token_file",
        "secret": "access_token",
        "secret_file": "access_token_file",
        "executor_token": "access_token",
        "executor_token_file": "access_token_file",
        "name": "app_name",
        "group": "app_name",
        "admin": "admin_addresses",
        "addresses": "admin_addresses",
        "scheduler_addresses": "admin_addresses",
        "url": "address",
        "ip": "host",
        "log_path": "data_dir",
        "log_dir": "data_dir",
        "glue_types": "allowed_glue_types",
    },
    "security": {"key": "key_file", "networks": "executor_networks"},
    "tls": {"ca": "ca_file", "cert": "cert_file", "certificate": "cert_file", "key": "key_file"},
    "log": {"tz": "timezone", "time_zone": "timezone"},
}
"""For each section what people write who know the thing by another name; some are XXL-JOB's own words."""

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
    """Return the name that a wrong one most likely means, or an empty text.

    Args:
        word: What was written.
        names: What there is, the more usual ones first.
        section: The section that the word stands in.
    """
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
