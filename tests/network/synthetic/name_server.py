"""A name server on loopback: it knows what it is told, and is silent where it is told to be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

if TYPE_CHECKING:
    from pathlib import Path


class NameServer(asyncio.DatagramProtocol):
    """`async with NameServer() as names`; `records` is by name and kind, a CNAME leads to another name."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.silent: set[str] = (
            set()
        )  # names, with all that is below them; with a kind before it, of that alone
        self.lost = 0  # of the next questions
        self.asked: list[tuple[str, str]] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, ("127.0.0.1", 0))
        self.port = self._transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()

    def write_conf(self, path: Path, *lines: str) -> Path:
        """Write a resolv.conf that names this server, but for its port."""
        path.write_text("\n".join(("nameserver 127.0.0.1", *lines, "")))
        return path

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        """Answer a question."""
        query = dns.message.from_wire(data)
        question = query.question[0]
        name, kind = (
            question.name.to_text(omit_final_dot=True).lower(),
            dns.rdatatype.to_text(question.rdtype),
        )
        self.asked.append((name, kind))
        if self.lost:
            self.lost -= 1
            return
        below = {".".join(name.split(".")[at:]) for at in range(name.count(".") + 1)}
        if below & self.silent or f"{kind} {name}" in self.silent:
            return
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        owner = name
        while (owner, "CNAME") in self.records:
            (target,) = self.records[owner, "CNAME"]
            response.answer.append(dns.rrset.from_text(f"{owner}.", 60, "IN", "CNAME", f"{target}."))
            owner = target
        if values := self.records.get((owner, kind)):
            response.answer.append(dns.rrset.from_text(f"{owner}.", 60, "IN", kind, *values))
        elif not any(known == owner for known, _ in self.records):
            response.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(response.to_wire(), address)
