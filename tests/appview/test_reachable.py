"""Servers that the settings name and that may never be asked are refused before anything starts."""

from __future__ import annotations

import pytest

from appview.errors import ConfigurationError
from appview.http.client import HttpClient
from appview.http.errors import ForbiddenUrl
from appview.reachable import check_reachable
from appview.settings import Settings

LOOPBACK = [
    "http://localhost:2583",
    "ws://127.0.0.1",
    "wss://localhost",
    "https://[::1]:2583",
    "ws://x.localhost",
]
PRIVATE = ["wss://10.0.0.1", "https://192.168.1.4:8443", "ws://169.254.169.254", "wss://[fd00::1]"]
PLAIN = ["ws://relay.example", "http://pds.example"]


@pytest.mark.parametrize("source", [*LOOPBACK, *PRIVATE, *PLAIN])
def test_a_source_that_the_client_would_refuse_is_refused_with_a_hint(source: str) -> None:
    settings = Settings(source=("wss://relay.example", source))
    with pytest.raises(ConfigurationError, match="source: ") as caught:
        check_reachable(settings)
    assert "--allow-loopback" in caught.value.hint
    assert "ENGRAM_ALLOW_LOOPBACK" in caught.value.hint


@pytest.mark.parametrize("source", LOOPBACK)
def test_this_machine_is_taken_where_it_is_allowed(source: str) -> None:
    check_reachable(Settings(source=(source,), allow_loopback=True))


@pytest.mark.parametrize("source", [*PRIVATE, *PLAIN])
def test_nothing_else_is_then_allowed(source: str) -> None:
    with pytest.raises(ConfigurationError):
        check_reachable(Settings(source=(source,), allow_loopback=True))


@pytest.mark.parametrize(
    "source",
    ["wss://relay.example", "https://pds.example:8443/x", "wss://8.8.8.8", "tap+ws://127.0.0.1:2480"],
)
def test_what_may_be_asked_is_left_alone(source: str) -> None:
    check_reachable(Settings(source=(source,)))


def test_a_kind_before_the_scheme_changes_nothing() -> None:
    with pytest.raises(ConfigurationError, match="source: http://localhost"):
        check_reachable(Settings(source=("pds+http://localhost:2583",)))


def test_the_directory_is_judged_too() -> None:
    with pytest.raises(ConfigurationError, match="plc_url"):
        check_reachable(Settings(plc_url="http://localhost:2582"))


@pytest.mark.parametrize("allow_loopback", [False, True])
@pytest.mark.parametrize("source", [*LOOPBACK, *PRIVATE, *PLAIN])
async def test_it_agrees_with_the_client(source: str, allow_loopback: bool) -> None:
    settings = Settings(source=(source,), allow_loopback=allow_loopback)
    try:
        check_reachable(settings)
    except ConfigurationError:
        async with HttpClient(allow_loopback=allow_loopback) as client:
            with pytest.raises(ForbiddenUrl):
                await client.websocket(source, max_message_bytes=1_000)
