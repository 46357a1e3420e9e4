"""A busy machine is slow now and then: no test has a time limit of its own."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "xwheel", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("xwheel")
