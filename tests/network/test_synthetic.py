"""The synthetic network is itself held to the official vectors, so that what it calls honest is honest."""

from __future__ import annotations

import json
from base64 import b32decode
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.synthetic import CORRUPTIONS, K256, P256, Account, Network, Write
from tests.network.synthetic import mst as trees
from tests.network.synthetic.blocks import cid_text
from tests.shared_data import shared_root

MEMORY = "garden.engram.memory"


def vectors(name: str) -> list[dict[str, Any]]:
    root = shared_root()
    return [] if root is None else json.loads((root / "interop" / "atproto" / name).read_text("utf-8"))


needs_vectors = pytest.mark.skipif(shared_root() is None, reason="no ../shared data here (set ENGRAM_SHARED)")


def cid(text: str) -> bytes:
    return b32decode(text[1:].upper() + "=" * (-len(text[1:]) % 8))


@needs_vectors
def test_heights_are_those_of_the_vectors() -> None:
    for case in vectors("mst/key_heights.json"):
        assert trees.height(case["key"]) == case["height"], case


@needs_vectors
@pytest.mark.parametrize("case", vectors("firehose/commit-proof-fixtures.json"), ids=lambda c: c["comment"])
def test_both_trees_have_the_official_roots_and_the_official_proof(case: dict[str, Any]) -> None:
    value = cid(case["leafValue"])
    tree = trees.Tree()
    for key in case["keys"]:
        tree.put(key, value)
    assert cid_text(tree.seal()[0]) == case["rootBeforeCommit"]
    assert cid_text(trees.build(dict.fromkeys(case["keys"], value))[0]) == case["rootBeforeCommit"]
    for key in case["adds"]:
        tree.put(key, value)
    for key in case["dels"]:
        tree.delete(key)
    assert cid_text(tree.seal()[0]) == case["rootAfterCommit"]
    after = (set(case["keys"]) | set(case["adds"])) - set(case["dels"])
    assert cid_text(trees.build(dict.fromkeys(after, value))[0]) == case["rootAfterCommit"]
    proof: set[bytes] = set()
    for key in [*case["adds"], *case["dels"]]:
        proof |= set(tree.proof(key))
    assert {cid_text(each) for each in proof} == set(case["blocksInProof"])


@given(st.lists(st.tuples(st.integers(0, 60), st.binary(min_size=1, max_size=2)), max_size=80))
@settings(max_examples=60, deadline=None)
def test_the_tree_changed_in_place_equals_the_tree_built_whole(changes: list[tuple[int, bytes]]) -> None:
    tree, items = trees.Tree(), dict[str, bytes]()
    for number, data in changes:
        path = f"{MEMORY}/{number}"
        if path in items and data[0] % 3 == 0:
            tree.delete(path)
            del items[path]
        else:
            items[path] = trees.block_of(data)[0]
            tree.put(path, items[path])
        root, blocks = trees.build(items)
        assert tree.seal()[0] == root
        assert {key for key, _ in tree.blocks()} == set(blocks)


@pytest.mark.parametrize("key", [K256(), P256()], ids=["k256", "p256"])
def test_every_corruption_changes_the_frame(key: K256 | P256) -> None:
    for name, corrupt in CORRUPTIONS.items():
        account = Account(key=key)
        account.create(MEMORY, "zero", {"text": "before"})
        draft = account.create(MEMORY, "one", {"text": "during"})
        honest = draft.frame(7)
        corrupt(draft)
        assert draft.frame(7) != honest, name


async def test_the_servers_speak() -> None:
    async with Network() as network, aiohttp.ClientSession() as http:
        alice = network.account("alice.test")
        pds = network.host_of(alice)
        network.create(alice, MEMORY, "one", {"text": "first"})
        async with http.ws_connect(f"{pds.url}/xrpc/com.atproto.sync.subscribeRepos?cursor=0") as socket:
            replayed = [await socket.receive_bytes() for _ in range(3)]
            assert replayed == [frame for _, frame in pds.firehose.frames]
            network.commit(alice, Write("update", MEMORY, "one", {"text": "second"}))
            assert await socket.receive_bytes() == pds.firehose.frames[-1][1]
        for method, needle in (
            (f"getRepo?did={alice.did}", alice.head[0] if alice.head else b""),
            (f"getRecord?did={alice.did}&collection={MEMORY}&rkey=one", b"second"),
            ("listRepos", alice.did.encode()),
            (f"listReposByCollection?collection={MEMORY}", alice.did.encode()),
        ):
            async with http.get(f"{pds.url}/xrpc/com.atproto.sync.{method}") as response:
                assert response.status == 200
                assert needle in await response.read()
        async with http.get(f"{network.plc.url}/{alice.did}") as response:
            assert (await response.json(content_type=None))["id"] == alice.did
        async with http.ws_connect(f"{pds.url}/xrpc/com.atproto.sync.subscribeRepos?cursor=999") as socket:
            assert b"FutureCursor" in await socket.receive_bytes()


async def test_the_firehose_fails_on_request() -> None:
    async with Network() as network, aiohttp.ClientSession() as http:
        alice = network.account("alice.test")
        firehose = network.pds[0].firehose
        url = f"{network.pds[0].url}/xrpc/com.atproto.sync.subscribeRepos"
        async with http.ws_connect(url) as socket:  # no cursor: the live tail
            await firehose.until_subscribers(1)
            firehose.stall()
            network.create(alice, MEMORY, "one", {"text": "held back"})
            with pytest.raises(TimeoutError):
                await socket.receive_bytes(timeout=0.05)
            firehose.stall(False)
            assert b"held back" in await socket.receive_bytes(timeout=5)
            await firehose.fail_connections("ConsumerTooSlow")
            assert b"ConsumerTooSlow" in await socket.receive_bytes(timeout=5)
            assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE
        await firehose.until_subscribers(0)
        firehose.forget_below(firehose.seq)
        async with http.ws_connect(f"{url}?cursor=0") as socket:
            assert b"OutdatedCursor" in await socket.receive_bytes(timeout=5)
            assert b"held back" in await socket.receive_bytes(timeout=5)
            firehose.skip(1_000)
            seq = network.create(alice, MEMORY, "two", {"text": "after a gap"})
            assert seq > 1_000
            assert b"after a gap" in await socket.receive_bytes(timeout=5)
            await firehose.close_connections()
            assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE
        firehose.reset()
        async with http.ws_connect(f"{url}?cursor={seq}") as socket:
            assert b"FutureCursor" in await socket.receive_bytes(timeout=5)
        firehose.refusing = True
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(url)
        assert firehose.connections == [None, 0, seq, None]


async def test_a_server_that_was_stopped_comes_back_where_it_was() -> None:
    async with Network() as network, aiohttp.ClientSession() as http:
        pds = network.pds[0]
        url = pds.url
        await pds.stop()
        with pytest.raises(aiohttp.ClientConnectionError):
            await http.get(f"{url}/xrpc/com.atproto.sync.listRepos")
        await pds.start()
        assert pds.url == url
        async with http.get(f"{url}/xrpc/com.atproto.sync.listRepos") as response:
            assert response.status == 200


async def test_accounts_move_hide_and_answer_as_they_are_told() -> None:
    async with Network(pds=2) as network, aiohttp.ClientSession() as http:
        alice = network.account("alice.test")
        network.create(alice, MEMORY, "one", {"text": "first"})
        old, new = network.pds

        async def get(url: str) -> tuple[int, bytes]:
            async with http.get(url) as response:
                return response.status, await response.read()

        repo = f"/xrpc/com.atproto.sync.getRepo?did={alice.did}"
        network.set_status(alice, "takendown")
        status, body = await get(old.url + repo)
        assert (status, json.loads(body)["error"]) == (400, "RepoTakendown")
        network.set_status(alice, None)
        network.move(alice, 1)
        status, body = await get(old.url + repo)
        assert (status, json.loads(body)["error"]) == (400, "RepoNotFound")
        assert (await get(new.url + repo))[0] == 200
        assert new.url in (await get(f"{network.plc.url}/{alice.did}"))[1].decode()
        new.fail_with, new.retry_after = 429, "7"
        assert (await get(new.url + repo))[0] == 429
        network.plc.gone.add(alice.did)
        assert (await get(f"{network.plc.url}/{alice.did}"))[0] == 410
        network.plc.override[alice.did] = b"not json"
        assert await get(f"{network.plc.url}/{alice.did}") == (200, b"not json")
        assert network.plc.requests[alice.did] == 3
