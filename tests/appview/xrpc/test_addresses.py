"""Whose address a request comes from."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.xrpc.addresses import MAX_HOPS, NOWHERE, caller_address, limit_key

if TYPE_CHECKING:
    from appview.settings import Network

PROXIES: tuple[Network, ...] = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def caller(peer: str | None, *forwarded: str, trusted: tuple[Network, ...] = PROXIES) -> str:
    address = caller_address(peer, forwarded, trusted)
    return str(address)


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["198.51.100.1, 203.0.113.7"], "203.0.113.7"),  # the first was the caller's own idea
        ("10.0.0.1", ["198.51.100.1", "203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["203.0.113.7, 10.0.0.2"], "203.0.113.7"),  # two proxies
        ("10.0.0.1", ["203.0.113.7", "10.0.0.2, 10.0.0.3"], "203.0.113.7"),
        ("10.0.0.1", ["10.0.0.9, 10.0.0.2"], "10.0.0.9"),  # a caller inside
        ("10.0.0.1", ["203.0.113.7:5123"], "203.0.113.7"),
        ("10.0.0.1", ["2001:db8::7"], "2001:db8::7"),
        ("10.0.0.1", ["[2001:db8::7]:443"], "2001:db8::7"),
        ("10.0.0.1", ["[2001:db8::7]"], "2001:db8::7"),
        ("10.0.0.1", ["::ffff:203.0.113.7"], "203.0.113.7"),
        ("::ffff:10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("fd00::1", ["203.0.113.7"], "203.0.113.7"),
        ("fd00::1%eth0", ["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", [" \t203.0.113.7 "], "203.0.113.7"),
        ("203.0.113.7", ["198.51.100.1"], "203.0.113.7"),  # no proxy of ours: what it says is nothing
        ("203.0.113.7", ["10.0.0.1"], "203.0.113.7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7,"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7, _hidden, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["0x7f.1"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.007"], "10.0.0.1"),
        (None, ["203.0.113.7"], "None"),
    ],
)
def test_the_last_address_that_is_no_proxy_of_ours(
    peer: str | None, forwarded: list[str], expected: str
) -> None:
    assert caller(peer, *forwarded) == expected


def test_without_proxies_the_header_is_nothing() -> None:
    assert caller("127.0.0.1", "203.0.113.7", trusted=()) == "127.0.0.1"


@pytest.mark.parametrize(("proxies", "expected"), [(MAX_HOPS - 1, "203.0.113.7"), (MAX_HOPS, "10.0.0.0")])
def test_only_so_many_proxies_are_looked_through(proxies: int, expected: str) -> None:
    hops = [f"10.0.0.{number}" for number in range(proxies)]
    assert caller("10.1.0.1", ", ".join(["203.0.113.7", *hops])) == expected


def test_a_long_header_is_not_taken_apart() -> None:
    assert caller("10.0.0.1", "10.0.0.2, " * 1_000_000 + "203.0.113.7") == "203.0.113.7"


@given(hops=st.lists(st.ip_addresses().map(str) | st.text(max_size=20), max_size=6))
def test_what_a_stranger_sends_never_changes_its_address(hops: list[str]) -> None:
    """The proxy appends what it has seen; whatever stood before that is the stranger's own."""
    assert caller("10.0.0.1", ",".join([*hops, "203.0.113.7"])) == "203.0.113.7"
    assert caller("203.0.113.7", ",".join(hops)) == "203.0.113.7"


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("::1", "::/64"),
    ],
)
def test_what_an_address_is_limited_as(address: str, key: str) -> None:
    assert limit_key(ip_address(address)) == key


def test_a_connection_without_an_address_has_a_key_too() -> None:
    assert limit_key(None) == NOWHERE
