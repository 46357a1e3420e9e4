"""XXL-JOB's job calls: ``addJob`` and its five sisters, on the executor API of a node.

``answers`` answers them with what the management API has; ``spelling`` reads their bodies, and ``rate`` counts how many
a token makes in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from xwheel import cron
from xwheel.config import Config
from xwheel.config.sections import ApiSection
from xwheel.errors import ConfigError, FieldError
from xwheel.plugin import GroupCall, GroupReply, PluginSite, hookimpl


class JobCalls:
    """The job calls of XXL-JOB's fourth generation.

    Args:
        config: Whether they are answered, and the time zone of new jobs.
    """

    name = "job-calls"
    title = "job calls"

    def __init__(self, config: ApiSection) -> None:
        self._config = config

    def calls(self, site: PluginSite) -> Mapping[str, Callable[[GroupCall], GroupReply]]:
        """Return the six, or none if they are switched off.

        Raises:
            ConfigError: The time zone of new jobs does not exist.
        """
        # other processes, such as executors, have no use for what it imports
        from xwheel_xxl_calls.answers import JobAnswers

        timezone = self._config.job_openapi_timezone
        try:
            cron.zone(timezone)
        except FieldError as error:
            raise ConfigError(f"api.job_openapi_timezone: {error.reason}") from error
        answers = JobAnswers(site, timezone)
        return dict.fromkeys(answers.calls, answers.answer) if self._config.job_openapi else {}


@hookimpl
def xwheel_register_group_calls(config: Config) -> Iterable[JobCalls]:
    """Return the job calls."""
    return [JobCalls(config.api)]
