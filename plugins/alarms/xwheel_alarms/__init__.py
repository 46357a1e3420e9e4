"""Alarms: rules ask for events, and channels send them.

``matching`` answers, as an observer, with a row for each rule that asks for what the scheduler writes; ``watch`` writes
one for what did not happen. ``grouping`` decides which rows are sent, held back, counted or dropped; ``delivery``
writes an attempt for each channel, ``channels`` makes it on the channel's thread, ``delivery`` writes what came of it.
``rules`` is for the management API (``resources``, ``messages``), ``mails`` for XXL-JOB's job calls. ``service`` makes
the parts, ``sweep`` deletes what is old. The rows are in ``tables`` and ``storage``.
"""
