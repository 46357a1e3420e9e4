"""The commands ``xwheel account`` and ``xwheel audit``."""
