"""TXT records, asked of a DNS server over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from appview.http.client import HttpClient
from appview.http.names import Names
from appview.identity.documents import Identity
from appview.identity.handles import Handles
from appview.identity.keys import PublicKey
from lexicons.syntax import Did, Handle
from tests.network.synthetic import K256

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "_atproto.alice.garden.org"
SECONDS = 0.5
ALICE = Did("did:plc:" + "a" * 24)


class NameServer(asyncio.DatagramProtocol):
    """Answers TXT questions, by UDP and by TCP."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}  # name -> records, as a zone file has them
        self.failure: dns.rcode.Rcode | None = None
        self.silent = False
        self.garbled = False
        self.truncated = False  # what goes by UDP
        self.asked: list[str] = []  # by what, and for what
        self.names: Names
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self.answer(data, "udp")
        if answer is not None:
            self._transport.sendto(answer, addr)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(2), "big")
        answer = self.answer(await reader.readexactly(length), "tcp")
        if answer is not None:
            writer.write(len(answer).to_bytes(2, "big") + answer)
        writer.close()

    def answer(self, data: bytes, protocol: str) -> bytes | None:
        query = dns.message.from_wire(data)
        (question,) = query.question
        name = question.name.to_text(omit_final_dot=True)
        self.asked.append(f"{protocol} {name}")
        if self.silent:
            return None
        response = dns.message.make_response(query)
        if self.failure is not None:
            response.set_rcode(self.failure)
        elif self.truncated and protocol == "udp":
            response.flags |= dns.flags.TC
        elif name not in self.records:
            response.set_rcode(dns.rcode.NXDOMAIN)
        elif self.records[name]:
            response.answer.append(dns.rrset.from_text(question.name, 60, "IN", "TXT", *self.records[name]))
        wire = response.to_wire()
        return wire[:2] + b"\xff" * 9 if self.garbled else wire


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NameServer]:
    """A name server that is this machine's."""
    async with name_server() as (made, port):
        (tmp_path / "hosts").touch()
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="utf-8")
        made.names = Names(
            hosts=tmp_path / "hosts", servers=tmp_path / "resolv.conf", port=port, seconds=SECONDS
        )
        yield made


@asynccontextmanager
async def name_server() -> AsyncIterator[tuple[NameServer, int]]:
    made = NameServer()
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: made, local_addr=("127.0.0.1", port))
        try:
            yield made, port
        finally:
            transport.close()


@pytest.mark.parametrize(
    ("records", "texts"),
    [
        ([f'"did={ALICE}"'], [f"did={ALICE}"]),
        (['"v=spf1 -all"', f'"did={ALICE}"'], ["v=spf1 -all", f"did={ALICE}"]),
        (['"did=did:plc:" "' + "a" * 24 + '"'], [f"did={ALICE}"]),  # in pieces, as long ones are
        ([r'"\255\254did"'], ["\ufffd\ufffddid"]),
        ([], []),
    ],
    ids=["one", "two", "in pieces", "not text", "none of this kind"],
)
async def test_records_are_given_as_texts(server: NameServer, records: list[str], texts: list[str]) -> None:
    server.records[NAME] = records
    assert sorted(await server.names.texts(NAME)) == sorted(texts)
    assert server.asked == [f"udp {NAME}"]


async def test_a_long_answer_comes_by_tcp(server: NameServer) -> None:
    server.records[NAME], server.truncated = [f'"did={ALICE}"'], True
    assert await server.names.texts(NAME) == [f"did={ALICE}"]
    assert server.asked == [f"udp {NAME}", f"tcp {NAME}"]


async def test_a_name_that_is_not_there_has_none(server: NameServer) -> None:
    assert list(await server.names.texts(NAME)) == []


@pytest.mark.parametrize("name", ["_atproto." + "a" * 64 + ".org", "_atproto..org", "a." * 127 + "a"])
async def test_what_cannot_be_a_name_has_none(server: NameServer, name: str) -> None:
    assert list(await server.names.texts(name)) == []


@pytest.mark.parametrize("fault", ["refused", "silent", "garbled"])
async def test_a_server_that_fails_has_none_and_is_not_waited_for_without_end(
    server: NameServer, fault: str
) -> None:
    server.records[NAME] = [f'"did={ALICE}"']
    server.failure = dns.rcode.SERVFAIL if fault == "refused" else None
    server.silent, server.garbled = fault == "silent", fault == "garbled"
    async with asyncio.timeout(10):
        assert list(await server.names.texts(NAME)) == []
    assert server.asked


async def test_a_handle_is_verified_by_what_the_server_says(server: NameServer) -> None:
    server.records[NAME] = [f'"did={ALICE}"']
    claimed = Identity(ALICE, Handle("alice.garden.org"), None, PublicKey.from_multikey(K256().multibase))
    async with HttpClient(allow_loopback=True) as client:
        assert (
            await Handles(client, lambda: 0, txt=server.names.texts).verified(claimed) == "alice.garden.org"
        )
    assert server.asked == [f"udp {NAME}"]
