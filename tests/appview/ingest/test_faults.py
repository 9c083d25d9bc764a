"""What goes wrong on the network and on the disk: none of it stops the stream, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from lexicons.ids import CONFIG, MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import World, config, held, memory, rkey
from tests.network.synthetic import (
    CORRUPTIONS,
    FIELDS,
    GOOD_FIELDS,
    MALFORMED_FRAMES,
    RECORDS,
    Network,
    Write,
    oversized_frame,
    padded,
    with_raw,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.network.synthetic import Account


async def several(world: World, count: int) -> tuple[SpaceUri, list[Account]]:
    """Make a space with members, each with one memory in it."""
    _, space = world.authority()
    members = [world.network.account() for _ in range(count)]
    for member in members:
        world.remember(member, "before")
    await world.until_declared(space)
    for member in members:
        await world.access.add_member(space, Did(member.did), "test")
    await world.reconcile()
    await world.until_mirrored(space, *members)
    return space, members


# Bad messages


async def test_a_corrupted_commit_is_refused_and_made_good(world: World) -> None:
    async with world.running():
        space, members = await several(world, len(CORRUPTIONS))
        for member, name in zip(members, CORRUPTIONS, strict=True):
            world.network.create(member, str(MEMORY), rkey(), memory(f"corrupt: {name}"), corrupt=name)
        for member in members:
            world.remember(member, "after")
        await world.until_mirrored(space, *members)
        rejected = sum(world.ingest.status()["rejects"].values())
        assert rejected >= len(CORRUPTIONS) - 5


async def test_a_forged_signature_alone_costs_no_fetch_and_shows_nothing(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        fetches = world.network.pds[0].requests["com.atproto.sync.getRepo"]
        world.network.create(bob, str(MEMORY), rkey(), memory("forged"), corrupt="wrong-key")
        await world.until_status(lambda status: status["rejects"].get("bad-signature", 0) >= 1)
        assert await world.texts(space) == {"before"}
        assert world.network.pds[0].requests["com.atproto.sync.getRepo"] == fetches


async def test_malformed_messages_are_counted_and_the_next_one_is_read(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        firehose = world.network.pds[0].firehose
        for frame in (*MALFORMED_FRAMES.values(), oversized_frame()):
            firehose.push(frame, firehose.next_seq())
        world.remember(bob, "after")
        await world.until_mirrored(space, bob)
        assert world.ingest.status()["rejects"]["malformed-frame"] >= len(MALFORMED_FRAMES) - 5


async def test_records_that_are_not_in_order_are_refused_and_counted(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        for block in RECORDS.values():
            world.network.create(bob, str(MEMORY), rkey(), block)
        world.network.create(bob, str(MEMORY), rkey(), memory("  \n"))
        world.remember(bob, "after")
        await world.until_mirrored(space, bob)
        assert await world.texts(space) == {"before", "after"}
        assert await world.skipped(space, bob.did) == {"record": len(RECORDS), "blank": 1}


async def test_one_odd_field_in_a_good_record_decides_as_the_data_model_has_it(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        bad = [with_raw(memory("bad"), field, raw) for field, raw, _ in FIELDS.values()]
        bad.append(padded(memory("bad"), 1_000_001))
        good = [with_raw(memory(name), field, raw) for name, (field, raw) in GOOD_FIELDS.items()]
        good.append(padded(memory("1 MB"), 1_000_000))
        for block in (*bad, *good):
            world.network.create(bob, str(MEMORY), rkey(), block)
        world.remember(bob, "after")
        await world.until_mirrored(space, bob)
        assert await world.texts(space) == {"before", "after", "1 MB", *GOOD_FIELDS}
        assert await world.skipped(space, bob.did) == {"record": len(bad)}
        assert world.ingest.status()["events"]["refused record"] == len(bad)


async def test_what_authors_write_is_not_in_the_log(world: World) -> None:
    secret = "zealous-quince"
    model = {
        "model": secret,
        "modelDigest": f"sha256:{secret}",
        "dims": 4,
        "encoding": "f16le",
        "vector": b"",
    }
    with capture_logs() as lines:
        async with world.running():
            space, (bob,) = await several(world, 1)
            for value in (
                memory(createdAt=f"1999-{secret}"),
                memory(embedding=model),
                memory(embedding=memory()["embedding"] | {"encoding": secret}),
                memory("ok", f"space={secret}"),
                memory(secret, *[secret] * 17),
            ):
                world.network.create(bob, str(MEMORY), rkey(), value)
            world.network.create(bob, str(CONFIG), "self", config(createdAt=secret))
            world.remember(bob, "after")
            await world.until_texts(space, {"before", "after"})
            skipped = await world.skipped(space, bob.did)
    assert skipped == {"record": 2, "model": 1, "vector": 1}
    assert {line["reason"] for line in lines if line["event"] == "memories skipped"} == set(skipped)
    assert any(line["event"] == "config refused" for line in lines)
    assert secret not in str(lines)


async def test_memories_that_a_tag_keeps_out_of_every_space_are_counted(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        for named in ("junk", world.network.account().did):
            world.network.create(bob, str(MEMORY), rkey(), memory("kept apart", f"space={named}"))
        world.remember(bob, "after")
        await world.until_texts(space, {"before", "after"})
        events = world.ingest.status()["events"]
        told = {name: count for name, count in events.items() if name.startswith("in no space")}
        assert sorted(told.values()) == [1, 1]
        assert await world.skipped(space, bob.did) == {}


async def test_an_error_message_in_mid_stream(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.network.pds[0].firehose.fail_connections("ConsumerTooSlow")
        world.remember(bob, "after")
        await world.until_mirrored(space, bob)


# What the source does


async def test_events_that_a_source_has_forgotten_are_fetched(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
    world.remember(bob, "while away")
    world.network.pds[0].firehose.skip(10)
    world.network.pds[0].firehose.forget_below(world.network.pds[0].firehose.seq)
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_a_source_that_was_reset_is_read_from_its_start_and_repos_are_compared(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
    world.remember(bob, "lost with the relay")
    world.network.pds[0].firehose.reset()
    async with world.running():
        await world.until_mirrored(space, bob)
        world.remember(bob, "on the new one")
        await world.until_mirrored(space, bob)
        await world.until_caught_up()


async def test_a_source_that_sends_everything_again(world: World) -> None:
    async with world.running():
        space, members = await several(world, 3)
        for member in members:
            world.remember(member, "more")
        await world.until_mirrored(space, *members)
        await world.until_caught_up()
    for source in await _cursors(world):
        await _forget_cursor(world, source)
    async with world.running():
        world.remember(members[0], "new")
        await world.until_mirrored(space, *members)
        assert world.ingest.status()["rejects"]["old-rev"] >= 3


async def _cursors(world: World) -> list[str]:
    async with world.running(source=()):
        return list(await world.control.cursors())


async def _forget_cursor(world: World, source: str) -> None:
    async with world.running(source=()):
        await world.control.clear_cursor(source)


async def test_a_sync_event_with_other_data_is_followed(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        bob.draft(*_write("never sent"))
        world.network.announce_sync(bob)
        await world.until_mirrored(space, bob)
        assert "never sent" in await world.texts(space)


def _write(text: str) -> tuple[Write, ...]:
    return (Write("create", str(MEMORY), rkey(), memory(text)),)


# What hosts and the directory do


async def test_what_waits_for_a_key_survives_a_restart(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
    async with world.running():
        world.network.plc.fail_with = 503
        world.remember(bob, "waits")
        await world.until_status(lambda status: status["repos"]["waiting events"] == 1)
        await world.until_caught_up()
    world.network.plc.fail_with = None
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_a_host_that_is_away_delays_only_its_own_accounts(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        world.network.pds[0].fail_with = 500
        carol = world.network.account()
        world.remember(carol, "early")
        await world.join(space, carol)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: HttpStatusError", 0) >= 2)
        world.remember(bob, "meanwhile")
        world.remember(carol, "late")
        await world.until_mirrored(space, bob)
        row = await world.control.repo(Did(carol.did))
        assert row is None or row.sync_state != "synchronized"
        world.network.pds[0].fail_with = None
        await world.until_mirrored(space, carol)


async def test_a_wait_after_a_failure_is_honoured_by_the_next_start(world: World) -> None:
    async with world.running():
        space, _ = await several(world, 1)
        world.network.pds[0].fail_with = 429
        world.network.pds[0].retry_after = "3600"
        carol = world.network.account()
        world.remember(carol, "early")
        await world.join(space, carol)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: HttpStatusError", 0) >= 1)
    asked = world.network.pds[0].requests["com.atproto.sync.getRepo"]
    async with world.running():
        await world.until_connected()
        world.remember(carol, "late")
        await world.until_caught_up()
        row = await world.control.repo(Did(carol.did))
        assert row is not None and row.retry_at is not None and row.attempts == 1 and row.error
    assert world.network.pds[0].requests["com.atproto.sync.getRepo"] == asked


async def test_an_author_of_another_space_does_not_wait_for_the_new_one(world: World) -> None:
    async with world.running():
        garden, (bob,) = await several(world, 1)
        _, shed = world.authority()
        await world.until_declared(shed)
        world.network.pds[0].fail_with = 503
        as_of_joining = bob.export()
        await world.join(shed, bob)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: HttpStatusError", 0) >= 1)
        keys = [world.remember(bob, f"meanwhile {number}") for number in range(5)]
        world.network.delete(bob, str(MEMORY), keys[0])
        await world.until_mirrored(garden, bob)
        assert not await world.mirrors(shed, bob)
        # What comes at last is the repo as it was then: the rest is what was held back.
        world.network.pds[0].export[bob.did] = as_of_joining
        world.network.pds[0].fail_with = None
        await world.until_mirrored(shed, bob)
        world.remember(bob, "later")
        await world.until_mirrored(shed, bob)
        await world.until_mirrored(garden, bob)


# Accounts


@pytest.mark.parametrize("status", ["deactivated", "takendown", "suspended"])
async def test_an_account_that_comes_back_is_followed_again(world: World, status: str) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        world.network.set_status(bob, status)
        await world.until_status(lambda s: s["events"].get(f"account {status}") == 1)
        bob.draft(*_write("while hidden"))
        world.network.set_status(bob, None)
        world.remember(bob, "back")
        await world.until_mirrored(space, bob)


async def test_an_inactive_account_is_known_by_its_hosts_answer(world: World) -> None:
    async with world.running():
        space, _ = await several(world, 1)
        carol = world.network.account()
        world.remember(carol, "hidden")
        await world.until_caught_up()
        carol.active, carol.status = False, "takendown"
        await world.join(space, carol)
        await world.until_status(lambda s: s["events"].get("account takendown") == 1)
        world.network.set_status(carol, None)
        await world.until_mirrored(space, carol)


async def test_a_deleted_account_is_purged_and_may_come_back(world: World) -> None:
    async with world.running():
        space, (bob, carol) = await several(world, 2)
        world.network.set_status(bob, "deleted")
        await world.until_texts_of(space, bob, set())
        assert await world.mirrors(space, carol)
        world.network.set_status(bob, None)
        await world.until_mirrored(space, bob)


async def test_a_deleted_authority_leaves_a_space_without_config(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        world.remember(alice, "mine")
        await world.until_texts(space, {"mine"})
        world.network.set_status(alice, "deleted")

        async def withdrawn() -> bool:
            row = await world.control.space(space)
            return row is not None and row.config is None

        await world.until(withdrawn)
        world.network.set_status(alice, None)
        await world.until_texts(space, {"mine"})


# The disk


async def test_a_full_disk_stops_the_cursor_and_loses_nothing(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
        async with world.pool.use(space) as store:
            pages = await store.database.write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
            await store.database.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone())
            world.remember(bob, "x" * 20_000)
            for _ in range(20):
                world.remember_many(bob, 20)
            await world.until_status(lambda s: s["failing"] is not None)
            before = await world.control.cursors()
            await asyncio.sleep(0.2)
            assert await world.control.cursors() == before
            assert max(position for position, _ in before.values()) < world.network.pds[0].firehose.seq
            await store.database.write(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchone())
        await world.until_mirrored(space, bob)
        await world.until_caught_up()
        assert world.ingest.status()["failing"] is None


async def test_a_damaged_space_stops_no_other(world: World) -> None:
    async with world.running():
        alice, garden = world.authority()
        bob, shed = world.authority()
        await world.until_declared(garden)
        await world.until_declared(shed)
        path = world.pool.path(garden)
    for each in path.parent.glob(path.name + "*"):
        each.write_bytes(b"not a database" * 1000)
    async with world.running():
        world.remember(alice, "into the damaged one")
        world.remember(bob, "into the other")
        await world.until_texts(shed, {"into the other"})
        await world.until_caught_up()
        await world.until_texts(garden, {"into the damaged one"})


# The end


async def test_stopping_writes_what_was_received(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        for _ in range(30):
            world.remember_many(bob, 5)
        await world.until_status(lambda s: s["events"].get("CommitEvent", 0) >= 20)
    async with world.running(source=()):
        async with world.pool.use(space) as store:
            kept = await store.live(Did(bob.did))
        cursors = await world.control.cursors()
    assert kept.items() <= held(bob).items()
    assert cursors
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_a_config_that_came_while_away_is_found(world: World) -> None:
    async with world.running():
        await world.until_connected()
    alice = world.network.account()
    world.remember(alice, "early")
    world.network.create(alice, str(CONFIG), "self", config())
    async with world.running():
        await world.until_texts(SpaceUri.public(Did(alice.did)), {"early"})


async def test_a_host_that_lags_behind_is_asked_again(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        old = bob.export()
        world.remember(bob, "newer")
        await world.until_mirrored(space, bob)
        world.network.pds[0].export[bob.did] = old
        bob.draft(*_write("newest"))
        world.network.announce_sync(bob)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: RepoBehind", 0) >= 1)
        assert "newer" in await world.texts(space)
        del world.network.pds[0].export[bob.did]
        await world.until_mirrored(space, bob)


async def test_a_host_that_stays_behind_is_believed_in_the_end(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        world.network.pds[0].export[bob.did] = bob.export()
        world.remember(bob, "lost when the host was put back")
        await world.until_mirrored(space, bob)
        bob.draft(*_write("lost too"))
        world.network.announce_sync(bob)
        await world.until_texts_of(space, bob, {"before"})


@pytest.mark.parametrize("export", [b"", b"garbage" * 100], ids=["empty", "garbage"])
async def test_a_repo_that_proves_nothing_is_not_taken(world: World, export: bytes) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        carol = world.network.account()
        world.remember(carol, "hers")
        world.network.pds[0].export[carol.did] = export
        await world.join(space, carol)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: Rejected", 0) >= 1)
        world.remember(bob, "goes on")
        await world.until_mirrored(space, bob)
        del world.network.pds[0].export[carol.did]
        await world.until_mirrored(space, carol)


async def test_anothers_repo_is_not_taken_for_ones_own(world: World) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        carol = world.network.account()
        world.remember(carol, "hers")
        world.network.pds[0].export[carol.did] = bob.export()
        await world.join(space, carol)
        await world.until_status(lambda s: s["repos"]["fetches"].get("failed: Rejected", 0) >= 1)
        assert [fact.author for fact in await world.facts(space)] == [bob.did]


async def test_an_account_that_moved_is_found_at_its_new_host(tmp_path: Path) -> None:
    async with Network(pds=2) as network:
        world = World(network, tmp_path)
        async with world.running():
            space, (bob,) = await several(world, 1)
            carol = network.account(pds=1)
            network.create(carol, str(MEMORY), rkey(), memory("elsewhere"))
            await world.join(space, carol)
            await world.until_mirrored(space, bob, carol)
