"""Settings of the tests: examples may be slow on a busy machine; how long they take is no claim of any test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("xwheel", deadline=None, print_blob=True, max_examples=50)
settings.load_profile("xwheel")
