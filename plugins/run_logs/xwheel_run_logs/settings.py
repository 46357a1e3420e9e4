"""The section ``[run_logs]`` of the settings."""

from __future__ import annotations

from pydantic import Field
from xwheel.config.sections import Section


class RunLogsSection(Section):
    """Logs of runs in a log store, where they outlast their executors."""

    store: str = ""
    """Name of the log store that keeps them, such as `file`, `sql` or `s3`; empty leaves logs with their executors
    alone."""
    retention_days: int = Field(0, ge=0, le=36_500)
    """Logs older than this are deleted from the store; 0 keeps each as long as its run. Jobs may have a retention of
    their own."""
    call_timeout_s: float = Field(10, gt=0, le=600)
    """A call of the store that takes longer counts as failed."""
    fetch: bool = True
    """Fetch the logs of runs on executors that are not xwheel's, while a run is open and once after it."""
    fetch_interval_s: float = Field(5, ge=0.1, le=3600)
    """How often a run that is open is asked for more of its log, at most."""
