"""Messages of XXL-JOB executors carry HTML; xwheel stores text, so they are converted on the way in."""

from __future__ import annotations

import html
import re
from typing import Final

# only names of HTML: "<init>" in a Java stack trace and "<module>" in a Python one are text
_NAMES: Final = (
    "article|aside|audio|base|blockquote|body|button|canvas|center|code|dd|del|div|dl|dt|em|embed|fieldset|font|"
    "footer|form|frame|h[1-6]|head|header|hr|html|iframe|img|input|ins|label|li|link|main|meta|nav|object|ol|option|"
    "pre|script|section|select|small|source|span|strike|strong|style|sub|sup|svg|table|tbody|td|textarea|tfoot|th|"
    "thead|title|tr|tt|ul|video"
)
_BREAK: Final = re.compile(r"<br\s*/?>|</p\s*>", re.IGNORECASE)
_TAG: Final = re.compile(rf"</?(?:[abipsu]|(?i:{_NAMES}))(?:[\s/][^<>]*)?>|<!--[^<>]*-->")
_ENTITY: Final = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")


def to_plain(message: str) -> str:
    """Return a message without markup: breaks become new lines, tags go, entities become characters."""
    if "<" in message:
        message = _TAG.sub("", _BREAK.sub("\n", message))
    if "&" in message:
        # after the tags: an escaped tag was meant to be read as text
        message = _ENTITY.sub(_unescape, message)
    return message


def _unescape(match: re.Match[str]) -> str:
    return html.unescape(match[0]).replace("\xa0", " ").replace("\x00", "")
