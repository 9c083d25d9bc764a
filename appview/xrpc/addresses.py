"""Whose address a request comes from, where proxies may stand in between. Pure.

`X-Forwarded-For` is written by whoever sends a request, and each proxy appends the address that it has seen.
So it is read from its end, and only as far as the addresses are those of proxies that the operator has named:
the first other address is the caller's. What stands before that is hearsay.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.setting_kinds import Network

Address = IPv4Address | IPv6Address

MAX_HOPS: Final = 16  # ours: proxies in a row that are looked at
SUBSCRIBER_BITS: Final = 64  # RFC 6177: the least of an IPv6 address that one subscriber gets
NOWHERE: Final = "-"  # the key of a connection without an address
_WITH_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?|([0-9.]+):\d{1,5}", re.ASCII)


def caller_address(
    peer: str | None, forwarded: Sequence[str], trusted: tuple[Network, ...]
) -> Address | None:
    """Find a caller's address.

    `peer` is the address of the connection, `forwarded` every `X-Forwarded-For` header in order. None for a
    connection without an address.
    """
    address = _parse(peer or "")
    if address is None or not trusted or not forwarded:
        return address
    hops = ",".join(forwarded).rsplit(",", MAX_HOPS)[-MAX_HOPS:]
    while hops and any(address in network for network in trusted):
        hop = _parse(hops.pop().strip())
        if hop is None:  # a proxy of ours that does not know: it answers for its callers
            return address
        address = hop
    return address


def limit_key(address: Address | None) -> str:
    """Name what an address is limited as: itself, or the network of an IPv6 subscriber."""
    if address is None:
        return NOWHERE
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> SUBSCRIBER_BITS << SUBSCRIBER_BITS, SUBSCRIBER_BITS)))
    return str(address)


@lru_cache(maxsize=4_096)
def _parse(text: str) -> Address | None:
    match = _WITH_PORT.fullmatch(text)
    if match is not None:
        text = match[1] or match[2]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
