"""Text with ``${name}`` in it: fixed names, nothing is evaluated (rule R12)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote

_TOKEN: Final = re.compile(r"\$(?:(\$)|\{([^{}$]*)\}|)")
_WAYS: Final = ("json", "url")


class TemplateError(Exception):
    """A template has an unknown name, or a value does not fit its place."""


class Template:
    """A text whose ``${name}`` are filled in.

    ``${name:json}`` is the value as it stands between the quotes of a JSON string, ``${name:url}`` as it stands in a
    part of a URL, ``$$`` a dollar. Values are not searched for names again. :attr:`names` are those in it.

    Args:
        where: What the text is, for messages.
        text: The template.
        names: The names that there are.
        prefix: How further names may begin, whatever follows; empty for none.
        url: Whether the text is a URL, in which every value is escaped for one.

    Raises:
        TemplateError: It holds a name that is none of them, or a lone dollar; the message lists the names.
    """

    def __init__(self, where: str, text: str, names: Collection[str], *, prefix: str = "", url: bool = False) -> None:
        found = set()
        for dollar, token in _TOKEN.findall(text):
            if dollar:
                continue
            name, colon, way = token.partition(":")
            found.add(name)
            known = name in names or (prefix and name.startswith(prefix))
            if not known or (colon and way not in _WAYS):
                listed = ", ".join(f"${{{one}}}" for one in sorted(names))
                raise TemplateError(
                    f"{where}: ${{{token[:64]}}} is no name of a template; known: {listed}, each also as "
                    "${name:json} and ${name:url}; $$ is a dollar"
                )
        self.names = frozenset(found)
        self._where = where
        self._text = text
        self._url = url

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with the values.

        Raises:
            TemplateError: A value would be ``.`` or ``..`` in a URL's path.
        """

        def one(match: re.Match[str]) -> str:
            dollar, token = match.groups()
            if dollar:
                return "$"
            name, _, way = token.partition(":")
            value = values[name]
            if way == "json":
                return json.dumps(value, ensure_ascii=False)[1:-1]
            if way == "url" or self._url:
                if value in {".", ".."}:
                    raise TemplateError(f"{self._where}: ${{{name}}} must not be {value!r} in a URL")
                return quote(value, safe="", errors="replace")
            return value

        return _TOKEN.sub(one, self._text)
