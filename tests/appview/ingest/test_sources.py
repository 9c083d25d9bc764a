"""Every kind of source, alone and together: what is served in the end is what the repos hold."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from appview.clock import now
from appview.control import Control
from appview.identity import resolver
from appview.ingest import accounts, refreshes
from appview.ingest.prover import LOOKS
from appview.source_lines import parse_source
from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import OTHER_MODEL, World, config, held, memory, rkey
from tests.network.synthetic import K256, P256, RECORDS, Jetstream, Network, Tap, Write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.network.synthetic import Account

SEEDS = [int(seed) for seed in os.environ.get("ENGRAM_TEST_SOURCE_SEEDS", "20261130").split()]
GET_RECORD, GET_REPO = "com.atproto.sync.getRecord", "com.atproto.sync.getRepo"


@dataclass
class Sources:
    """A network, and servers that pass on what happens there."""

    network: Network
    jetstream: Jetstream
    tap: Tap
    other_tap: Tap
    folder: Path

    @property
    def firehose_line(self) -> str:
        return self.network.pds[0].url

    @property
    def jetstream_line(self) -> str:
        return "jetstream+" + self.jetstream.url

    @property
    def tap_line(self) -> str:
        return "tap+" + self.tap.url

    def lines(self) -> dict[str, tuple[str, ...]]:
        """Give every way to follow the network, by name."""
        pds = tuple(f"pds+{each.url}" for each in self.network.pds)
        plain = tuple(each.url for each in self.network.pds)
        jetstream, tap = self.jetstream_line, self.tap_line
        return {
            "firehose": plain,
            "pds": pds,
            "jetstream": (jetstream,),
            "jetstream unproven": (f"{jetstream}#proof=off",),
            "tap": (f"{tap}#discover={self.firehose_line}",),
            "tap proven": (f"tap+{self.other_tap.url}#proof=on&discover={self.firehose_line}",),
            "firehose and jetstream": (*plain, jetstream),
            "pds and jetstream unproven": (*pds, f"{jetstream}#proof=off"),
        }

    def world(self, name: str) -> World:
        """Make a place for an appview of its own."""
        folder = self.folder / name.replace(" ", "-")
        folder.mkdir(exist_ok=True)
        return World(self.network, folder)


@pytest.fixture
async def sources(tmp_path: Path) -> AsyncIterator[Sources]:
    async with (
        Network(pds=2) as network,
        Jetstream() as jetstream,
        Tap(network) as tap,
        Tap(network) as other,
    ):
        jetstream.follow(network)
        yield Sources(network, jetstream, tap, other, tmp_path)


class Script:
    """A history of two spaces with three authors, from a seed: records of all kinds come, change and go, keys
    rotate, a model changes, accounts are hidden, come back, move and are deleted."""

    def __init__(self, network: Network, seed: int) -> None:
        self.random = random.Random(seed)
        self.network = network
        self.authors = [network.account(pds=number % 2) for number in range(3)]
        self.gone = network.account()
        self.spaces = [SpaceUri.public(Did(author.did)) for author in self.authors[:2]]
        for author in self.authors[:2]:
            network.create(author, str(CONFIG), "self", config())
        for author in (*self.authors, self.gone):
            network.create(author, str(MEMORY), rkey(), self.memory())

    def memory(self) -> dict[str, Any]:
        return memory(f"memory {self.random.getrandbits(64):x}", f"/path/{self.random.randint(0, 5)}")

    def step(self) -> None:
        """Let something happen."""
        author = self.random.choice(self.authors)
        keys = list(held(author))
        what = self.random.random()
        if what < 0.5 or not keys:
            count = self.random.randint(1, 4)
            self.network.commit(
                author, *(Write("create", str(MEMORY), rkey(), self.memory()) for _ in range(count))
            )
        elif what < 0.7:
            self.network.update(author, str(MEMORY), self.random.choice(keys), self.memory())
        elif what < 0.85:
            self.network.delete(author, str(MEMORY), self.random.choice(keys))
        elif what < 0.9:
            self.network.create(author, "app.bsky.feed.post", rkey(), {"text": "beside the point"})
        elif what < 0.94:
            self.network.create(author, str(MEMORY), rkey(), self.random.choice(list(RECORDS.values())))
        elif what < 0.97:
            self.network.rotate_key(author, self.random.choice((K256, P256))())
            self.network.commit(author, Write("create", str(MEMORY), rkey(), self.memory()))
        else:
            self.network.set_status(author, "deactivated")
            self.network.set_status(author, None)

    def turn(self) -> None:
        """Let something rare happen, once."""
        self.network.update(self.authors[1], str(CONFIG), "self", config(OTHER_MODEL))
        self.network.move(self.authors[2], 1 - self.network.pds.index(self.network.host_of(self.authors[2])))
        self.network.commit(self.authors[2], Write("create", str(MEMORY), rkey(), self.memory()))
        self.gone.active, self.gone.status = False, "deleted"
        host = self.network.host_of(self.gone)
        del host.accounts[self.gone.did]
        host.firehose.push(self.gone.account_frame(host.firehose.next_seq()))

    async def until_served(self, world: World) -> None:
        """Wait until a world serves what the repos hold, by the rules."""

        async def the_same() -> bool:
            for space in self.spaces:
                if not world.pool.exists(space):
                    return False
                async with world.pool.use(space) as store:
                    for author in self.authors:
                        if await store.live(Did(author.did)) != held(author):
                            return False
                    if await store.live(Did(self.gone.did)):
                        return False
            statuses = {row.did: row.status for row in await world.control.repos()}
            return statuses == dict.fromkeys((Did(author.did) for author in self.authors), "active") | {
                Did(self.gone.did): "deleted"
            }

        await world.until(the_same, 60)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
async def test_one_history_ends_in_the_same_state_through_every_source(
    sources: Sources, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A document, or a status, that changes often is looked at again when these are over: a minute, otherwise.
    for module, interval in (
        (refreshes, "REFRESH_INTERVAL"),
        (resolver, "FORCE_INTERVAL"),
        (accounts, "CHANGES_INTERVAL"),
    ):
        monkeypatch.setattr(module, interval, 3 * refreshes.SECOND)
    network = sources.network
    script = Script(network, seed)
    async with AsyncExitStack() as stack:
        worlds = {name: sources.world(name) for name in sources.lines()}
        for name, world in worlds.items():
            await stack.enter_async_context(world.running(source=sources.lines()[name]))
            for space in script.spaces:
                for author in (*script.authors, script.gone):
                    await world.access.add_member(space, Did(author.did), "test")
            await world.reconcile()
        for number in range(120):
            script.step()
            await asyncio.sleep(0.005)
            if number == 30:
                await sources.jetstream.close_connections()
                await sources.tap.close_connections()
            if number == 60:
                script.turn()
            if number == 90:
                for pds in network.pds:
                    await pds.firehose.close_connections()
        facts = {}
        for name, world in worlds.items():
            try:
                await script.until_served(world)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
            facts[name] = {
                space: sorted((fact.uri, fact.cid, fact.path) for fact in await world.facts(space))
                for space in script.spaces
            }
    expected = facts["firehose"]
    assert expected[script.spaces[0]]
    assert {name: each == expected for name, each in facts.items()} == dict.fromkeys(facts, True)


async def prepared(world: World, bob: Account, space: SpaceUri) -> None:
    """Make an account a member, and wait until its first memory is served."""
    await world.until_declared(space)
    await world.join(space, bob)
    await world.until_mirrored(space, bob)


async def test_a_claim_is_proven_before_it_is_served(sources: Sources) -> None:
    world, network = sources.world("a"), sources.network
    alice, space = world.authority()
    world.remember(alice, "first")
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_texts(space, {"first"})
        asked = network.pds[0].requests[GET_RECORD]
        world.remember(alice, "second")
        await world.until_texts(space, {"first", "second"})
        assert network.pds[0].requests[GET_RECORD] == asked + 1
        assert sources.jetstream.wanted[0] == [str(MEMORY), str(CONFIG)]


@pytest.mark.parametrize("behind", [LOOKS - 1, LOOKS])
async def test_a_host_that_is_behind_a_claim_is_asked_again_so_many_times(
    sources: Sources, behind: int
) -> None:
    world, network = sources.world("a"), sources.network
    alice, space = world.authority()
    world.remember(alice, "first")
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_texts(space, {"first"})
        asked, key = network.pds[0].requests[GET_RECORD], rkey()
        network.pds[0].proofs[alice.did] = [alice.record_proof(f"{MEMORY}/{key}")] * behind
        network.create(alice, str(MEMORY), key, memory("second"))
        if behind < LOOKS:
            await world.until_texts(space, {"first", "second"})
            assert "not-proven" not in world.ingest.status()["rejects"]
        else:
            await world.until_status(lambda status: status["rejects"].get("not-proven") == 1)
            assert await world.texts(space) == {"first"}
        assert network.pds[0].requests[GET_RECORD] == asked + LOOKS


async def test_a_claim_that_is_a_lie_is_never_served_and_costs_a_few_questions(sources: Sources) -> None:
    world, network = sources.world("a"), sources.network
    alice, space = world.authority()
    world.remember(alice, "true")
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_texts(space, {"true"})
        fetches = network.pds[0].requests[GET_REPO]
        honest = next(text for _, name, text in sources.jetstream.messages if name == str(MEMORY))
        claim = json.loads(honest)
        claim["commit"] |= {"rev": alice.next_rev(), "rkey": rkey(), "record": claim["commit"]["record"]}
        sources.jetstream.say({key: claim[key] for key in ("did", "kind", "commit")})
        gone = json.loads(honest)
        gone["commit"] = {**gone["commit"], "operation": "delete", "rev": alice.next_rev()}
        sources.jetstream.say({key: gone[key] for key in ("did", "kind", "commit")})
        await world.until_status(lambda status: status["rejects"].get("not-proven") == 2)
        assert await world.texts(space) == {"true"}
        assert network.pds[0].requests[GET_REPO] == fetches
        world.remember(alice, "after")
        await world.until_mirrored(space, alice)


async def test_without_proof_a_claim_is_taken_at_its_word_but_not_past_its_cid(sources: Sources) -> None:
    world, network = sources.world("a"), sources.network
    alice, space = world.authority()
    world.remember(alice, "first")
    async with world.running(source=(f"{sources.jetstream_line}#proof=off",)):
        await world.until_texts(space, {"first"})
        asked = network.pds[0].requests[GET_RECORD]
        world.remember(alice, "second")
        await world.until_texts(space, {"first", "second"})
        assert network.pds[0].requests[GET_RECORD] == asked
        # A record whose JSON does not give its bytes back is asked for.
        network.create(alice, str(MEMORY), rkey(), RECORDS["bytes-map"])
        await world.until_mirrored(space, alice)
        assert network.pds[0].requests[GET_RECORD] == asked + 1


async def test_a_host_that_is_away_delays_proofs_of_its_own_accounts_alone(sources: Sources) -> None:
    world, network = sources.world("a"), sources.network
    alice, space = world.authority()
    bob = network.account(pds=1)
    world.remember(bob, "bob")
    async with world.running(source=(sources.jetstream_line,)):
        await prepared(world, bob, space)
        network.pds[1].fail_with = 503
        world.remember(bob, "waits")
        world.remember(alice, "does not")
        await world.until_texts(space, {"bob", "does not"})
        row = await world.control.repo(Did(bob.did))
        assert row is not None

        async def noted() -> bool:
            row = await world.control.repo(Did(bob.did))
            return row is not None and row.sync_state == "desynchronized" and row.retry_at is not None

        await world.until(noted)
        network.pds[1].fail_with = None
        await world.until_mirrored(space, bob)


async def test_many_claims_of_one_repo_are_answered_by_fetching_it(sources: Sources) -> None:
    world, network = sources.world("a"), sources.network
    alice, space = world.authority()
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_declared(space)
        asked = network.pds[0].requests[GET_RECORD]
        world.remember_many(alice, 150)
        await world.until_mirrored(space, alice)
        assert network.pds[0].requests[GET_RECORD] - asked < 100


async def test_the_same_event_from_two_sources_changes_nothing_twice(sources: Sources) -> None:
    world = sources.world("a")
    alice, space = world.authority()
    async with world.running(source=(sources.firehose_line, sources.jetstream_line)):
        await world.until_declared(space)
        for number in range(20):
            key = world.remember(alice, f"memory {number}")
            world.network.update(alice, str(MEMORY), key, memory(f"changed {number}"))
        await world.until_mirrored(space, alice)

        async def both() -> bool:
            at = [position for position, _ in (await world.control.cursors()).values()]
            return sorted(at) == sorted(
                [world.network.pds[0].firehose.seq, sources.jetstream.messages[-1][0]]
            )

        await world.until(both)
        await world.until_mirrored(space, alice)
        async with world.pool.use(space) as store:
            rows = await store.database.read(
                lambda c: c.execute("SELECT rkey, cid, count(*) FROM facts GROUP BY rkey, cid").fetchall()
            )
        assert {count for _, _, count in rows} == {1}
        state = world.ingest._pipeline.engine.state(Did(alice.did))
        assert state is not None and (state.rev, state.ahead) == (alice.rev, None)


async def test_jetstream_goes_on_a_little_before_where_it_ended(sources: Sources) -> None:
    world = sources.world("a")
    alice, space = world.authority()
    async with world.running(source=(sources.jetstream_line,)):
        world.remember(alice, "first")
        await world.until_texts(space, {"first"})
    world.remember(alice, "while away")
    last = sources.jetstream.messages[-2][0]
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_texts(space, {"first", "while away"})
        cursor = sources.jetstream.cursors[-1]
        assert cursor is not None and cursor <= last - 5_000_000


async def test_what_was_ahead_of_a_firehose_that_lags_does_not_go_back_after_a_restart(
    sources: Sources,
) -> None:
    world, network = sources.world("a"), sources.network
    lines = (sources.firehose_line, sources.jetstream_line)
    alice, space = world.authority()
    firehose = network.pds[0].firehose
    async with world.running(source=lines):
        key = world.remember(alice, "first")
        await world.until_mirrored(space, alice)
        await world.until_caught_up()
        firehose.stall()
        network.update(alice, str(MEMORY), key, memory("second"))
        network.update(alice, str(MEMORY), key, memory("third"))
        await world.until_texts(space, {"third"})
        state = world.ingest._pipeline.engine.state(Did(alice.did))
        assert state is not None and state.ahead is not None
    third = firehose.frames.pop()
    firehose.stall(False)
    sources.jetstream.messages.clear()  # it is further on, and does not say it again
    gate = network.pds[0].gate = asyncio.Event()
    async with world.running(source=lines):
        await world.until_status(lambda status: status["events"].get("CommitEvent", 0) >= 1)
        await world.ingest._committer.flush()
        assert await world.texts(space) == {"third"}
        gate.set()
        network.pds[0].gate = None
        await world.until_status(lambda status: status["repos"]["synchronized"] == 1)
        firehose.frames.append(third)
        firehose._wake()
        await world.until_caught_up()
        assert await world.texts(space) == {"third"}


@asynccontextmanager
async def stored(world: World) -> AsyncIterator[Control]:
    """Open what an appview that has ended left."""
    with ThreadPoolExecutor(1) as executor:
        control = await Control.open(world.settings.control_file, executor)
        try:
            yield control
        finally:
            await control.close()


async def test_a_jetstream_time_far_ahead_is_no_cursor(sources: Sources) -> None:
    world, jetstream = sources.world("a"), sources.jetstream
    alice, space = world.authority()

    def say_ahead() -> None:
        identity = {"did": alice.did, "handle": "x.test"}
        jetstream.say({"did": alice.did, "kind": "identity", "identity": identity}, 4_000_000_000_000_000)
        jetstream.messages[-1] = (now(), *jetstream.messages[-1][1:])  # the server's own order is right

    async with world.running(source=(sources.jetstream_line,)):
        world.remember(alice, "first")
        await world.until_texts(space, {"first"})
        say_ahead()
        await world.until_status(lambda status: status["events"].get("IdentityEvent", 0) >= 2)
        await jetstream.close_connections()
        world.remember(alice, "while away")
        await world.until_texts(space, {"first", "while away"})
        say_ahead()
        await world.ingest._committer.flush()
    async with stored(world) as control:
        positions = [position for position, _ in (await control.cursors()).values()]
    assert positions and all(position <= now() for position in positions)
    world.remember(alice, "after a restart")
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_texts(space, {"first", "while away", "after a restart"})


async def test_a_jetstream_cursor_of_a_clock_that_was_ahead_is_given_up_behind_a_gap(
    sources: Sources,
) -> None:
    world = sources.world("a")
    alice, space = world.authority()
    async with world.running(source=(sources.jetstream_line,)):
        world.remember(alice, "first")
        await world.until_texts(space, {"first"})
    name = parse_source(sources.jetstream_line).name
    async with stored(world) as control:
        await control.set_cursor(name, now() + 30 * 24 * 3_600_000_000, now())
    world.remember(alice, "while away")
    sources.jetstream.messages.clear()  # and nobody tells of it
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_texts(space, {"first", "while away"})


async def test_what_a_jetstream_has_forgotten_is_fetched(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = sources.world("a")
    alice, space = world.authority()
    async with world.running(source=(sources.jetstream_line,)):
        world.remember(alice, "first")
        await world.until_texts(space, {"first"})
    world.remember(alice, "forgotten")
    sources.jetstream.messages.clear()
    monkeypatch.setattr("appview.ingest.jetstream.MEMORY_OF_SERVER", 0)
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_texts(space, {"first", "forgotten"})


async def test_nonsense_in_json_stops_nothing(sources: Sources) -> None:
    world = sources.world("a")
    alice, space = world.authority()
    texts = [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"kind": "commit"}',
        '{"kind": "commit", "did": "x", "commit": {}}',
    ]
    texts += ['{"kind": "account", "account": {"did": 1}}', '{"kind": "new"}', '{"time_us": -1}', "1" * 5_000]
    async with world.running(source=(sources.jetstream_line,)):
        await world.until_declared(space)
        for text in texts:
            sources.jetstream.say_text(text)
        world.remember(alice, "after")
        await world.until_texts(space, {"after"})
        assert world.ingest.status()["rejects"]["malformed-frame"] >= 7


# Tap


async def test_tap_is_acknowledged_after_the_commit_and_told_whom_to_follow(sources: Sources) -> None:
    world = sources.world("a")
    alice, space = world.authority()
    bob = sources.network.account()
    on_disk: list[bool] = []
    line = f"{sources.tap_line}#discover={sources.firehose_line}"
    async with world.running(source=(line,)):
        await prepared(world, bob, space)

        async def added() -> bool:
            return {alice.did, bob.did} <= sources.tap.added and not sources.tap.unacknowledged

        await world.until(added)

        def look(message: dict[str, Any]) -> None:
            path = world.pool.path(space)
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
                query = "SELECT count(*) FROM facts WHERE rkey = ?"
                (count,) = connection.execute(query, (message["record"]["rkey"],)).fetchone()
            connection.close()
            on_disk.append(count == 1)

        sources.tap.on_acknowledged = look
        for number in range(5):
            world.remember(bob, f"memory {number}")
        await world.until_mirrored(space, bob)
        await world.until(added)
        assert on_disk == [True] * 5


async def test_tap_sends_again_what_was_not_acknowledged(sources: Sources) -> None:
    world = sources.world("a")
    alice, space = world.authority()
    line = f"{sources.tap_line}#discover={sources.firehose_line}"
    async with world.running(source=(line,)):
        await world.until_declared(space)

        async def added() -> bool:
            return alice.did in sources.tap.added

        await world.until(added)
        for _ in range(10):
            world.remember(alice, "memory")
            await sources.tap.close_connections()
        await world.until_mirrored(space, alice)

        async def all_of_it() -> bool:
            return not sources.tap.unacknowledged

        await world.until(all_of_it)
        assert len(set(sources.tap.acknowledged)) == len(sources.tap.acknowledged)


async def test_tap_is_shown_its_password_and_nobody_else(sources: Sources, tmp_path: Path) -> None:
    sources.tap.password = "compost"
    secret = tmp_path / "secret"
    secret.write_text("compost\n")
    world = sources.world("a")
    alice, space = world.authority()
    line = f"{sources.tap_line}#discover={sources.firehose_line}&password-file={secret}"
    async with world.running(source=(line,), allow_loopback=True):
        await world.until_declared(space)

        async def added() -> bool:
            return alice.did in sources.tap.added

        await world.until(added)
        world.remember(alice, "memory")
        await world.until_texts(space, {"memory"})
        assert sources.tap.refused == 0
    assert "compost" not in str(world.ingest.status())
