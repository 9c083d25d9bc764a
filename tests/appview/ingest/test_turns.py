"""Heavy commits wait for a turn, and keep nobody waiting but their own repo."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from appview.ingest.commands import Apply, Drop, FetchIdentity, Resync, Turn
from appview.ingest.frames import CommitEvent, parse_frame
from appview.ingest.tracked import HEAVY, OP_WEIGHT, weight_of
from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.test_engine import Desk, only
from tests.appview.ingest.world import World, held, memory, rkey
from tests.network.synthetic import CORRUPTIONS, Account, Write

if TYPE_CHECKING:
    from appview.ingest.tracked import RepoNews
    from tests.network.synthetic import Draft


def many(account: Account, count: int) -> Draft:
    """Draft a commit of so many memories."""
    return account.draft(
        *(Write("create", str(MEMORY), rkey(), memory(f"memory {number}")) for number in range(count))
    )


def event_of(draft: Draft) -> RepoNews:
    event = parse_frame(draft.frame(1))
    assert isinstance(event, CommitEvent)
    return event


def test_operations_and_bytes_make_a_commit_heavy() -> None:
    desk = Desk()
    few, many_ops = event_of(many(desk.account, 10)), event_of(many(desk.account, HEAVY // OP_WEIGHT))
    assert weight_of(few) == 10 * OP_WEIGHT + len(few.blocks) <= HEAVY < weight_of(many_ops)
    only(desk.engine.receive(few, desk.now), Apply)
    only(desk.engine.receive(many_ops, desk.now), Turn)


def test_bytes_of_blocks_make_a_commit_heavy() -> None:
    draft = many(Account(), 1)
    draft.blocks = bytes(HEAVY - OP_WEIGHT)
    assert weight_of(event_of(draft)) == HEAVY
    draft.blocks = bytes(HEAVY - OP_WEIGHT + 1)
    assert weight_of(event_of(draft)) > HEAVY


def test_what_goes_quickly_alone_does_not_go_all_at_once() -> None:
    desk = Desk()
    desk.engine.receive(event_of(many(desk.account, 30)), desk.now)
    light = [event_of(many(desk.account, 5)) for _ in range(10)]
    for event in light:
        assert desk.engine.receive(event, desk.now) == []
    turns = 0
    revs: list[str] = []
    commands = desk.engine.turn(desk.did, desk.now)
    while commands:
        turns += 1
        commits = [each.commit for each in commands if isinstance(each, Apply)]
        assert 0 < sum(len(commit.ops) for commit in commits if len(commit.ops) == 5) <= 25
        revs += [commit.rev for commit in commits]
        commands = desk.engine.turn(desk.did, desk.now)
    assert turns >= 3
    assert revs[1:] == [event.rev for event in light]


def test_of_whom_enough_is_not_written_waits_for_a_turn() -> None:
    full: set[Did] = set()
    desk = Desk(full=full.__contains__)
    first, second, third = (event_of(many(desk.account, 1)) for _ in range(3))
    only(desk.engine.receive(first, desk.now), Apply)
    full.add(desk.did)
    only(desk.engine.receive(second, desk.now), Turn)
    assert desk.engine.receive(third, desk.now) == []
    assert desk.engine.key_of(desk.did.encode()) is None
    commit, turn = desk.engine.turn(desk.did, desk.now)
    assert isinstance(commit, Apply)
    assert (commit.commit.rev, turn) == (second.rev, Turn(desk.did))
    full.clear()
    assert only(desk.engine.turn(desk.did, desk.now), Apply).commit.rev == third.rev
    assert desk.engine.waiting == (0, 0)


def test_a_heavy_commit_is_judged_in_its_turn_and_what_follows_behind_it() -> None:
    desk = Desk()
    first, light, second = (event_of(many(desk.account, count)) for count in (30, 1, 30))
    assert only(desk.engine.receive(first, desk.now), Turn) == Turn(desk.did)
    assert desk.engine.receive(light, desk.now) == []
    assert desk.engine.receive(second, desk.now) == []
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided
    *commits, turn = desk.engine.turn(desk.did, desk.now)
    assert [each.commit.rev for each in commits if isinstance(each, Apply)] == [first.rev, light.rev]
    assert turn == Turn(desk.did)
    assert only(desk.engine.turn(desk.did, desk.now), Apply).commit.rev == second.rev
    assert desk.engine.turn(desk.did, desk.now) == []
    assert desk.engine.waiting == (0, 0)


def test_a_turn_that_comes_late_is_nobodys() -> None:
    desk = Desk()
    assert desk.engine.turn(Did("did:plc:" + "z" * 24), desk.now) == []
    desk.engine.receive(event_of(many(desk.account, 30)), desk.now)
    desk.engine.account_confirmed(desk.did, desk.now, active=False, status="takendown")
    assert desk.engine.turn(desk.did, desk.now) == []
    assert desk.engine.waiting == (0, 0)


def test_what_a_fetched_repo_holds_already_needs_no_turn() -> None:
    desk = Desk()
    lost = many(desk.account, 1)
    heavy = event_of(many(desk.account, 30))
    assert lost.frame(1)
    desk.engine.receive(heavy, desk.now)
    resync = only(desk.engine.turn(desk.did, desk.now), Resync)
    assert desk.account.rev is not None and desk.account.data is not None
    commands = desk.engine.resynced(desk.did, desk.account.rev, desk.account.data, desk.now, resync.attempt)
    assert only(commands, Drop).reason == "old-rev"


def test_a_forged_heavy_commit_costs_one_look_at_the_document() -> None:
    desk = Desk()
    draft = many(desk.account, 30)
    CORRUPTIONS["zero-signature"](draft)
    desk.engine.receive(event_of(draft), desk.now)
    only(desk.engine.turn(desk.did, desk.now), FetchIdentity)
    assert only(desk.resolve(), Drop).reason == "bad-signature"


@pytest.mark.parametrize("sources", [1, 2])
async def test_neighbours_go_before_heavy_commits(world: World, sources: int) -> None:
    async with world.running():
        alice, hers = world.authority()
        bob, his = world.authority()
        await world.until_mirrored(hers, alice)
        await world.until_mirrored(his, bob)
        await world.until_status(
            lambda s: s["repos"]["synchronized"] == s["repos"]["followed"] > 0 == s["repos"]["to fetch"]
        )
        heavy = [many(alice, 200).frame(1) for _ in range(10)]
        light = many(bob, 1).frame(1)
        intake, engine = world.ingest._intake, world.ingest._pipeline.engine
        if sources == 1:
            await intake.take("one", [*heavy, light])
        else:
            await intake.take("one", [*heavy])
            await intake.take("two", [light])
        state = engine.state(Did(bob.did))
        assert state is not None and state.rev == bob.rev
        assert engine.waiting[0] >= 5
        row = world.ingest._pipeline.rows[Did(alice.did)]
        assert row.sync_state == "desynchronized"  # so that a crash makes it be fetched whole
        await world.until_mirrored(his, bob)
        await world.until_mirrored(hers, alice)
        assert world.ingest._pipeline.rows[Did(alice.did)].sync_state == "synchronized"
        assert world.ingest.status()["rejects"].get("prev-data-mismatch") is None


@pytest.mark.parametrize("unit", [b"\x80", b"\xf6", b"\x81\x80"])
async def test_megabytes_of_nothing_cost_less_than_they_weigh(world: World, unit: bytes) -> None:
    """16 records of 900 kB, each of which once took the processor for up to a second."""
    async with world.running():
        alice, space = world.authority()
        bob, his = world.authority()
        world.remember(alice, "there")
        world.remember(bob, "there")
        await world.until_mirrored(space, alice)
        await world.until_mirrored(his, bob)
        count = 900_000 // len(unit)
        crowd = b"\x61x\x9a" + count.to_bytes(4, "big") + unit * count
        drafts = []
        for commit in range(8):
            records = [b"\xa2" + crowd + b"\x61y\x19\x01" + bytes([2 * commit + each]) for each in range(2)]
            drafts.append(alice.draft(*(Write("create", str(MEMORY), rkey(), each) for each in records)))
        frames = [draft.frame(1) for draft in drafts]
        started = time.process_time()
        await world.ingest._intake.take("test", frames)  # type: ignore[arg-type]
        world.remember(bob, "meanwhile")
        await world.until_texts(his, {"there", "meanwhile"})
        assert time.process_time() - started < 2.0
        end = world.remember(alice, "end")
        await world.until_texts(space, {"there", "end"})
        assert await world.skipped(space, alice.did) == {"record": 16}
        assert end in held(alice)
