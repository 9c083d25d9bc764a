"""Which connection goes when there are too many."""

from __future__ import annotations

from ipaddress import ip_network

from appview.xrpc.connections import Connections


def opened(most: int, *, busy: frozenset[str] = frozenset(), trusted: str | None = None) -> Connections[str]:
    proxies = () if trusted is None else (ip_network(trusted),)
    return Connections(most, lambda each: each not in busy, proxies)


def test_all_stay_while_there_is_room() -> None:
    held = opened(3)
    assert [held.add(name, "192.0.2.1") for name in "abc"] == [None] * 3
    assert len(held) == 3


def test_the_oldest_idle_one_of_the_largest_goes() -> None:
    held = opened(4, busy=frozenset("a"))
    for name in "abc":
        held.add(name, "192.0.2.1")
    held.add("x", "192.0.2.2")
    assert held.add("y", "192.0.2.3") == "b"
    held.remove("b", "192.0.2.1")
    assert len(held) == 4


def test_the_largest_pays_for_its_own_new_one() -> None:
    held = opened(3)
    held.add("x", "192.0.2.2")
    for name in "ab":
        held.add(name, "192.0.2.1")
    assert held.add("c", "192.0.2.1") == "a"


def test_a_new_one_goes_where_all_are_equal_and_none_is_idle() -> None:
    held = opened(2, busy=frozenset("ab"))
    held.add("a", "192.0.2.1")
    held.add("b", "192.0.2.2")
    assert held.add("c", "192.0.2.3") == "c"


def test_one_subscriber_has_one_count_whatever_his_addresses() -> None:
    held = opened(3)
    held.add("x", "192.0.2.2")
    held.add("a", "2001:db8::1")
    held.add("b", "2001:db8::2")
    assert held.add("y", "192.0.2.3") == "a"


def test_a_trusted_proxy_keeps_its_connections() -> None:
    held = opened(4, trusted="10.0.0.0/8")
    for name in "abc":
        held.add(name, "10.1.2.3")
    held.add("x", "192.0.2.1")
    assert held.add("y", "192.0.2.1") == "x"


def test_what_is_closed_twice_counts_once() -> None:
    held = opened(2)
    held.add("a", None)
    held.add("b", None)
    for _ in range(2):
        held.remove("a", None)
    assert len(held) == 1
    assert held.add("c", None) is None
