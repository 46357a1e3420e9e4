"""Cron expressions: from text to the next fire time.

``schedule`` is public: it reads an expression and gives its next fires. ``quartz_parse`` turns Quartz's text
into sets of numbers, ``quartz_search`` finds the next instant in them, ``unix`` has croniter read its fields and
searches them alike; ``days`` has the days of a month, ``zone`` a zone's offsets, ``describe`` says an expression in
words.
"""

from __future__ import annotations

from xwheel.cron.schedule import DIALECTS, CronSchedule, parse, zone

__all__ = ["DIALECTS", "CronSchedule", "parse", "zone"]
