"""Alarms: rules ask for events, and channels send them.

``matching`` writes an alarm row for each rule that asks for what the scheduler commits, ``watch`` one for what did not
happen; ``grouping`` decides which rows are sent, held back, counted or dropped; ``delivery`` writes an attempt row for
each channel, ``channels`` makes it on the channel's thread, and ``delivery`` writes what came of it. ``rules`` is for
the management API; ``service`` makes the parts.
"""
