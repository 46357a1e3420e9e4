"""The log store ``sql``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import hookimpl
from xwheel_run_logs import LogStore

from xwheel_log_sql.options import Options

if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["xwheel_register_log_stores"]


@hookimpl
def xwheel_register_log_stores(config: Config, options: Options) -> Iterable[LogStore]:
    """Register the store; without options it keeps logs in the node's own database."""
    from xwheel_log_sql.store import SqlLogs

    return [SqlLogs(options, config)]
