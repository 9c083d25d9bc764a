"""How long a text is, as lexicons count: UTF-8 bytes and graphemes.

Both have a fast way for the usual case. Graphemes (Unicode's extended grapheme clusters) need the `regex`
package, which is imported only when a text may hold a cluster of several characters.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regex import Pattern


def utf8_length(text: str) -> int:
    """Count the bytes of `text` in UTF-8; a lone surrogate counts 3."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def grapheme_count(text: str) -> int:
    """Count what a reader takes for one character each."""
    if text.isascii():
        return len(text) - text.count("\r\n")  # the only cluster of several characters in ASCII
    import regex

    return len(regex.findall(r"\X", text))


def exceeds_bytes(text: str, limit: int) -> bool:
    """Tell whether `text` takes more than `limit` bytes in UTF-8, mostly without encoding it."""
    length = len(text)
    if length > limit:
        return True
    return length * 4 > limit and not text.isascii() and utf8_length(text) > limit


def exceeds_graphemes(text: str, limit: int) -> bool:
    """Tell whether `text` has more than `limit` graphemes, mostly without counting them."""
    if len(text) <= limit:
        return False
    if text.isascii():
        return grapheme_count(text) > limit
    return _more_than(limit).match(text) is not None


@cache
def _more_than(limit: int) -> Pattern[str]:
    """Make what matches texts of more than so many graphemes: it looks no further, and cuts nothing out."""
    import regex

    return regex.compile(rf"\X{{{limit + 1}}}")
