"""Which addresses a name has, asked of the operator's name servers without a thread.

The system's own way, `getaddrinfo`, keeps a thread for as long as a name's servers are silent, even when
nobody waits any more: a few names would take the threads of all. Here a question that is given up is gone.

Invariants: nobody waits for a name longer than `SECONDS`; names whose servers are silent, however many, hold
up no other. As with the system's way, `/etc/hosts` goes first, `/etc/resolv.conf` names servers and search
domains, and both are read again when they change. Answers are not trusted: see `client`.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from io import StringIO
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from appview.http.addresses import is_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dns.asyncresolver import Resolver
    from dns.resolver import Answer

SECONDS: Final = 5.0  # for a name; a lost question is asked again meanwhile
ONE_SECONDS: Final = 1.5  # for one question to one server: then it, or another one, is asked
GRACE_SECONDS: Final = 0.5  # for IPv6 addresses, once there are others
_LOOPBACK: Final = ("127.0.0.1", "::1")  # RFC 6761: what localhost is, wherever that is not said
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class Names(AbstractResolver):
    """Resolves names. `port` is that of the name servers."""

    def __init__(
        self,
        *,
        hosts: Path = Path("/etc/hosts"),
        servers: Path = Path("/etc/resolv.conf"),
        port: int = 53,
        seconds: float = SECONDS,
    ) -> None:
        self._hosts = hosts
        self._servers = servers
        self._port = port
        self._seconds = seconds
        self._read: tuple[object, ...] | None = None  # the files as they were when they were read
        self._noted: dict[str, list[str]] = {}
        self._resolver: Resolver | None = None

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Find the addresses of a name; raise `OSError` where there are none."""
        resolver = self._up_to_date()
        name = host.rstrip(".").lower()
        addresses = self._noted.get(name) or (
            _LOOPBACK if is_loopback(name) else await self._ask(resolver, host)
        )
        found = [
            ResolveResult(
                hostname=host, host=address, port=port, family=_family(address), proto=0, flags=_NUMERIC
            )
            for address in addresses
            if family in (socket.AF_UNSPEC, _family(address))
        ]
        if not found:
            raise OSError(None, f"no address of {host} was found")
        return found

    async def texts(self, name: str) -> Sequence[str]:
        """Find the TXT records of a name; none where there is no answer."""
        answer = await self._records(self._up_to_date(), name, "TXT", search=False)
        return [b"".join(record.strings).decode("utf-8", "replace") for record in answer or ()]

    async def close(self) -> None:
        """Nothing is open."""

    async def _ask(self, resolver: Resolver, host: str) -> list[str]:
        """Ask for addresses of both kinds at once. Where there are IPv4 ones, the others have little time."""
        kinds = [asyncio.create_task(self._records(resolver, host, kind)) for kind in ("A", "AAAA")]
        try:
            some = await asyncio.shield(kinds[0])
            await asyncio.wait(kinds, timeout=GRACE_SECONDS if some else None)
            return [record.address for kind in kinds if kind.done() for record in kind.result() or ()]
        finally:
            for kind in kinds:
                kind.cancel()
            await asyncio.gather(*kinds, return_exceptions=True)

    async def _records(
        self, resolver: Resolver, name: str, kind: str, *, search: bool = True
    ) -> Answer | None:
        from dns.exception import DNSException

        try:
            async with asyncio.timeout(self._seconds):
                return await resolver.resolve(name, kind, search=search, lifetime=self._seconds)
        except (DNSException, OSError, TimeoutError, ValueError):  # no such name, no server, no answer
            return None

    def _up_to_date(self) -> Resolver:
        """Read the files, where they are not as they were."""
        stamps = _stamp(self._hosts), _stamp(self._servers)
        if self._resolver is None or stamps != self._read:
            self._noted, self._resolver, self._read = self._read_hosts(), self._read_servers(), stamps
        return self._resolver

    def _read_hosts(self) -> dict[str, list[str]]:
        noted: dict[str, list[str]] = {}
        for line in _lines(self._hosts):
            address, *names = line.partition("#")[0].split() or [""]
            try:
                ip_address(address)
            except ValueError:
                continue
            for name in names:
                noted.setdefault(name.rstrip(".").lower(), []).append(address)
        return noted

    def _read_servers(self) -> Resolver:
        from dns.asyncresolver import Resolver
        from dns.exception import DNSException

        def read(*lines: str) -> Resolver:
            resolver = Resolver(configure=False)
            resolver.port = self._port
            resolver.read_resolv_conf(StringIO("\n".join(lines)))
            resolver.timeout = ONE_SECONDS
            return resolver

        own = "nameserver 127.0.0.1"  # resolv.conf(5): where none is named
        lines = []
        for line in _lines(self._servers):
            with suppress(DNSException, ValueError):  # a line that means nothing is passed over
                read(own, line)
                lines.append(line)
        return read(*lines) if any(line.startswith("nameserver") for line in lines) else read(own, *lines)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
