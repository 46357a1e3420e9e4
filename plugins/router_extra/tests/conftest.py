"""Settings of the tests: examples may be slow on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("xwheel", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xwheel")
