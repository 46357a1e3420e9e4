"""How processes write their log to standard error: level, text or JSON, zone; and the lines that say what starts."""

from __future__ import annotations

import json
import logging
import os
import platform
import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import typer

from xwheel import __version__
from xwheel.cli.output import plain
from xwheel.cli.plugin_commands import indexed_names

if TYPE_CHECKING:
    from xwheel.config import Config
    from xwheel.plugin.discovery import Plugins

logger = logging.getLogger("xwheel")

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"
LOG_FORMAT_OF_MANY: Final = LOG_FORMAT.replace("%(threadName)s", "%(process)d %(threadName)s")
"""That of processes that write to the same place."""


class PlainFormatter(logging.Formatter):
    """Writes log lines in which no text of others can move the terminal or look like a line of its own.

    They have the time of a zone, by default of the machine's.
    """

    def __init__(self, form: str = LOG_FORMAT, zone: ZoneInfo | None = None) -> None:
        super().__init__(form)
        self._zone = zone

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time of a line, with the offset if a zone was asked for."""
        if self._zone is None:
            return super().formatTime(record, datefmt)
        return datetime.fromtimestamp(record.created, self._zone).isoformat(" ", "milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the library's name
        """Return the line, without a traceback."""
        return plain(super().formatMessage(record)).replace("\n", "\\n")

    def formatException(self, ei: Any) -> str:  # noqa: N802 -- the library's name
        """Return a traceback."""
        return plain(super().formatException(ei))


class JsonFormatter(PlainFormatter):
    """Writes each record as one line of JSON, in ASCII: what others say cannot leave its field."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, self._zone).astimezone(self._zone)
        values = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": record.process,
            "thread": record.threadName,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            values["exception"] = super().formatException(record.exc_info)
        return json.dumps(values)


def log_from(level: int, config: Config | None = None, *, of_many: bool = False) -> None:
    """Write log lines to standard error, from a level on; what settings say of it wins, once they are read.

    Of many processes, each line has the number of its own.
    """
    form = LOG_FORMAT_OF_MANY if of_many else LOG_FORMAT
    formatter = PlainFormatter(form)
    if config is not None:
        zone = ZoneInfo(config.log.timezone) if config.log.timezone else None
        formatter = JsonFormatter(zone=zone) if config.log.format == "json" else PlainFormatter(form, zone)
        level = logging.getLevelNamesMapping()[config.log.level.upper()] if config.log.level else level
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=config is not None)


def tell_start(what: str, path: Path | None) -> None:
    """Log what starts, which version, and where its settings are from."""
    named = path or os.environ.get("XWHEEL_CONFIG")
    logger.info("xwheel %s, %s, on Python %s", __version__, what, platform.python_version())
    logger.info("settings: %s", named or "no file; defaults, environment and command line")


def tell_login(path: Path | None) -> None:
    """Print how commands on this machine do without the token that was just shown, if ``xwheel login`` is installed."""
    if "login" not in indexed_names():
        return
    settings = "" if path is None else f" --config {shlex.quote(str(path))}"
    typer.echo(f"on this machine, 'xwheel login{settings}' gives commands a token of their own")


def tell_node(config: Config, plugins: Plugins) -> None:
    """Log which database a node works with, without its password, and which plugins it has."""
    from xwheel.storage.database.address import hide, parse

    url = parse(config.database.url)
    logger.info("database: %s", hide(url, url.render_as_string(hide_password=True)))
    enabled = sorted(
        {
            f"{info.origin.distribution} {info.origin.version}" if info.origin.version else info.origin.name
            for info in plugins.installed
            if info.enabled
        }
    )
    logger.info("plugins: %s", ", ".join(enabled) or "none")
    disabled = sorted(info.origin.name for info in plugins.installed if not info.enabled)
    if disabled:
        logger.info("plugins switched off: %s", ", ".join(disabled))
