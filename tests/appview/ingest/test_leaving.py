"""Records that leave a space, in every way there is: what is served is what the last version says."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.world import MODEL, World, memory, rkey
from tests.network.synthetic import Account, Write

if TYPE_CHECKING:
    from lexicons.spaces import SpaceUri

OTHER_MODEL = {**MODEL, "modelDigest": "sha256:another"}
ACTIONS = [
    ["update"],
    ["delete", "create"],
    ["update", "delete", "create"],
    ["delete", "create", "update"],
    ["delete", "create", "delete", "create"],
]


async def two_spaces(world: World) -> tuple[Account, SpaceUri, SpaceUri]:
    """Give an author and two spaces that take what it writes."""
    alice, here = world.authority()
    _, there = world.authority()
    await world.until_declared(here)
    await world.until_declared(there)
    await world.join(there, alice)
    return alice, here, there


def successor(what: str, there: SpaceUri) -> Any:
    """A version that has no place in the space of the one before."""
    match what:
        case "another space":
            return memory("two", f"space={there.authority}")
        case "no space":
            return memory("two", "space=did:plc:" + "z" * 24)
        case "invalid":
            return memory("two", f"space={there.authority}") | {"createdAt": "yesterday"}
        case "unreadable":
            return b"\xa1\x61x\x9a\x00\x0d\xbb\xa0" + b"\x80" * 900_000
        case "blank":
            return memory("  \n")
        case "another model":
            value = memory("two")
            value["embedding"] = {**value["embedding"], "modelDigest": OTHER_MODEL["modelDigest"]}
            return value
        case _:
            raise AssertionError(what)


@pytest.mark.parametrize(
    "what", ["another space", "no space", "invalid", "unreadable", "blank", "another model"]
)
async def test_a_version_that_does_not_belong_takes_the_one_before_out(world: World, what: str) -> None:
    async with world.running():
        alice, here, there = await two_spaces(world)
        keys = [rkey() for _ in ACTIONS]
        for key in keys:
            world.network.create(alice, str(MEMORY), key, memory(f"one {key}", f"space={here.authority}"))
        await world.until_texts(here, {f"one {key}" for key in keys})
        for key, actions in zip(keys, ACTIONS, strict=True):
            value = successor(what, there)
            writes = [
                Write(action, str(MEMORY), key, None if action == "delete" else value) for action in actions
            ]
            world.network.commit(alice, *writes)
        end = world.remember(alice, "end", f"space={here.authority}")
        await world.until_texts(here, {"end"})
        async with world.pool.use(here) as store:
            assert set(await store.live(Did(alice.did))) >= {end}
        await world.until_texts(there, {"two"} if what == "another space" else set())


async def test_every_history_of_one_commit_ends_where_its_last_version_belongs(world: World) -> None:
    """Each of up to three steps names a space, both or none; all in one commit and in several."""
    async with world.running():
        alice, here, there = await two_spaces(world)
        tags = {"here": [f"space={here.authority}"], "there": [f"space={there.authority}"], "both": []}
        wanted: dict[str, set[str]] = {"here": set(), "there": set()}
        for steps in [*product([*tags, "gone"], repeat=2), *product(["here", "there", "gone"], repeat=3)]:
            key, exists, writes = rkey(), False, []
            for at, step in enumerate(steps):
                name = f"{'-'.join(steps)} {at}"
                if step == "gone":
                    if exists:
                        writes.append(Write("delete", str(MEMORY), key))
                elif exists and at == 2:
                    writes.append(Write("delete", str(MEMORY), key))
                    writes.append(Write("create", str(MEMORY), key, memory(name, *tags[step])))
                else:
                    action = "update" if exists else "create"
                    writes.append(Write(action, str(MEMORY), key, memory(name, *tags[step])))
                exists = step != "gone"
            if len(writes) > 1:
                world.network.commit(alice, writes[0])
                writes = writes[1:]
            world.network.commit(alice, *writes)
            if exists:
                for space in ("here", "there"):
                    if step in (space, "both"):
                        wanted[space].add(name)
        await world.until_texts(here, wanted["here"])
        await world.until_texts(there, wanted["there"])


async def test_a_record_that_is_gone_again_was_never_there(world: World) -> None:
    async with world.running():
        alice, here, there = await two_spaces(world)
        key = rkey()
        world.network.commit(
            alice,
            Write("create", str(MEMORY), key, memory("one", f"space={here.authority}")),
            Write("delete", str(MEMORY), key),
            Write("create", str(MEMORY), key, memory("two", f"space={there.authority}")),
        )
        await world.until_texts(there, {"two"})
        assert await world.texts(here) == set()


async def test_a_commit_whose_paths_imitate_the_account_is_read(world: World) -> None:
    async with world.running():
        alice, here = world.authority()
        key = world.remember(alice, "secret")
        await world.until_texts(here, {"secret"})
        world.network.commit(
            alice,
            Write("create", "app.foo.bar", "drepoodid:x", {"a": 1}),
            Write("delete", str(MEMORY), key),
        )
        await world.until_texts(here, set())
        assert world.ingest.status()["repos"].get("desynchronized", 0) == 0
