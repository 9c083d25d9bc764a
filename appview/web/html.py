"""HTML that cannot be anything but what was meant: every text and attribute is escaped when it is put in.

`Html` is the one type that stands as it is; only `tag` makes it. Characters that a page must not hold, or
that reorder what stands around them, are shown as what they are: text comes from the network.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final
from urllib.parse import urlencode

VOID: Final = frozenset({"input", "meta", "link", "br", "hr"})
# Control characters and lone surrogates, which HTML does not allow, and marks that reorder what follows.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


class Html(str):
    """Markup, not text."""

    __slots__ = ()


Child = str | None
NOTHING: Final = Html("")


def text(value: str) -> Html:
    """Escape text."""
    return Html(escape(_UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", value)))


def join(*children: Child) -> Html:
    """Put children one after the other; None is left out."""
    return Html("".join(child if isinstance(child, Html) else text(child) for child in children if child))


def tag(name: str, /, *children: Child, **attributes: str | bool | None) -> Html:
    """Make an element. An attribute's name may end with `_`, and has `-` where `_` stands; None and False are
    left out, True stands alone."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    opened = f"<{name}{written}>"
    return Html(opened) if name in VOID else Html(f"{opened}{join(*children)}</{name}>")


def address(path: str, /, **parameters: str | None) -> str:
    """Write a link of this service; parameters that are None are left out."""
    pairs = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(pairs)}" if pairs else path


def marked(value: str, ranges: list[tuple[int, int]]) -> Html:
    """Mark ranges of UTF-8 bytes, in order and apart from each other, in a text."""
    data, position, parts = value.encode(errors="replace"), 0, []
    for start, end in ranges:
        parts.append(text(data[position:start].decode(errors="replace")))
        parts.append(tag("mark", data[start:end].decode(errors="replace")))
        position = end
    return join(*parts, text(data[position:].decode(errors="replace")))
