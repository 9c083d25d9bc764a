"""Which addresses may be connected to."""

from __future__ import annotations

import pytest

from appview.http.addresses import is_allowed, is_loopback

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "99.255.255.255",  # one below carrier-grade NAT
    "100.128.0.0",  # one above
    "172.15.255.255",
    "172.32.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450:4001:80b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]
REFUSED = [
    "0.0.0.0",  # noqa: S104
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",  # IPv4-compatible
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",  # local NAT64
    "100::1",
    "2001::1",  # Teredo
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "localhost",
    "",
    "0x7f.1",
    "2130706433",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_allowed(address, allow_loopback=False)


@pytest.mark.parametrize("address", REFUSED)
def test_any_other_address_is_refused(address: str) -> None:
    assert not is_allowed(address, allow_loopback=False)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_allowed_on_request(address: str) -> None:
    assert is_allowed(address, allow_loopback=True)


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "::", "0.0.0.0", "fe80::1"])  # noqa: S104
def test_allowing_loopback_allows_nothing_else(address: str) -> None:
    assert not is_allowed(address, allow_loopback=True)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "pds.localhost", "127.0.0.1", "::1"])
def test_hosts_that_name_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example.com", "example.com", "10.0.0.1", "2130706433"])
def test_hosts_that_do_not(host: str) -> None:
    assert not is_loopback(host)
