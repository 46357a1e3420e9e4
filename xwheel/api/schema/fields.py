"""What single fields of the management API may hold.

Limits stand here only; lengths fit ``storage/schema/tables.py``.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from xwheel.model import MAX_ID, RunState
from xwheel.model.jobs import MAX_PARAM_BYTES, MAX_SOURCE_BYTES
from xwheel.model.runs import MAX_ADDRESSES_LENGTH

MAX_MS: Final = 253_402_300_799_999  # the last millisecond of the year 9999
DAY_MS: Final = 86_400_000
YEAR_S: Final = 31_536_000
MAX_PAGE: Final = 1000
MAX_BULK: Final = 1000
MAX_CHILDREN: Final = 100
MAX_WORDS: Final = 100  # jobs whose schedules are asked for in words
MAX_ADDRESSES: Final = 32
MAX_ENTERED: Final = 100  # addresses that people enter for one group
MAX_NAMES_LENGTH: Final = 960
"""Characters of all names of a list together; with quotes and commas they fit their column of 1024."""

_NAME = r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z"
# what counts as a blank differs between languages, so the class says it all
_BLANK_FREE = r"\A[^\s\x00\x1c-\x1f\x85\ufeff]+\Z"
VISIBLE = r"[^\s\x00\x1c-\x1f\x85\ufeff]"
_PLUGIN: Final = {"hint": "the name of an installed plugin"}

Id = Annotated[int, Meta(ge=1, le=MAX_ID)]
Time = Annotated[int, Meta(ge=1, le=MAX_MS)]
PlainName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=_NAME,
        extra={"hint": "letters, digits, dot, dash and underscore, a letter or digit first"},
    ),
]
Title = Annotated[str, Meta(max_length=128)]
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=VISIBLE, extra={"hint": "not only blanks"})]
Description = Annotated[str, Meta(max_length=1024)]
PluginName = Annotated[str, Meta(min_length=1, max_length=64, pattern=_BLANK_FREE, extra=_PLUGIN)]
ScheduleName = Annotated[str, Meta(min_length=1, max_length=32, pattern=_BLANK_FREE, extra=_PLUGIN)]
ScheduleConf = Annotated[str, Meta(max_length=512)]
RouteOptions = Annotated[str, Meta(max_length=512)]
Timezone = Annotated[str, Meta(min_length=1, max_length=64, extra={"hint": "an IANA name"})]
Handler = Annotated[str, Meta(max_length=255)]
# bytes are counted where they are stored, against the setting; no text has fewer of them than characters
Param = Annotated[
    str, Meta(max_length=MAX_PARAM_BYTES, extra={"bytes": MAX_PARAM_BYTES, "setting": "api.max_param_bytes"})
]
MisfireThreshold = Annotated[int, Meta(ge=0, le=7 * DAY_MS)]
Timeout = Annotated[int, Meta(ge=0, le=YEAR_S)]
Retries = Annotated[int, Meta(ge=0, le=9999)]
RetryDelay = Annotated[int, Meta(ge=0, le=DAY_MS)]
RetryDelays = Annotated[tuple[RetryDelay, ...], Meta(max_length=32)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Retention = Annotated[int, Meta(ge=0, le=3650)]
GlueSource = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SOURCE_BYTES,
        pattern=VISIBLE,
        extra={"bytes": MAX_SOURCE_BYTES, "setting": "api.max_source_bytes", "hint": "not only blanks"},
    ),
]
Author = Annotated[str, Meta(min_length=1, max_length=64, pattern=VISIBLE, extra={"hint": "not only blanks"})]
Remark = Annotated[str, Meta(max_length=255)]
MaxRunning = Annotated[int, Meta(ge=0, le=100_000)]
Networks = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...],
    Meta(max_length=16, extra={"hint": "networks such as 10.1.0.0/16"}),
]
ExpiresIn = Annotated[int, Meta(ge=0, le=YEAR_S)]
Wait = Annotated[int, Meta(ge=0, le=604_800)]
Jitter = Annotated[int, Meta(ge=0, le=DAY_MS)]
CalendarNames = Annotated[tuple[PlainName, ...], Meta(max_length=16, extra={"max_characters": MAX_NAMES_LENGTH})]
GlueTypes = Annotated[tuple[PlainName, ...], Meta(max_length=16, extra={"max_characters": MAX_NAMES_LENGTH})]
Address = Annotated[str, Meta(min_length=1, max_length=255, pattern=_BLANK_FREE, extra={"hint": "without blanks"})]
Addresses = Annotated[
    tuple[Address, ...], Meta(max_length=MAX_ADDRESSES, extra={"max_characters": MAX_ADDRESSES_LENGTH})
]
Delay = Annotated[int, Meta(ge=0, le=366 * DAY_MS)]
Instant = Annotated[
    str, Meta(min_length=10, max_length=40, extra={"hint": "ISO 8601 with an offset, such as 2026-11-23T18:00:00Z"})
]
Ids = Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MAX_BULK)]
RunStates = Annotated[tuple[RunState, ...], Meta(max_length=len(RunState))]
Revision = Annotated[int, Meta(ge=1, le=MAX_ID)]
After = Annotated[int, Meta(ge=0, le=MAX_ID)]
PageSize = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
PreviewSize = Annotated[int, Meta(ge=1, le=100)]
Tail = Annotated[int, Meta(ge=1, le=10_000)]
Searched = Annotated[str, Meta(min_length=1, max_length=500)]
SearchedName = Annotated[str, Meta(min_length=1, max_length=128)]
Duration = Annotated[int, Meta(ge=0, le=YEAR_S * 1000)]
Line = Annotated[int, Meta(ge=1, le=2**31 - 1)]
RunCursor = Annotated[
    str, Meta(min_length=3, max_length=33, pattern=r"\A[0-9]{1,16}-[0-9]{1,16}\Z", extra={"hint": "a value of next"})
]
