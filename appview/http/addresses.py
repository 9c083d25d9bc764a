"""Which network addresses an outgoing connection may reach: public unicast ones.

Names that strangers choose (a DID document's PDS, a did:web host, a redirect) must not lead into the
operator's own network. The rule is a list of what is allowed, not of what is known to be dangerous: an
address that no rule speaks of is refused. Source: IANA special-purpose address registries (RFC 6890).
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")  # RFC 4291: everything IANA hands out
_NAT64: Final = IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address
_REFUSED_V6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # IETF protocol assignments, Teredo and ORCHID among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which reaches any IPv4 address
        "3fff::/20",  # documentation
    )
)
_REFUSED_V4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; a cloud's metadata service at 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host agent, on a public address
        "169.254.0.0/16",  # link-local; metadata services at 169.254.169.254
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # IETF protocol assignments; a cloud's metadata service at 192.0.0.192
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)


@lru_cache(maxsize=4_096)
def is_allowed(address: str, *, allow_loopback: bool) -> bool:
    """Tell whether a connection to this literal address is allowed; what is no address is not."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = _embedded(parsed)
    if allow_loopback and inner.is_loopback:
        return True
    if isinstance(inner, IPv4Address):
        return not any(inner in network for network in _REFUSED_V4)
    return inner in _GLOBAL_UNICAST and not any(inner in network for network in _REFUSED_V6)


def is_loopback(host: str) -> bool:
    """Tell whether a URL's host names this machine: `localhost`, a name below it, or a loopback address."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return _embedded(ip_address(host)).is_loopback
    except ValueError:
        return False


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Give the IPv4 address that an IPv4-mapped or NAT64 address reaches, or the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
