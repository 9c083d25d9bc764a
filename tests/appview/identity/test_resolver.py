"""Resolving accounts through the directory, and how rarely that is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from appview.errors import AppviewError
from appview.http.client import Answer, HttpClient
from appview.http.errors import FetchError
from appview.http.lanes import Standing
from appview.identity.errors import IdentityError
from appview.identity.keys import PublicKey
from appview.identity.resolver import (
    FAILURE_AGE,
    FORCE_INTERVAL,
    MAX_AGE,
    MAX_RUNNING,
    WEB_CONCURRENCY,
    Freshness,
    Resolver,
    document_url,
)
from lexicons.syntax import Did
from tests.network.synthetic import K256, Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from appview.identity.documents import Identity


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.micros = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.micros


class World:
    """A network with one account, and a resolver that looks at it."""

    def __init__(self, network: Network, client: HttpClient) -> None:
        self.network = network
        self.account = network.account()
        self.did = Did(self.account.did)
        self.clock = Clock()
        self.resolver = Resolver(client, network.plc.url, self.clock)

    @property
    def asked(self) -> int:
        return self.network.plc.requests[self.did]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Network() as network, HttpClient(allow_loopback=True) as client:
        yield World(network, client)


async def test_a_document_gives_key_and_host(world: World) -> None:
    identity = await world.resolver.resolve(world.did)
    assert (identity.did, identity.pds) == (world.did, world.network.pds[0].url)


async def test_an_answer_is_kept_up_to_its_age(world: World) -> None:
    first = await world.resolver.resolve(world.did)
    world.network.rotate_key(world.account, K256())
    world.clock.micros += MAX_AGE - 1
    assert await world.resolver.resolve(world.did) == first
    assert world.asked == 1
    world.clock.micros += 1
    assert (await world.resolver.resolve(world.did)).key != first.key
    assert world.asked == 2


async def test_only_so_many_answers_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appview.identity.resolver.MAX_ENTRIES", 10)
    others = [Did(world.network.account().did) for _ in range(9)]
    unknown = Did("did:plc:" + "a" * 24)
    for did in (world.did, *others, world.did):
        await world.resolver.resolve(did)
    assert world.asked == 1
    with pytest.raises(IdentityError):
        await world.resolver.resolve(unknown)  # an answer as any other
    assert await world.resolver.resolve(others[-1])
    assert world.network.plc.requests[others[-1]] == 1
    await world.resolver.resolve(world.did)
    assert world.asked == 2


async def test_a_clock_that_jumps_back_does_not_make_an_answer_immortal(world: World) -> None:
    await world.resolver.resolve(world.did)
    world.clock.micros -= 1_000_000
    await world.resolver.resolve(world.did)
    assert world.asked == 2


async def test_force_asks_at_most_once_a_minute(world: World) -> None:
    first = await world.resolver.resolve(world.did)
    world.network.rotate_key(world.account, K256())
    second = await world.resolver.resolve(world.did, fresh=True)
    assert second.key != first.key
    world.network.rotate_key(world.account, K256())
    assert not world.resolver.may_force(world.did)
    for _ in range(50):
        assert await world.resolver.resolve(world.did, fresh=True) == second
    assert world.asked == 2
    world.clock.micros += FORCE_INTERVAL
    assert world.resolver.may_force(world.did)
    assert (await world.resolver.resolve(world.did, fresh=True)).key != second.key


async def test_strangers_take_nobodys_turn(world: World) -> None:
    await world.resolver.resolve(world.did, patient=False)
    for _ in range(50):
        await world.resolver.resolve(world.did, fresh=True, patient=False)
    assert world.asked == 2
    world.network.rotate_key(world.account, K256())
    world.clock.micros += 1
    newer = await world.resolver.look(world.did, fresh=True)
    assert newer.identity.key == PublicKey.from_did_key(world.account.key.did_key)
    assert newer.asked_at == world.clock.micros
    for _ in range(50):  # what is known is known to all
        assert await world.resolver.resolve(world.did, fresh=True, patient=False) == newer.identity
        assert await world.resolver.look(world.did, fresh=True) == newer
    assert world.asked == 3


async def test_a_change_that_is_told_is_looked_at_for_strangers_once_a_minute(world: World) -> None:
    for _ in range(100):
        await world.resolver.resolve(world.did, patient=False)
        world.resolver.forget(world.did)
    assert world.asked <= 2
    world.network.rotate_key(world.account, K256())
    key = (await world.resolver.resolve(world.did, fresh=True)).key
    assert key == PublicKey.from_did_key(world.account.key.did_key)
    assert world.asked <= 3


async def test_an_answer_tells_when_it_was_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_at = world.clock.micros
    fetch = world.resolver._fetch

    async def slow(did: Did) -> Identity:
        world.clock.micros += 5_000_000
        return await fetch(did)

    monkeypatch.setattr(world.resolver, "_fetch", slow)
    assert (await world.resolver.look(world.did)).asked_at == asked_at
    world.network.plc.fail_with = 503
    assert (await world.resolver.look(world.did, fresh=True)).asked_at == asked_at  # what it said last


@pytest.mark.parametrize("patient", [True, False])
async def test_who_asks_by_force_does_not_wait_with_those_who_asked_before(
    world: World, monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    fetch, gate, fetched = world.resolver._fetch, asyncio.Event(), asyncio.Event()

    async def slow(did: Did) -> Identity:
        identity = await fetch(did)
        if not fetched.is_set():
            fetched.set()
            await gate.wait()
        return identity

    monkeypatch.setattr(world.resolver, "_fetch", slow)
    early = asyncio.create_task(world.resolver.look(world.did, patient=False))
    await fetched.wait()
    world.network.rotate_key(world.account, K256())
    world.clock.micros += 1
    forced = await world.resolver.look(world.did, fresh=True, patient=patient)
    assert forced.identity.key == PublicKey.from_did_key(world.account.key.did_key)
    gate.set()
    old = await early
    assert old.asked_at < forced.asked_at
    assert old.identity.key != forced.identity.key
    assert await world.resolver.look(world.did) == forced  # the later answer is not the newer one
    assert world.asked == 2


async def test_many_who_wait_share_one_request(world: World) -> None:
    answers = await asyncio.gather(*(world.resolver.resolve(world.did) for _ in range(100)))
    assert world.asked == 1
    assert len(set(map(id, answers))) == 1


async def test_one_who_stops_waiting_takes_nothing_from_the_others(world: World) -> None:
    first = asyncio.create_task(world.resolver.resolve(world.did))
    second = asyncio.create_task(world.resolver.resolve(world.did))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).did == world.did


async def test_an_unknown_account_is_not_asked_for_again_at_once(world: World) -> None:
    did = Did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
    for _ in range(5):
        with pytest.raises(IdentityError, match="not registered"):
            await world.resolver.resolve(did)
    assert world.network.plc.requests[did] == 1
    world.clock.micros += FAILURE_AGE
    with pytest.raises(IdentityError):
        await world.resolver.resolve(did)
    assert world.network.plc.requests[did] == 2


async def test_a_directory_that_fails_leaves_what_is_known(world: World) -> None:
    known = await world.resolver.resolve(world.did)
    world.network.plc.fail_with = 500
    assert await world.resolver.resolve(world.did, fresh=True) == known
    other = world.network.account()
    with pytest.raises(FetchError) as caught:
        await world.resolver.resolve(Did(other.did))
    assert caught.value.temporary


async def test_a_document_of_another_account_is_refused(world: World) -> None:
    other = world.network.account()
    world.network.plc.override[world.did] = other.document()
    with pytest.raises(IdentityError):
        await world.resolver.resolve(world.did)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"x" * 70_000, b"\xff"])
async def test_what_is_no_document_is_refused(world: World, body: bytes) -> None:
    world.network.plc.override[world.did] = body
    with pytest.raises(AppviewError):
        await world.resolver.resolve(world.did)


async def test_a_method_that_is_not_of_the_protocol(world: World) -> None:
    with pytest.raises(IdentityError, match="did:key"):
        await world.resolver.resolve(Did("did:key:zQ3sh"))


async def test_an_identity_that_changed_is_forgotten(world: World) -> None:
    await world.resolver.resolve(world.did)
    world.resolver.forget(world.did)
    await world.resolver.resolve(world.did)
    assert world.asked == 2


@pytest.mark.parametrize(
    ("did", "url"),
    [
        ("did:web:example.com", "https://example.com/.well-known/did.json"),
        ("did:web:localhost%3A3000", "http://localhost:3000/.well-known/did.json"),
        ("did:web:127.0.0.1%3A80", "http://127.0.0.1:80/.well-known/did.json"),
    ],
)
def test_where_a_did_web_keeps_its_document(did: str, url: str) -> None:
    assert document_url(Did(did)) == url


@pytest.mark.parametrize(
    "did",
    [
        "did:web:example.com:path",
        "did:web:example.com%3A8443",
        "did:web:example.com%2Fpath",
        "did:web:user%40example.com",
        "did:web:10.0.0.1",
        "did:web:localhost",
        "did:web:localhost%3A80%2F",
        "did:web:localhost%3A123456",
        "did:web:example",
    ],
)
def test_a_did_web_that_is_more_than_a_host_name_is_refused(did: str) -> None:
    with pytest.raises(IdentityError):
        document_url(Did(did))


class SlowHosts(HttpClient):
    """A client that never hears from a did:web host, and at once from the directory."""

    def __init__(self) -> None:
        super().__init__(allow_loopback=True)
        self.asked: list[str] = []

    async def get(self, url: str, **_: object) -> Answer:
        self.asked.append(url)
        if ".example" in url:
            await asyncio.Event().wait()
        raise FetchError("nothing is here", temporary=False)


async def test_slow_hosts_of_strangers_do_not_hold_up_the_directory() -> None:
    client = SlowHosts()
    resolver = Resolver(client, "https://plc.directory", Clock())
    dids = [Did(f"did:web:host{number}.example") for number in range(WEB_CONCURRENCY * 4)]
    waiting = [asyncio.create_task(resolver.resolve(did)) for did in dids]
    async with asyncio.timeout(5):
        with pytest.raises(FetchError, match="nothing is here"):
            await resolver.resolve(Did("did:plc:44ybard66vv44zksje25o7dz"))
    assert 0 < sum(".example" in url for url in client.asked) < WEB_CONCURRENCY
    await _end(resolver, waiting)


async def test_a_line_that_strangers_make_has_an_end() -> None:
    member = Did("did:plc:44ybard66vv44zksje25o7da")
    resolver = Resolver(
        SlowHosts(),
        "https://plc.directory",
        Clock(),
        standing=lambda did: Standing.MEMBER if did == member else Standing.STRANGER,
    )
    dids = [Did(f"did:web:host{number}.example") for number in range(MAX_RUNNING + 1)]
    waiting = [asyncio.create_task(resolver.resolve(did, patient=False)) for did in dids]
    async with asyncio.timeout(5):
        with pytest.raises(FetchError, match="too many") as caught:
            await waiting.pop()
        assert caught.value.temporary
        assert len(resolver._running) == MAX_RUNNING
        again = asyncio.create_task(resolver.resolve(dids[0], patient=False))  # waits with the first
        with pytest.raises(FetchError, match="nothing is here"):
            await resolver.resolve(Did("did:plc:44ybard66vv44zksje25o7dz"))  # ingest is patient
        with pytest.raises(FetchError, match="nothing is here"):
            await resolver.resolve(member, patient=False)
    await _end(resolver, [*waiting, again])


async def _end(resolver: Resolver, waiting: list[asyncio.Task[Identity]]) -> None:
    running = list(resolver._running.values())
    for task in (*waiting, *running):
        task.cancel()
    await asyncio.gather(*waiting, *running, return_exceptions=True)


async def test_an_answer_from_before_a_change_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, gate = asyncio.Event(), asyncio.Event()
    fetch = world.resolver._fetch

    async def slow(did: Did) -> Identity:
        identity = await fetch(did)
        fetched.set()
        await gate.wait()
        return identity

    monkeypatch.setattr(world.resolver, "_fetch", slow)
    early = asyncio.create_task(world.resolver.resolve(world.did))
    await fetched.wait()
    world.network.rotate_key(world.account, K256())
    world.resolver.forget(world.did)
    gate.set()
    old = await early
    new = await world.resolver.resolve(world.did)
    assert new.key != old.key
    assert (await world.resolver.resolve(world.did)).key == new.key


async def test_a_change_that_is_told_again_and_again_is_looked_at_once_a_minute(world: World) -> None:
    for _ in range(100):
        await world.resolver.resolve(world.did)
        world.resolver.forget(world.did)
        await world.resolver.resolve(world.did, fresh=True)
    assert world.asked <= 2
    world.clock.micros += FORCE_INTERVAL - 1
    await world.resolver.resolve(world.did)
    assert world.asked <= 2
    world.clock.micros += 1
    world.network.rotate_key(world.account, K256())
    for _ in range(100):
        identity = await world.resolver.resolve(world.did)  # what was told within the minute is still owed
        world.resolver.forget(world.did)
    assert identity.key == PublicKey.from_did_key(world.account.key.did_key)
    assert world.asked <= 3


async def test_a_change_told_while_it_is_asked_for_again_is_looked_at_when_the_minute_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.resolver.resolve(world.did, fresh=True)
    world.clock.micros += FORCE_INTERVAL
    fetched, gate = asyncio.Event(), asyncio.Event()
    fetch = world.resolver._fetch

    async def slow(did: Did) -> Identity:
        identity = await fetch(did)
        fetched.set()
        await gate.wait()
        return identity

    monkeypatch.setattr(world.resolver, "_fetch", slow)
    early = asyncio.create_task(world.resolver.resolve(world.did, fresh=True))
    await fetched.wait()
    world.network.rotate_key(world.account, K256())
    world.resolver.forget(world.did)
    gate.set()
    old = await early
    assert (await world.resolver.resolve(world.did)).key == old.key
    world.clock.micros += FORCE_INTERVAL
    assert (await world.resolver.resolve(world.did)).key != old.key


async def test_who_believes_nothing_older_is_told_that_the_directory_is_away(world: World) -> None:
    known = await world.resolver.resolve(world.did)
    world.network.plc.fail_with = 503
    assert await world.resolver.resolve(world.did, fresh=True) == known
    for _ in range(2):  # within the minute nobody is asked again, and the answer is the same
        with pytest.raises(FetchError):
            await world.resolver.resolve(world.did, fresh=True, freshness=Freshness(believed=0))
    assert await world.resolver.resolve(world.did) == known
    assert world.asked == 2


async def test_a_clock_that_was_put_back_makes_no_answer_hold_for_ever(world: World) -> None:
    world.clock.micros += 365 * MAX_AGE
    await world.resolver.resolve(world.did, fresh=True)
    world.clock.micros -= 365 * MAX_AGE
    world.network.plc.fail_with = 503
    with pytest.raises(FetchError):
        await world.resolver.resolve(world.did)
    world.network.plc.fail_with = None
    assert await world.resolver.resolve(world.did, fresh=True)
