"""An application that declares a job."""

from __future__ import annotations

from xwheel.executor import job


@job("report", cron="0 0 2 * * ?", timezone="Asia/Shanghai", retries=3)
def report() -> str:
    """Report."""
    return "reported"
