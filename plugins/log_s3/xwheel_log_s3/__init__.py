"""The log store ``s3``."""

from __future__ import annotations

from collections.abc import Iterable

from xwheel.plugin import hookimpl
from xwheel_run_logs import LogStore

from xwheel_log_s3.options import Options

__all__ = ["xwheel_register_log_stores"]


@hookimpl
def xwheel_register_log_stores(options: Options) -> Iterable[LogStore]:
    """Register the store; it needs options only where the settings choose it."""
    from xwheel_log_s3.store import S3Logs

    return [S3Logs(options)]
