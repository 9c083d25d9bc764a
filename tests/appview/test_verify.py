"""`engram-appview verify`, beside a running server and without one, on spaces that were tampered with."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.access.withheld import Withheld
from appview.cli import run
from appview.folder import hold_folder
from appview.memory.scope import Subtree
from appview.memory.values import Delete, Put, RepoUpdate, Visibility
from lexicons.ids import MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid
from tests.appview.ingest.world import OTHER_MODEL, World, held, memory, rkey
from tests.appview.process import Appview, command, environment
from tests.appview.test_service import opened
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from appview.memory.store import SpaceStore
    from tests.network.synthetic import Account

pytestmark = pytest.mark.timeout(120)
LATE = str(Tid.from_micros(4_000_000_000_000_000))


class Garden(World):
    """A space with two members, served or not, and what `verify` says of it."""

    space: SpaceUri
    alice: Account
    bob: Account
    capsys: pytest.CaptureFixture[str]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Follow the network, holding the folder as `serve` does."""
        with hold_folder(self.folder):
            async with self.running():
                yield

    @asynccontextmanager
    async def planted(self, *, serving: bool) -> AsyncIterator[None]:
        """Grow the space, and go on serving it or not."""
        async with self.served():
            await self._grow()
            if serving:
                yield
        if not serving:
            yield

    async def _grow(self) -> None:
        self.alice, self.space = self.authority()
        self.bob = self.network.account()
        for number in range(3):
            self.remember(self.alice, f"alice {number}", "/p")
            self.remember(self.bob, f"bob {number}", "/p")
        other = memory()["embedding"] | OTHER_MODEL
        self.network.create(self.bob, str(MEMORY), rkey(), memory("another model", embedding=other))
        self.network.create(self.bob, str(MEMORY), rkey(), memory("  "))
        await self.until_declared(self.space)
        await self.join(self.space, self.bob)
        await self.until_mirrored(self.space, self.alice, self.bob)
        await self.until_settled()

    async def until_settled(self) -> None:
        async def settled() -> bool:
            return all(state == "synced" for state in (await self.control.memberships()).values())

        await self.until(settled)
        await self.until_caught_up()

    async def verify(self, *options: str) -> tuple[int, dict[str, Any]]:
        """Run the command line, in a thread: it has an event loop of its own."""
        plc = ("--plc-url", self.network.plc.url, "--allow-loopback")
        arguments = ["verify", self.space, "--json", "--data", str(self.folder), *plc, *options]
        code = await asyncio.to_thread(run, arguments)
        out, err = self.capsys.readouterr()
        return code, json.loads(out[out.index("{\n") :] if "{\n" in out else err)

    async def differences(self) -> dict[str, list[str]]:
        code, document = await self.verify()
        (space,) = document["spaces"]
        found = {
            author["did"]: [each["kind"] for each in author["differences"]]
            for author in space["authors"]
            if author["differences"]
        }
        assert code == (1 if found or space["findings"] else 0)
        assert space["equal"] is (code == 0)
        return found

    @asynccontextmanager
    async def store(self) -> AsyncIterator[SpaceStore]:
        async with opened(self.folder) as (_, pool), pool.use(self.space) as store:
            yield store

    async def of(self, did: str) -> list[str]:
        """List what the space holds of an author, hidden or not."""
        return [fact.text for fact in await self.facts(self.space) if fact.author == did]

    async def told(self) -> str:
        """Give what the command says of the space to people, in its first line."""
        plc = ("--plc-url", self.network.plc.url, "--allow-loopback")
        await asyncio.to_thread(run, ["verify", self.space, "--data", str(self.folder), *plc])
        lines = self.capsys.readouterr().out.splitlines()
        return next(line for line in lines if line.startswith(self.space)).removeprefix(f"{self.space}: ")

    async def is_right(self) -> None:
        async with self.store() as store:
            assert await store.live(Did(self.alice.did)) == held(self.alice)
            assert await store.live(Did(self.bob.did)) == held(self.bob)
            assert await store.check() == []


@pytest.fixture
async def garden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Garden]:
    async with Network() as network:
        made = Garden(network, tmp_path)
        made.capsys = capsys
        yield made


async def lose_one(garden: Garden) -> None:
    key = next(iter(held(garden.alice)))
    async with garden.store() as store:
        await store.apply([RepoUpdate(Did(garden.alice.did), LATE, (Delete(key),))])


def execute(statement: str) -> Callable[[Garden], Any]:
    async def tamper(garden: Garden) -> None:
        async with garden.store() as store:
            await store.database.write(lambda connection: connection.execute(statement))

    return tamper


async def add_a_stranger(garden: Garden) -> None:
    async with garden.store() as store:
        bobs = await store.versions(Did(garden.bob.did))
        puts = tuple(Put(key, version.cid, version.memory) for key, version in bobs.items())
        await store.apply([RepoUpdate(Did("did:plc:stranger"), LATE, puts)])


async def hide_one(garden: Garden) -> None:
    async with garden.store() as store:
        await store.apply([Visibility(Did(garden.bob.did), True)])


TAMPERED: dict[str, tuple[Callable[[Garden], Any], str, str]] = {
    "a record is lost": (lose_one, "alice", "missing"),
    "an old version": (execute("UPDATE facts SET cid = 'bafyold' WHERE content = 'bob 1'"), "bob", "version"),
    "a forged text": (
        execute("UPDATE facts SET content = 'forged' WHERE content = 'bob 1'"),
        "bob",
        "content",
    ),
    "a stranger": (add_a_stranger, "stranger", "extra"),
    "wrongly hidden": (hide_one, "bob", "hidden"),
    "at a path that is not there": (
        execute("UPDATE facts SET path_id = 999 WHERE content = 'bob 1'"),
        "bob",
        "hidden",
    ),
}


@pytest.mark.parametrize("serving", [True, False], ids=["serving", "stopped"])
@pytest.mark.parametrize("name", TAMPERED)
async def test_a_difference_is_told_and_repaired(garden: Garden, name: str, serving: bool) -> None:
    tamper, who, kind = TAMPERED[name]
    async with garden.planted(serving=serving):
        assert await garden.differences() == {}
        await tamper(garden)
        did = {"alice": garden.alice.did, "bob": garden.bob.did, "stranger": "did:plc:stranger"}[who]
        found = await garden.differences()
        assert {did: set(kinds) for did, kinds in found.items()} == {did: {kind}}
        code, document = await garden.verify("--repair")
        assert code == 0, document
        assert document["repaired"] == [garden.space]
        await garden.is_right()
    async with garden.served():
        garden.remember(garden.bob, "later")
        await garden.until_mirrored(garden.space, garden.alice, garden.bob)


@pytest.mark.parametrize("serving", [True, False], ids=["serving", "stopped"])
@pytest.mark.parametrize("statement", ["DELETE FROM facts_fts", "DROP TABLE facts_vec_1"])
async def test_what_is_wrong_inside_a_file_is_told_and_repaired(
    garden: Garden, serving: bool, statement: str
) -> None:
    async with garden.planted(serving=serving):
        await execute(statement)(garden)
        code, document = await garden.verify()
        assert code == 1
        assert document["spaces"][0]["findings"]
        code, document = await garden.verify("--repair")
        assert code == 0, document
        await garden.is_right()


@pytest.mark.parametrize("lose", [False, True], ids=["damaged", "lost"])
async def test_a_file_beyond_use_is_built_anew(garden: Garden, lose: bool) -> None:
    async with garden.planted(serving=False):
        path = garden.pool.path(garden.space)
        for each in path.parent.glob(path.name + "*"):
            each.unlink() if lose else each.write_bytes(b"not a database" * 1000)
        code, document = await garden.verify()
        assert code == 1
        assert document["spaces"][0]["findings"]
        code, document = await garden.verify("--repair")
        assert code == 0, document
        await garden.is_right()


@pytest.mark.parametrize("serving", [True, False], ids=["serving", "stopped"])
async def test_an_account_whose_going_was_not_heard_is_hidden(garden: Garden, serving: bool) -> None:
    async with garden.planted(serving=serving):
        garden.bob.active, garden.bob.status = False, "takendown"
        assert await garden.differences() == {garden.bob.did: ["shown"]}
        code, document = await garden.verify("--repair")
        assert code == 0, document
        async with garden.store() as store:
            assert store.hidden == {Did(garden.bob.did)}
        garden.bob.active, garden.bob.status = True, None
        assert await garden.differences() == {garden.bob.did: ["hidden"]}
        code, document = await garden.verify("--repair")
        assert code == 0, document
        await garden.is_right()


async def test_what_readers_are_not_shown_though_its_author_may_write_is_a_difference(
    garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_many(_withheld: Withheld, _space: SpaceUri) -> frozenset[Did]:
        return frozenset({Did(garden.bob.did)})

    async with garden.planted(serving=False):
        with monkeypatch.context() as patched:
            patched.setattr(Withheld, "authors", too_many)
            assert await garden.differences() == {garden.bob.did: ["hidden"]}
        assert await garden.differences() == {}


@pytest.mark.parametrize("serving", [True, False], ids=["serving", "stopped"])
async def test_a_space_that_lost_its_file_has_its_strangers_again(garden: Garden, serving: bool) -> None:
    async with garden.served():
        await garden._grow()
        everyone = Permission(EVERYONE, garden.space, Subtree("/"), "write")
        await garden.access.change([everyone], actor="test", action="test")
        carol = garden.network.account()
        garden.remember(carol, "carol's")
        await garden.until_mirrored(garden.space, carol)
        await garden.until_settled()
    path = garden.folder / "spaces"
    for each in path.iterdir():
        each.write_bytes(b"not a database" * 1000)
    async with garden.served() if serving else nullcontext():
        code, document = await garden.verify("--repair")
        assert code == 0, document
        await garden.is_right()
        async with garden.store() as store:
            assert await store.live(Did(carol.did)) == held(carol)
            assert await store.shown(Did(carol.did)) == frozenset(held(carol))


async def test_a_host_that_does_not_answer_is_no_proof(garden: Garden) -> None:
    async with garden.planted(serving=False):
        garden.network.plc.override[garden.bob.did] = b"{}"
        code, document = await garden.verify()
        assert code == 7
        (space,) = document["spaces"]
        states = {author["did"]: author["state"] for author in space["authors"]}
        assert states == {garden.alice.did: "equal", garden.bob.did: "unreachable"}
        assert space["equal"] is None
        assert await garden.told() == "not proven (2 authors, 1 could not be fetched, 3 records)"
        await lose_one(garden)
        code, document = await garden.verify()
        assert code == 1
        (space,) = document["spaces"]
        assert space["equal"] is False
        assert (await garden.told()).startswith("differs (2 authors, 1 could not be fetched, ")


@pytest.mark.parametrize("server", ["host", "directory"])
async def test_where_nothing_answers_nothing_is_proven(garden: Garden, server: str) -> None:
    async with garden.planted(serving=False):
        failing = garden.network.pds[0] if server == "host" else garden.network.plc
        failing.fail_with = 500
        code, document = await garden.verify("--repair")
        assert code == 6
        (space,) = document["spaces"]
        assert space["equal"] is None
        assert document["repaired"] == []
        assert {author["state"] for author in space["authors"]} == {"unreachable"}
        assert all(author["error"] for author in space["authors"])
        assert await garden.told() == "not proven (2 authors, 2 could not be fetched, 0 records)"


async def test_what_cannot_be_looked_at_again_is_not_told_to_be_repaired(garden: Garden) -> None:
    async with garden.planted(serving=False):
        await lose_one(garden)
        garden.network.pds[0].answers = 2  # a look at both authors, and no more
        code, document = await garden.verify("--repair", "--wait", "1")
        assert (code, document["repaired"]) == (6, [])
        assert document["spaces"][0]["equal"] is None


@pytest.mark.parametrize("unregistered", [False, True], ids=["by its host", "in the directory"])
async def test_an_account_that_was_deleted_holds_nothing_and_is_equal(
    garden: Garden, unregistered: bool
) -> None:
    async with garden.planted(serving=False):
        pass
    async with garden.served():
        network, did = garden.network, garden.bob.did
        network.set_status(garden.bob, "deleted")
        del network.pds[0].accounts[did]

        async def purged() -> bool:
            row = await garden.control.repo(Did(did))
            return row is not None and row.status == "deleted" and not await garden.of(did)

        await garden.until(purged)
        if unregistered:
            network.plc.gone.add(did)
        code, document = await garden.verify()
        assert code == 0, document
        (space,) = document["spaces"]
        (bob,) = [author for author in space["authors"] if author["did"] == did]
        assert (bob["state"], bob["status"], bob["records"]) == ("equal", "deleted", 0)
    async with garden.store() as store:
        ((key, version), *_) = (await store.versions(Did(garden.alice.did))).items()
        await store.apply([RepoUpdate(Did(did), LATE, (Put(key, version.cid, version.memory),))])
    assert await garden.differences() == {did: ["shown"]}
    code, document = await garden.verify("--repair")
    assert code == 0, document


async def test_an_account_of_which_its_host_knows_nothing_is_not_taken_for_a_deleted_one(
    garden: Garden,
) -> None:
    async with garden.planted(serving=False):
        del garden.network.pds[0].accounts[garden.bob.did]
        code, document = await garden.verify()
        assert code == 7
        states = {author["did"]: author["state"] for author in document["spaces"][0]["authors"]}
        assert states == {garden.alice.did: "equal", garden.bob.did: "unreachable"}


async def test_a_busy_space_is_not_taken_for_a_wrong_one(garden: Garden) -> None:
    async def write_on() -> None:
        while True:
            garden.remember(garden.alice, "busy")
            await asyncio.sleep(0.005)

    async with garden.planted(serving=True):
        writing = asyncio.create_task(write_on())
        try:
            assert await garden.differences() == {}
        finally:
            writing.cancel()
            await asyncio.wait([writing])


async def test_a_space_that_is_not_there(garden: Garden) -> None:
    async with garden.planted(serving=False):
        garden.space = SpaceUri.public(Did("did:plc:nobody"))
        code, document = await garden.verify()
        assert code == 4
        assert document["error"]["code"] == "NotFound"


async def test_it_is_a_command_of_its_own_beside_a_server_of_its_own(garden: Garden) -> None:
    variables = environment(garden.folder, garden.network.pds[0].url, garden.network.plc.url)
    async with garden.planted(serving=False):
        pass
    appview = await Appview.start(variables)
    try:
        await appview.url()
        await lose_one(garden)
        code, output = await command(variables, "verify")
        assert code == 1
        assert f"{garden.space}: differs (2 authors, 8 records)" in output
        assert f"{garden.alice.did}: different" in output
        code, output = await command(variables, "verify", "--repair")
        assert code == 0, output
        assert f"{garden.space}: repaired" in output
    finally:
        assert await appview.stop() == 0
    await garden.is_right()
