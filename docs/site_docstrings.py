"""Griffe extension: docstrings are written for ``help()``; on the site, roles are code and examples are blocks."""

import re
from typing import Any

import griffe


def _named(match: re.Match[str]) -> str:
    """``:func:`~propml.audit``` and ``:meth:`title <propml.x>``` as the reader is to see them."""
    text = match[1].partition(" <")[0]
    return f"`{text.rpartition('.')[2] if text.startswith('~') else text}`"


class ForTheSite(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = re.sub(r":\w+:`([^`]+)`", _named, obj.docstring.value)
            obj.docstring.value = re.sub(r"(?m)^>>> .*(?:\n(?!\s*$).*)*", r"```pycon\n\g<0>\n```", text)
