"""Whether the servers that the settings name may be asked at all, as far as their URLs tell.

What the guarded client would refuse at every attempt is an error of the settings, told before anything
starts.
A name that only resolves to a forbidden address is found when it is connected to.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from appview.errors import ConfigurationError
from appview.http.addresses import is_allowed, is_loopback

if TYPE_CHECKING:
    from appview.settings import Settings

TLS: Final = {"https": "https", "wss": "wss", "http": "https", "ws": "wss"}  # each scheme's secure one
OWN: Final = "tap"  # a kind of source that is the operator's own, wherever it is


def check_reachable(settings: Settings) -> None:
    """Refuse sources and a directory that can never be asked; raise `ConfigurationError`."""
    for source in settings.source:
        _check("source", source, allow_loopback=settings.allow_loopback)
    _check("plc_url", settings.plc_url, allow_loopback=settings.allow_loopback)


def _check(setting: str, line: str, *, allow_loopback: bool) -> None:
    before, _, rest = line.partition("://")
    kind, _, scheme = before.lower().rpartition("+")
    host = urlsplit(f"{scheme}://{rest}").hostname or ""
    if kind == OWN or (allow_loopback and is_loopback(host)):
        return
    place = f"{setting}: {scheme}://{host}"
    if is_loopback(host):
        raise ConfigurationError(
            f"{place} is on this machine, which the settings forbid",
            hint="for development and tests: --allow-loopback or ENGRAM_ALLOW_LOOPBACK=true",
        )
    if _is_address(host) and not is_allowed(host, allow_loopback=False):
        raise ConfigurationError(
            f"{place} is not a public address",
            hint="only public addresses are asked, and those of this machine with --allow-loopback"
            " (ENGRAM_ALLOW_LOOPBACK=true)",
        )
    if scheme != TLS.get(scheme):
        raise ConfigurationError(
            f"{place} is without TLS",
            hint=f"use {TLS.get(scheme, 'https')}://; without TLS only this machine is asked, with"
            " --allow-loopback (ENGRAM_ALLOW_LOOPBACK=true)",
        )


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
