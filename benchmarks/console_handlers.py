"""Handlers of the console's benchmark: one that counts, and those that write logs."""

from benchmarks.handlers import nothing
from benchmarks.log_handlers import paced, writes

__all__ = ["nothing", "paced", "writes"]
