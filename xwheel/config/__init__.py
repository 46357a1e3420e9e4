"""Settings.

``loading`` reads file, environment and command line into the ``sections``; whatever is unknown is refused.
"""

from __future__ import annotations

from xwheel.config.loading import BAD_SECRETS, ENV_PREFIX, Config, build_config, check_secret, load_config

__all__ = ["BAD_SECRETS", "ENV_PREFIX", "Config", "build_config", "check_secret", "load_config"]
