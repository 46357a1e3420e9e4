"""Alarms: rules ask for events, and channels send them.

``matching`` answers, as an observer, with a row for each rule that asks for what the scheduler writes; ``watch`` writes
one for what did not happen. ``grouping`` decides which rows are sent, held back, counted or dropped; ``delivery``
writes an attempt for each channel, ``channels`` makes it on the channel's thread, ``delivery`` writes what came of it.
``rules`` is for the management API (``resources``, ``messages``), ``mails`` for XXL-JOB's job calls. ``service`` makes
the parts, ``sweep`` deletes what is old. The rows are in ``tables`` and ``storage``.

Channels are plugins of their own: ``contract`` says what they must be able to do, ``helpers`` has what they share, and
they import both from here.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xwheel_alarms.contract import Alarm, AlarmChannel, AlarmKind, AlarmRetryLater
    from xwheel_alarms.helpers import ALARM_PLACEHOLDERS, AlarmReceipts, AlarmTemplate, alarm_values, checked_receivers

__all__ = [
    "ALARM_PLACEHOLDERS",
    "Alarm",
    "AlarmChannel",
    "AlarmKind",
    "AlarmReceipts",
    "AlarmRetryLater",
    "AlarmTemplate",
    "alarm_values",
    "checked_receivers",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # the settings are read by processes that need nothing else from here
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from xwheel_alarms import contract, helpers

        return getattr(contract if hasattr(contract, name) else helpers, name)
