"""The section ``[alarm]`` of the settings."""

from __future__ import annotations

from pydantic import Field
from xwheel.config.sections import Section


class AlarmSection(Section):
    """Sending alarms; the rules are in the database."""

    queue_size: int = Field(100, ge=1, le=10_000)
    """Alarms that may wait for one channel in memory."""
    send_timeout_s: int = Field(30, ge=1, le=600)
    """A send that takes longer counts as failed."""
    attempts: int = Field(5, ge=1, le=20)
    """Attempts to send an alarm through a channel, at most."""
    retry_delay_s: int = Field(10, ge=1, le=3600)
    """Pause before the second attempt; then doubled."""
    retry_max_delay_s: int = Field(600, ge=1, le=86_400)
    """No pause is longer."""
    console_url: str = Field("", max_length=500, pattern=r"^(https?://[^\s#?]+)?$")
    """Where people reach the console, as https://xwheel.example; alarms link to it then."""
    watch_interval_s: int = Field(15, ge=1, le=3600)
    """How often jobs that do not run and runs that do not end are searched for."""
