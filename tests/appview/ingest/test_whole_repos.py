"""Whole repos on their way into spaces while rules, accounts and disks change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from appview.ingest import backfill
from appview.ingest.committer import Committer
from appview.ingest.fetch import FetchedRepo
from appview.ingest.hosts import PER_HOST
from appview.ingest.scratch import Scratch
from appview.memory.scope import Subtree
from appview.memory.store import SpaceStore
from lexicons.syntax import Did
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.test_rights import may
from tests.appview.ingest.world import World, held

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest

    from appview.ingest.whole import RoutedRepo
    from appview.memory.scope import Scope
    from appview.memory.values import Applied, Update
    from lexicons.spaces import SpaceUri


GET_REPO = "com.atproto.sync.getRepo"


class Walks:
    """Notes each walk, and has something happen when one of an account has ended: the first, or a later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scopes: dict[Did, list[Mapping[SpaceUri, Scope]]] = {}
        self.meanwhile: dict[tuple[str, int], asyncio.Future[None]] = {}
        self.ended: dict[tuple[str, int], asyncio.Event] = {}
        real = FetchedRepo.route

        async def route(repo: FetchedRepo, scopes: Mapping[SpaceUri, Scope]) -> RoutedRepo:
            routed = await real(repo, scopes)
            walks = self.scopes.setdefault(repo.did, [])
            walks.append(scopes)
            walk = repo.did, len(walks)
            if walk in self.ended:
                self.ended[walk].set()
                await self.meanwhile[walk]
            return routed

        monkeypatch.setattr(FetchedRepo, "route", route)

    def stop(self, did: str, walk: int = 1) -> asyncio.Event:
        """Have a walk of an account stop at its end until `go`."""
        self.ended[did, walk] = asyncio.Event()
        self.meanwhile[did, walk] = asyncio.get_running_loop().create_future()
        return self.ended[did, walk]

    def go(self, did: str, walk: int = 1) -> None:
        self.meanwhile[did, walk].set_result(None)


async def test_a_repo_that_declares_its_space_is_fetched_once_and_walked_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = Walks(monkeypatch)
    alice, space = world.authority()
    world.remember(alice, "hers")
    async with world.running():
        await world.until_declared(space)
        await world.until_texts(space, {"hers"})
    assert world.network.pds[0].requests[GET_REPO] == 1
    assert [list(scopes) for scopes in walks.scopes[Did(alice.did)]] == [[], [space]]


async def test_rules_that_change_while_a_repo_is_walked_are_those_that_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = Walks(monkeypatch)
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        world.remember(bob, "one", "/a")
        world.remember(bob, "two", "/b")
        ended = walks.stop(bob.did)
        asked = world.network.pds[0].requests[GET_REPO]
        await world.join(space, bob)
        async with asyncio.timeout(10):
            await ended.wait()
        denied = may(bob, space, Subtree("/a"), allow=False)
        await world.access.change([denied], actor="test", action="test")
        await world.reconcile()
        walks.go(bob.did)
        await world.until_texts(space, {"two"})

        async def synced() -> bool:
            return (await world.control.memberships())[space, Did(bob.did)] == "synced"

        await world.until(synced)
        first, second, *more = walks.scopes[Did(bob.did)]
        assert first != second and not more
        assert world.network.pds[0].requests[GET_REPO] == asked + 1, "walked again, not fetched again"


async def test_rules_that_change_again_while_a_repo_is_walked_again_are_those_that_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = Walks(monkeypatch)
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        for text in ("one", "two", "three"):
            world.remember(bob, text, f"/{text}")
        stops = [walks.stop(bob.did, number) for number in (1, 2)]
        asked = world.network.pds[0].requests[GET_REPO]
        await world.join(space, bob)
        for number, (ended, path) in enumerate(zip(stops, ("/one", "/two"), strict=True), 1):
            async with asyncio.timeout(10):
                await ended.wait()
            denied = may(bob, space, Subtree(path), allow=False)
            await world.access.change([denied], actor="test", action="test")
            await world.reconcile()
            walks.go(bob.did, number)
        await world.until_texts(space, {"three"})
        await world.until_status(lambda s: s["repos"]["to fetch"] == 0)
        assert len(walks.scopes[Did(bob.did)]) == 3
        assert world.network.pds[0].requests[GET_REPO] == asked + 1


async def test_rules_that_change_while_a_repo_is_written_have_it_filled_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appview.ingest.reconcile.POLL_SECONDS", 3600)  # nobody looks again by chance
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        for text in ("one", "two"):
            world.remember(bob, text, f"/{text}")
        denied = may(bob, space, Subtree("/one"), allow=False)
        await world.access.change([denied], actor="test", action="test")
        async with world.disk_held(space):
            await world.join(space, bob)
            await world.until_status(lambda s: s["writing"]["updates"] == 2)  # that it is shown, and the repo
            await world.access.change(remove=[denied], actor="test", action="test")
            reconciled = asyncio.create_task(world.reconcile())
            async with asyncio.timeout(10):
                while not world.ingest._pipeline.lock.locked():  # noqa: ASYNC110 - it signals nothing
                    await asyncio.sleep(0)
        await reconciled
        await world.until_texts(space, {"one", "two"})
        await world.until_mirrored(space, bob)


async def test_what_is_written_while_a_repo_is_walked_comes_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = Walks(monkeypatch)
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        first = world.remember(bob, "before")
        ended = walks.stop(bob.did)
        await world.join(space, bob)
        async with asyncio.timeout(10):
            await ended.wait()
        world.remember(bob, "meanwhile")
        world.network.delete(bob, "garden.engram.memory", first)
        await world.until_caught_up()
        walks.go(bob.did)
        await world.until_texts_of(space, bob, {"meanwhile"})
        await world.until_mirrored(space, bob)


async def test_a_repo_for_which_there_is_no_room_is_fetched_again_once_there_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = world.folder / "absent"

    class Full(Scratch):
        def __init__(self, _folder: Path | None = None, *, memory_bytes: int = 1) -> None:
            super().__init__(absent, memory_bytes=1)

    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        monkeypatch.setattr("appview.ingest.block_files.Scratch", Full)
        bob, carol = world.network.account(), world.network.account()
        world.remember(bob, "bob's")
        await world.join(space, bob)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: StoreError", 0) >= 1)
        monkeypatch.setattr("appview.ingest.block_files.Scratch", Scratch)
        monkeypatch.setattr("appview.ingest.spool.Scratch", Full)
        world.remember(carol, "carol's")
        await world.join(space, carol)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: StoreError", 0) >= 2)
        monkeypatch.setattr("appview.ingest.spool.Scratch", Scratch)
        await world.until_mirrored(space, bob, carol)


async def test_no_more_repos_are_walked_than_may_wait_for_the_disk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "MAX_UNWRITTEN", 3)
    monkeypatch.setattr("appview.ingest.reconcile.POLL_SECONDS", 3600)  # nobody joins before the disk is held
    walks, requests = Walks(monkeypatch), world.network.pds[0].requests
    async with world.running():
        _, slow = world.authority()
        bob, quick = world.authority()
        await world.until_declared(slow)
        await world.until_declared(quick)
        authors = [world.network.account() for _ in range(8)]
        for author in authors:
            world.remember(author)
            await world.access.add_member(slow, Did(author.did), "test")
        walks.scopes.clear()
        asked = requests[GET_REPO]
        async with world.disk_held(slow):
            await world.reconcile()
            await world.until_status(lambda _: requests[GET_REPO] == asked + 3 + PER_HOST["repo"])
            world.remember(bob, "goes on")
            await world.until_texts(quick, {"goes on"})
            assert len(walks.scopes) == 3
            assert requests[GET_REPO] == asked + 3 + PER_HOST["repo"]
        await world.until_mirrored(slow, *authors)


async def test_many_repos_come_through_the_narrow_place_before_the_disk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "MAX_UNWRITTEN", 1)
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        authors = [world.network.account() for _ in range(8)]
        for author in authors:
            world.remember_many(author, 20)
            await world.access.add_member(space, Did(author.did), "test")
        await world.reconcile()
        await world.until_mirrored(space, *authors)
        assert all(len(held(author)) == 20 for author in authors)


async def test_a_space_that_takes_long_to_write_keeps_nobody_waiting_while_rules_change(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go, flushing = asyncio.Event(), asyncio.Event(), asyncio.Event()
    real_apply, real_flush = SpaceStore.apply, Committer.flush
    async with world.running():
        space, (bob,) = await several(world, 1)
        mallory, large = world.authority()
        await world.until_declared(large)

        async def apply(store: SpaceStore, updates: Sequence[Update]) -> Applied:
            if store.space == large:
                writing.set()
                await go.wait()
            return await real_apply(store, updates)

        async def flush(committer: Committer) -> None:
            flushing.set()
            await real_flush(committer)

        monkeypatch.setattr(SpaceStore, "apply", apply)
        world.remember(mallory, "much")
        async with asyncio.timeout(10):
            await writing.wait()
            monkeypatch.setattr(Committer, "flush", flush)
            await world.access.add_member(space, Did(mallory.did), "test")
            await flushing.wait()
        world.remember(bob, "goes on")
        await world.until_texts_of(space, bob, {"before", "goes on"})
        go.set()
        await world.until_mirrored(large, mallory)
        await world.until_mirrored(space, mallory)
