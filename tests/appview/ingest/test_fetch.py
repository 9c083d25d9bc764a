"""Whole repos from their hosts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from appview.clock import now
from appview.http.client import HttpClient
from appview.http.errors import HttpStatusError
from appview.identity.errors import IdentityError
from appview.identity.resolver import Resolver
from appview.ingest import fetch
from appview.ingest.errors import Rejected, RepoInactive
from appview.ingest.fetch import INLINE_BYTES, READ_BYTES, RepoFetcher
from appview.ingest.hosts import PER_HOST
from appview.ingest.whole import routing
from appview.memory.scope import EVERYTHING, NOTHING
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import config, held, memory, rkey
from tests.network.synthetic import K256, Network
from tests.network.synthetic.blocks import car
from tests.network.synthetic.pds import Pds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

    from aiohttp import web

    from appview.ingest.snapshots import RepoSnapshot
    from appview.ingest.whole import RoutedRepo
    from tests.network.synthetic import Account

SPACE = SpaceUri.public(Did("did:plc:garden"))


class CountingPds(Pds):
    """A PDS that waits at a gate and counts how many wait there."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def _get_repo(self, request: web.Request) -> web.StreamResponse:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.gate.wait()
            return await super()._get_repo(request)
        finally:
            self.inside -= 1


class Setup:
    """A network of two hosts and a fetcher."""

    def __init__(self, network: Network, client: HttpClient) -> None:
        self.network = network
        self.fetcher = RepoFetcher(client, Resolver(client, network.plc.url, now), now)

    async def take(self, did: str) -> RoutedRepo:
        async with self.fetcher.fetch(Did(did)) as repo:
            assert repo.did == did
            return await repo.route({SPACE: EVERYTHING})

    def author(self, pds: int = 0) -> Account:
        account = self.network.account(pds=pds)
        self.network.create(account, str(MEMORY), rkey(), memory("one"))
        self.network.create(account, str(CONFIG), "self", config())
        self.network.create(account, "app.bsky.feed.post", rkey(), {"text": "beside the point"})
        return account


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    network = Network()
    network.pds = [CountingPds(), CountingPds()]
    async with network, HttpClient(allow_loopback=True) as client:
        yield Setup(network, client)


def gates(setup: Setup) -> list[CountingPds]:
    return [pds for pds in setup.network.pds if isinstance(pds, CountingPds)]


async def test_the_records_of_our_collections_are_given(setup: Setup) -> None:
    author = setup.author()
    routed = await setup.take(author.did)
    assert routed.rev == author.rev
    assert [change.cid for change in routed.updates[SPACE].changes] == list(held(author).values())
    assert routed.config is not None and routed.config.config is not None


async def test_what_was_taken_outlasts_its_place_and_can_be_taken_for_other_scopes(setup: Setup) -> None:
    author = setup.author()
    other = SpaceUri.public(Did("did:plc:other"))
    async with setup.fetcher.fetch(Did(author.did)) as repo:
        first = await repo.route({})
        second = await repo.route({SPACE: EVERYTHING, other: NOTHING})
    assert (first.memories, first.updates) == (1, {})
    assert [len(list(second.updates[space].changes)) for space in (SPACE, other)] == [1, 0]
    with pytest.raises(RuntimeError):
        await repo.route({SPACE: EVERYTHING})


async def test_a_walk_that_does_not_end_keeps_nobody_waiting(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless, author = setup.author(0), setup.author(0)
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(repo: RepoSnapshot, *more: Any) -> Generator[None, None, RoutedRepo]:
        while repo.did == endless.did:
            loop.call_soon_threadsafe(begun.set)
            yield
        return (yield from routing(repo, *more))

    monkeypatch.setattr(fetch, "routing", work)
    walking = asyncio.create_task(setup.take(endless.did))
    async with asyncio.timeout(10):
        await begun.wait()
        assert (await setup.take(author.did)).memories == 1
    walking.cancel()
    await asyncio.gather(walking, return_exceptions=True)


async def test_a_repo_whose_tree_is_false_gives_nothing(setup: Setup) -> None:
    author = setup.author()
    for number in range(30):
        setup.network.create(author, str(MEMORY), rkey(), memory(f"memory {number}"))
    missing = list(author.record_blocks)[-1]
    blocks = [(cid, block) for cid, block in author.export_blocks() if cid != missing]
    setup.network.pds[0].export[author.did] = car([blocks[0][0]], blocks)
    with pytest.raises(Rejected) as caught:
        await setup.take(author.did)
    assert caught.value.reason == "missing-block"


async def test_a_host_is_asked_for_a_few_repos_at_once_and_delays_no_other(setup: Setup) -> None:
    slow, quick = gates(setup)
    slow.gate.clear()
    authors = [setup.author(0) for _ in range(20)]
    waiting = [asyncio.create_task(setup.take(each.did)) for each in authors]
    async with asyncio.timeout(10):
        while slow.inside < PER_HOST["repo"]:  # noqa: ASYNC110 - the server signals nothing
            await asyncio.sleep(0.005)
    others = [setup.author(1) for _ in range(5)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(setup.take(each.did) for each in others))
    assert slow.inside == PER_HOST["repo"]
    slow.gate.set()
    async with asyncio.timeout(20):
        assert len(await asyncio.gather(*waiting)) == 20
    assert slow.most == PER_HOST["repo"]
    assert quick.most <= PER_HOST["repo"]


def damage(data: bytes) -> bytes:
    return data[:-10] + bytes(10)


@pytest.mark.parametrize(
    ("change", "reason"),
    [(bytes, None), (lambda data: data[:-10], "malformed-car"), (damage, "bad-block-hash")],
)
async def test_a_repo_that_is_read_by_a_thread_is_the_same(
    setup: Setup, change: Callable[[bytes], bytes], reason: str | None
) -> None:
    author = setup.author()
    for number in range(150):
        setup.network.create(author, str(MEMORY), rkey(), memory(f"{number} " + "x" * 20_000))
    export = author.export()
    assert len(export) > INLINE_BYTES + 2 * READ_BYTES
    setup.network.pds[0].export[author.did] = change(export)
    if reason is None:
        routed = await setup.take(author.did)
        assert [each.cid for each in routed.updates[SPACE].changes] == list(held(author).values())
    else:
        with pytest.raises(Rejected) as caught:
            await setup.take(author.did)
        assert caught.value.reason == reason


@pytest.mark.parametrize("status", ["takendown", "suspended", "deactivated"])
async def test_an_inactive_repo_is_told_apart(setup: Setup, status: str) -> None:
    author = setup.author()
    author.active, author.status = False, status
    with pytest.raises(RepoInactive) as caught:
        await setup.take(author.did)
    assert caught.value.status == status


async def test_a_rotated_key_is_asked_for_once(setup: Setup) -> None:
    author = setup.author()
    did = Did(author.did)
    await setup.take(did)
    setup.network.rotate_key(author, K256(), announce=False)
    setup.network.create(author, str(MEMORY), rkey(), memory("with the new key"))
    assert (await setup.take(did)).memories == 2
    asked = setup.network.plc.requests[did]
    setup.network.plc.override[did] = author.document()
    author.key = K256()  # a key that the directory does not know
    setup.network.create(author, str(MEMORY), rkey(), memory("forged"))
    with pytest.raises(Rejected):
        await setup.take(did)
    with pytest.raises(Rejected):
        await setup.take(did)
    assert setup.network.plc.requests[did] == asked


async def test_a_moved_account_is_looked_for_at_its_new_host(setup: Setup) -> None:
    author = setup.author(0)
    did = Did(author.did)
    await setup.take(did)
    setup.network.move(author, 1)
    async with setup.fetcher.fetch(did) as repo:
        await repo.route({})
    assert repo.identity.pds == setup.network.pds[1].url


async def test_an_account_without_a_host(setup: Setup) -> None:
    author = setup.author()
    setup.network.plc.override[author.did] = author.document() | {"service": []}
    with pytest.raises(IdentityError):
        await setup.take(author.did)


async def test_a_host_that_is_busy_says_when_to_come_back(setup: Setup) -> None:
    author = setup.author()
    setup.network.pds[0].fail_with = 429
    setup.network.pds[0].retry_after = "17"
    with pytest.raises(HttpStatusError) as caught:
        await setup.take(author.did)
    assert caught.value.retry_after_seconds == 17.0
