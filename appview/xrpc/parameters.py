"""A request's query string -> typed parameters, as the method's lexicon has them.

The query string is taken as it came and decoded strictly here: percent escapes must be whole, what they spell
must be UTF-8, and neither a NUL nor a lone surrogate passes. A key that occurs twice is an array or an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from appview.xrpc.errors import InvalidRequest
from lexicons.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lexicons.catalog import Catalog
    from lexicons.syntax import Nsid

MAX_PAIRS: Final = 64  # ours: the longest method takes 16 names, two of them up to 16 and 6 times
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)


def read_parameters(catalog: Catalog, method: Nsid, target: str) -> dict[str, Any]:
    """Read the parameters of `method` from a request target (path and query); raise `InvalidRequest`."""
    pairs = read_query(query_of(target))
    try:
        return dict(catalog.read_params(method, pairs))
    except ContractError as error:
        raise InvalidRequest(str(error)) from None


def query_of(target: str) -> str:
    """Cut the query string out of a request target."""
    return target.partition("#")[0].partition("?")[2]


def read_query(query: str) -> Sequence[tuple[str, str]]:
    """Decode a query string to its pairs in order; raise `InvalidRequest`."""
    if not query:
        return []
    parts = [part for part in query.split("&", MAX_PAIRS) if part]
    if len(parts) > MAX_PAIRS:
        raise InvalidRequest(f"more than {MAX_PAIRS} parameters")
    pairs = []
    for part in parts:
        name, _, value = part.partition("=")
        decoded = _decode(name, "a parameter's name")
        pairs.append((decoded, _decode(value, decoded)))
    return pairs


def _decode(text: str, what: str) -> str:
    if text.isalnum() and text.isascii():
        return text
    if _BROKEN_ESCAPE.search(text):
        raise InvalidRequest(f"{what[:40]}: a % that two hexadecimal digits do not follow")
    try:
        decoded = unquote_to_bytes(text.replace("+", " ").encode()).decode()
    except UnicodeError:
        raise InvalidRequest(f"{what[:40]}: not UTF-8") from None
    if "\0" in decoded:
        raise InvalidRequest(f"{what[:40]}: holds a NUL")
    return decoded
