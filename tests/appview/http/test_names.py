"""Names, asked of a real name server: what is found, in which order, and what a silent one holds up."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from appview.http.client import HttpClient
from appview.http.errors import FetchError, ForbiddenUrl
from appview.http.names import Names
from tests.network.synthetic.name_server import NameServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SILENT = 60


@asynccontextmanager
async def asking(
    folder: Path, *lines: str, hosts: str = "", seconds: float = 5.0
) -> AsyncIterator[tuple[NameServer, Names]]:
    async with NameServer() as server:
        conf = server.write_conf(folder / "resolv.conf", *lines)
        (folder / "hosts").write_text(hosts)
        yield server, Names(hosts=folder / "hosts", servers=conf, port=server.port, seconds=seconds)


async def addresses(names: Names, name: str, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[str]:
    found = await names.resolve(name, 443, family)
    assert all((each["hostname"], each["port"]) == (name, 443) for each in found)
    return [each["host"] for each in found]


async def test_a_name_has_addresses_of_both_kinds(tmp_path: Path) -> None:
    async with asking(tmp_path) as (server, names):
        server.records["pds.example", "A"] = ["192.0.2.1", "192.0.2.2"]
        server.records["pds.example", "AAAA"] = ["2001:db8::1"]
        assert sorted(await addresses(names, "pds.example")) == ["192.0.2.1", "192.0.2.2", "2001:db8::1"]
        assert await addresses(names, "pds.example", socket.AF_INET6) == ["2001:db8::1"]
        assert await addresses(names, "PDS.example.", socket.AF_INET6) == ["2001:db8::1"]


@pytest.mark.parametrize("kind", ["A", "AAAA"])
async def test_one_kind_is_enough(tmp_path: Path, kind: str) -> None:
    address = {"A": "192.0.2.1", "AAAA": "2001:db8::1"}[kind]
    async with asking(tmp_path) as (server, names):
        server.records["pds.example", kind] = [address]
        assert await addresses(names, "pds.example") == [address]


async def test_a_name_may_be_anothers(tmp_path: Path) -> None:
    async with asking(tmp_path) as (server, names):
        server.records["pds.example", "CNAME"] = ["host.example"]
        server.records["host.example", "A"] = ["192.0.2.1"]
        assert await addresses(names, "pds.example") == ["192.0.2.1"]


async def test_a_lost_question_is_asked_again(tmp_path: Path) -> None:
    async with asking(tmp_path, seconds=20.0) as (server, names):
        server.records["pds.example", "A"] = ["192.0.2.1"]
        server.lost = 2
        assert await addresses(names, "pds.example") == ["192.0.2.1"]


@pytest.mark.parametrize("name", ["nobody.example", f"{'x' * 64}.example", "a..example", "-"])
async def test_a_name_that_is_none_has_no_address(tmp_path: Path, name: str) -> None:
    async with asking(tmp_path) as (_, names):
        with pytest.raises(OSError, match="no address"):
            await names.resolve(name)


async def test_where_nothing_listens_no_address_is_found(tmp_path: Path) -> None:
    async with NameServer() as server:
        port = server.port
    names = Names(hosts=tmp_path / "hosts", servers=tmp_path / "resolv.conf", port=port, seconds=0.5)
    with pytest.raises(OSError, match="no address"):
        await names.resolve("pds.example")
    assert await names.texts("pds.example") == []


async def test_the_file_of_hosts_goes_first(tmp_path: Path) -> None:
    hosts = "127.0.0.1 localhost\n192.0.2.7  PDS.example alias # mine\n2001:db8::7 alias\nnonsense alias\n"
    async with asking(tmp_path, hosts=hosts) as (server, names):
        server.records["pds.example", "A"] = ["192.0.2.1"]
        assert await addresses(names, "pds.example") == ["192.0.2.7"]
        assert await addresses(names, "alias") == ["192.0.2.7", "2001:db8::7"]
        assert await addresses(names, "localhost") == ["127.0.0.1"]
        assert server.asked == []


@pytest.mark.parametrize("name", ["localhost", "pds.localhost", "LOCALHOST."])
async def test_localhost_is_this_machine_whatever_anybody_says(tmp_path: Path, name: str) -> None:
    async with asking(tmp_path) as (server, names):
        server.records["localhost", "A"] = server.records["pds.localhost", "A"] = ["192.0.2.1"]
        assert await addresses(names, name) == ["127.0.0.1", "::1"]
        assert server.asked == []


async def test_a_short_name_is_looked_for_in_the_search_domains(tmp_path: Path) -> None:
    async with asking(tmp_path, "search one.internal two.internal") as (server, names):
        server.records["plc.two.internal", "A"] = ["192.0.2.1"]
        server.records["pds.example", "A"] = ["192.0.2.2"]
        assert await addresses(names, "plc") == ["192.0.2.1"]
        server.asked.clear()
        assert await addresses(names, "pds.example") == ["192.0.2.2"]
        assert {name for name, _ in server.asked} == {"pds.example"}, "a whole name goes first as it is"


async def test_files_that_change_are_read_again(tmp_path: Path) -> None:
    async with asking(tmp_path) as (server, names), NameServer() as other:
        server.records["pds.example", "A"] = ["192.0.2.1"]
        assert await addresses(names, "pds.example") == ["192.0.2.1"]
        (tmp_path / "hosts").write_text("192.0.2.3 pds.example\n")
        assert await addresses(names, "pds.example") == ["192.0.2.3"]
        (tmp_path / "hosts").unlink()
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.2\n")
        assert names._up_to_date().nameservers == ["127.0.0.2"]
        assert other.asked == []


@pytest.mark.parametrize(
    "line",
    [
        "nameserver nonsense",
        "search a..b",
        "options timeout:0",
        "options ndots:x trust-ad",
        "# nameserver x",
        "x",
    ],
)
async def test_odd_lines_are_passed_over(tmp_path: Path, line: str) -> None:
    async with asking(tmp_path, line) as (server, names):
        server.records["pds.example", "A"] = ["192.0.2.1"]
        assert await addresses(names, "pds.example") == ["192.0.2.1"]


async def test_where_no_server_is_named_this_machine_is_asked(tmp_path: Path) -> None:
    async with NameServer() as server:
        (tmp_path / "resolv.conf").write_text("search internal\n")
        server.records["plc.internal", "A"] = ["192.0.2.1"]
        names = Names(hosts=tmp_path / "hosts", servers=tmp_path / "resolv.conf", port=server.port)
        assert await addresses(names, "plc") == ["192.0.2.1"]


async def test_a_server_that_is_silent_leaves_time_for_the_next_one(tmp_path: Path) -> None:
    async with asking(tmp_path, "options timeout:30", seconds=20.0) as (server, names):
        server.records["pds.example", "A"] = ["192.0.2.1"]
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.2\nnameserver 127.0.0.1\n")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.2", server.port))
            assert await addresses(names, "pds.example") == ["192.0.2.1"]


async def test_texts_of_a_name(tmp_path: Path) -> None:
    async with asking(tmp_path, "search one.internal") as (server, names):
        server.records["_atproto.alice.example", "TXT"] = ['"did=did:plc:" "abc"', '"other"']
        assert sorted(await names.texts("_atproto.alice.example")) == ["did=did:plc:abc", "other"]
        assert await names.texts("_atproto.bob.example") == []
        assert not any("internal" in name for name, _ in server.asked), "a handle is a whole name"


async def test_ipv6_addresses_that_do_not_come_are_not_waited_for(tmp_path: Path) -> None:
    async with asking(tmp_path, seconds=60.0) as (server, names):
        server.records["pds.example", "A"] = ["192.0.2.1"]
        server.silent = {"AAAA pds.example"}
        async with asyncio.timeout(20):
            assert await addresses(names, "pds.example") == ["192.0.2.1"]


async def test_a_silent_name_is_given_up(tmp_path: Path) -> None:
    async with asking(tmp_path, seconds=0.3) as (server, names):
        server.silent = {"example"}
        async with asyncio.timeout(20):
            with pytest.raises(OSError, match="no address"):
                await names.resolve("pds.example")
            assert await names.texts("pds.example") == []


async def test_names_whose_servers_are_silent_hold_up_no_other_and_no_thread(tmp_path: Path) -> None:
    """A request to a healthy host is answered while many names hang, and so is whoever needs a thread."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with (
        listening,
        asking(tmp_path, seconds=60.0) as (server, names),
        HttpClient(allow_loopback=True, resolver=names) as client,
    ):
        server.silent = {"slow.example"}
        server.records["good.localhost.example", "A"] = ["127.0.0.1"]
        threads = threading.active_count()

        async def hang(number: int) -> None:
            with pytest.raises(FetchError):
                await client.get(f"https://h{number}.slow.example/", seconds=60.0)

        hanging = [asyncio.create_task(hang(number)) for number in range(SILENT)]
        async with asyncio.timeout(20):
            while len({name for name, _ in server.asked}) < SILENT:  # noqa: ASYNC110 - sockets signal nothing
                await asyncio.sleep(0.005)
        assert threading.active_count() <= threads
        start = time.perf_counter()
        assert (await names.resolve("good.localhost.example"))[0]["host"] == "127.0.0.1"
        assert (await client.get(f"http://localhost:{port}/")).status == 200
        await asyncio.to_thread(time.monotonic)
        assert time.perf_counter() - start < 5.0
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


async def test_what_a_name_leads_to_is_checked_where_the_socket_is_made(tmp_path: Path) -> None:
    async with (
        asking(tmp_path, hosts="10.0.0.1 noted.example\n") as (server, names),
        HttpClient(resolver=names) as client,
    ):
        server.records["inner.example", "A"] = ["169.254.169.254"]
        server.records["inner.example", "AAAA"] = ["::ffff:10.0.0.1"]
        for host in ("inner.example", "noted.example", "localhost"):
            with pytest.raises(ForbiddenUrl):
                await client.get(f"https://{host}/")
