"""What settings take: from what stands in a flag, a variable or a file to a value.

Each function raises `ValueError` that says what the value must be.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import Stemmer

from appview.errors import ConfigurationError
from appview.source_lines import parse_source
from lexicons.errors import InvalidSyntax
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PORT: Final = 65_535
EVERY: Final = "all"  # in place of spaces

Network = IPv4Network | IPv6Network


def plain(value: object) -> str:
    """Take text."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be text that is not empty")
    return value.strip()


def folder(value: object) -> Path:
    """Take the name of a folder."""
    return Path(plain(value)).expanduser().absolute()


def flag(value: object) -> bool:
    """Take yes or no."""
    if isinstance(value, bool):
        return value
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise ValueError("must be true or false")


def number(low: int, high: int) -> Callable[[object], int]:
    """Take a whole number inside bounds."""

    def parse(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return parse


def one_of(*choices: str) -> Callable[[object], str]:
    """Take one of some words."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or value.strip().lower() not in choices:
            raise ValueError("must be " + " or ".join(choices))
        return value.strip().lower()

    return parse


def language(value: object) -> str:
    """Take a language whose word forms are known."""
    text = plain(value).lower()
    known = Stemmer.algorithms()
    if text not in known:
        raise ValueError("must be one of " + ", ".join(known))
    return text


def url(*schemes: str, bare: bool) -> Callable[[object], str]:
    """Take a URL of one of the schemes; `bare`: with neither path nor query."""

    def parse(value: object) -> str:
        text = plain(value)
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(f"is not a URL ({error})") from None
        if parts.scheme not in schemes or not host or re.search(r"\s", text):
            raise ValueError("must be a URL that starts with " + " or ".join(f"{s}://" for s in schemes))
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a user name or password")
        if parts.fragment or (bare and (parts.query or parts.path not in ("", "/"))):
            raise ValueError("must be a URL without " + ("path, query or fragment" if bare else "fragment"))
        return text.rstrip("/") if bare else text

    return parse


def address(value: object) -> tuple[str, int]:
    """Take an address with a port."""
    match = re.fullmatch(r"\[?([^\[\]\s]+?)\]?:(\d{1,5})", plain(value), re.ASCII)
    if match is None or int(match[2]) > MAX_PORT:
        raise ValueError("must be an address and a port, such as 127.0.0.1:9420")
    return match[1], int(match[2])


def sources(value: object) -> tuple[str, ...]:
    """Take source lines, separated by white space or as a list; each source once."""
    if isinstance(value, str):
        value = [item for item in re.split(r"[\s,]+", value) if item]
    if not isinstance(value, list | tuple):
        raise ValueError("must be a source or a list of sources")
    lines: dict[str, str] = {}
    for item in value:
        line = plain(item)
        try:
            source = parse_source(line)
        except ConfigurationError as error:
            raise ValueError(f"holds {error}" + (f" ({error.hint})" if error.hint else "")) from None
        if lines.setdefault(source.name, line) != line:
            raise ValueError(f"names {source.name} twice, with different options")
    return tuple(lines.values())


def networks(value: object) -> tuple[Network, ...]:
    """Take addresses and networks, as `10.0.0.0/8` or `::1`."""
    if isinstance(value, str):
        value = [item for item in re.split(r"[\s,]+", value) if item]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be an address or network, or a list of them")
    try:
        return tuple(dict.fromkeys(ip_network(item) for item in value))
    except ValueError as error:
        raise ValueError(f"must be addresses or networks ({error})") from None


def lines(value: object) -> tuple[str, ...]:
    """Take lines of text: a list, or one text in which `;` or a new line stands between them."""
    if isinstance(value, str):
        value = re.split(r"[;\n]", value)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a line of text, or a list of them")
    return tuple(dict.fromkeys(item.strip() for item in value if item.strip()))


def spaces(value: object) -> tuple[str, ...]:
    """Take spaces by their URIs or their authorities' DIDs, or `all`."""
    if isinstance(value, str):
        value = [item for item in re.split(r"[\s,]+", value) if item]
    if not isinstance(value, list | tuple):
        raise ValueError("must be a space or a list of spaces")
    found: dict[str, None] = {}
    for item in value:
        text = plain(item)
        if text == EVERY:
            return (EVERY,)
        try:
            found[SpaceUri.public(Did(text)) if text.startswith("did:") else SpaceUri(text)] = None
        except InvalidSyntax as error:
            raise ValueError(f"holds {text[:80]!r}, which is neither `all` nor a space: {error}") from None
    return tuple(found)
