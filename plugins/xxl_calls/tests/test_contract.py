"""The plugin is what its hook's contract says."""

from __future__ import annotations

import pytest
from xwheel.config.sections import ApiSection
from xwheel.errors import ConfigError
from xwheel_devtools.testing import check_group_calls

from xwheel_xxl_calls import JobCalls


def test_it_brings_the_six_calls_and_none_if_they_are_switched_off() -> None:
    six = {"addJob", "updateJob", "removeJob", "startJob", "stopJob", "triggerJob"}
    assert check_group_calls(JobCalls(ApiSection())).keys() == six
    assert check_group_calls(JobCalls(ApiSection(job_openapi=False))) == {}


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="^api.job_openapi_timezone: "):
        check_group_calls(JobCalls(ApiSection(job_openapi_timezone="Mars/Olympus")))
