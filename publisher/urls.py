"""Which URLs of services may be called.

https to a public name, or, on a machine that runs its own network, plain http to loopback. Addresses come out
of documents that anybody can publish, so each is checked before it is used.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from publisher.errors import BadSetting


def is_loopback(url: str) -> bool:
    """Tell whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def service_url(url: str, *, allow_loopback: bool) -> str:
    """Check the base URL of a PDS or directory and give it without a trailing slash; raise `BadSetting`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadSetting(f"not a URL: {url[:200]!r}") from None
    if (
        parts.username is not None
        or parts.query
        or parts.fragment
        or parts.path not in ("", "/")
        or port == 0
    ):
        raise BadSetting(f"not the base URL of a service: {url[:200]!r}", "expected https://host")
    if is_loopback(url):
        if not allow_loopback or parts.scheme not in ("http", "https"):
            raise BadSetting(f"{url[:200]!r} is on this machine", "allow it with ENGRAM_ALLOW_LOOPBACK=true")
    elif parts.scheme != "https" or not _is_public(host):
        raise BadSetting(f"not a public https URL: {url[:200]!r}")
    return f"{parts.scheme}://{parts.netloc}"


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host.strip(".")
