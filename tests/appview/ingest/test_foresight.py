"""Proof ahead, by a second process: it changes how fast things are, and nothing else."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.clock import now
from appview.identity.keys import PublicKey
from appview.ingest import foresight
from appview.ingest.commits import prove_commit
from appview.ingest.errors import MalformedFrame, Rejected
from appview.ingest.foresight import Foresight
from appview.ingest.frames import CommitEvent, parse_frame
from appview.ingest.proof_process import ProofProcess
from appview.ingest.proof_worker import answer, proven_commit, read_answer, write_request
from lexicons.ids import MEMORY
from tests.appview.ingest.world import World, memory, no_wait, rkey
from tests.appview.process import Appview, environment
from tests.network.synthetic import CORRUPTIONS, K256, P256, Account, Network, Write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from appview.ingest.commits import ProvenCommit
    from tests.network.synthetic import SigningKey

LATER = 3_600_000_000  # microseconds, so that no rev made here is ahead of the time


def key_of(account: Account) -> PublicKey:
    return PublicKey.from_did_key(account.key.did_key)


def commits(account: Account, count: int) -> list[bytes]:
    """Make messages of a chain: creates, updates and deletes, of one operation and of several."""
    rng, keys, frames = random.Random(count), [], []
    for seq in range(1, count + 1):
        writes = []
        for key in rng.sample(keys, min(len(keys), rng.randint(0, 2))):
            if rng.random() < 0.5:
                writes.append(Write("update", str(MEMORY), key, memory(f"changed in {seq}")))
            else:
                writes.append(Write("delete", str(MEMORY), key, None))
                keys.remove(key)
        keys.append(rkey())
        writes.append(Write("create", str(MEMORY), keys[-1], memory(f"made in {seq}", f"/path/{seq}")))
        frames.append(account.draft(*writes).frame(seq))
    return frames


def event_of(frame: bytes) -> CommitEvent:
    event = parse_frame(frame)
    assert isinstance(event, CommitEvent)
    return event


# What the process answers


@pytest.mark.parametrize("key", [K256(), P256()], ids=["k256", "p256"])
def test_the_answer_is_what_proof_on_the_spot_gives(key: SigningKey) -> None:
    account = Account(key=key)
    frames = commits(account, 25)
    outcomes = read_answer(
        answer(write_request([(key_of(account), frame) for frame in frames], now() + LATER))
    )
    assert len(outcomes) == 25
    for frame, outcome in zip(frames, outcomes, strict=True):
        event = event_of(frame)
        assert proven_commit(event, outcome) == prove_commit(event, key_of(account), now() + LATER)


@pytest.mark.parametrize("corruption", sorted(CORRUPTIONS))
def test_what_cannot_be_proven_has_no_answer(corruption: str) -> None:
    account = Account()
    for number in range(30):
        account.create(str(MEMORY), f"{number:04}", memory(f"number {number}"))
    draft = account.draft(Write("create", str(MEMORY), rkey(), memory("the last one")))
    CORRUPTIONS[corruption](draft)
    with pytest.raises((Rejected, MalformedFrame)):
        prove_commit(event_of(draft.frame(1)), key_of(account), now() + LATER)
    assert read_answer(answer(write_request([(key_of(account), draft.frame(1))], now() + LATER))) == [None]


def test_a_rev_that_is_ahead_of_the_time_has_no_answer() -> None:
    account = Account()
    frame = commits(account, 1)[0]
    assert read_answer(answer(write_request([(key_of(account), frame)], 0))) == [None]


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(message: bytes) -> None:
    jobs = [(KEY, message), (KEY, FRAME)]
    nothing, proven = read_answer(answer(write_request(jobs, now() + LATER)))
    assert nothing is None
    assert proven is not None


_ACCOUNT = Account()
KEY, FRAME = key_of(_ACCOUNT), commits(_ACCOUNT, 1)[0]


# What is taken of it


@asynccontextmanager
async def foreseeing(key: PublicKey | None) -> AsyncIterator[Foresight]:
    """Run one whose process has started."""
    ahead = Foresight(lambda: now() + LATER, random=lambda: 0.5, sleep=no_wait)
    ahead.key_of = lambda _name: key
    task = asyncio.create_task(ahead.run())
    try:
        ahead.look_ahead([b""] * (foresight.BACKLOG + 1), 1)
        await until(lambda: ahead._process is not None)
        yield ahead
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a process signals nothing
            await asyncio.sleep(0.01)


async def answered(ahead: Foresight) -> None:
    process = ahead._process
    assert process is not None
    await until(lambda: not process.waiting)


async def test_a_proof_that_was_made_ahead_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account()
    frames = commits(account, 20)
    expected = [prove_commit(event_of(frame), key_of(account), now() + LATER) for frame in frames]
    async with foreseeing(key_of(account)) as ahead:
        ahead.look_ahead(frames, 0)
        await answered(ahead)
        monkeypatch.setattr(foresight, "prove_commit", lambda *_: pytest.fail("proven again"))
        for frame, commit in zip(frames, expected, strict=True):
            event = event_of(frame)
            ahead.meet(frame, event)
            assert ahead.prove(event, key_of(account), now() + LATER) == commit
        assert ahead.outcomes == Counter(ahead=20)
        assert not ahead._asked


async def test_a_proof_with_another_key_counts_for_nothing() -> None:
    account, other = Account(), Account()
    frame = commits(account, 1)[0]
    async with foreseeing(key_of(account)) as ahead:
        ahead.look_ahead([frame], 0)
        await answered(ahead)
        event = event_of(frame)
        ahead.meet(frame, event)
        with pytest.raises(Rejected, match="bad-signature"):  # the key changed while the message waited
            ahead.prove(event, key_of(other), now() + LATER)


async def test_a_proof_is_of_the_message_that_is_judged_and_of_no_other() -> None:
    account = Account()
    first, second = commits(account, 2)
    forged = event_of(second)
    async with foreseeing(key_of(account)) as ahead:
        ahead.look_ahead([first], 0)
        await answered(ahead)
        ahead.meet(first, event_of(first))
        ahead.meet(second, forged)  # of this one nothing is known
        assert ahead.prove(forged, key_of(account), now() + LATER).rev == forged.rev
        ahead.look_ahead([first], 0)
        await answered(ahead)
        event = event_of(first)
        ahead.meet(first, event)
        ahead.prove(event, key_of(account), now() + LATER)
        with pytest.raises(Rejected, match="bad-signature"):  # once
            ahead.prove(event, key_of(Account()), now() + LATER)


async def test_what_was_not_met_is_forgotten() -> None:
    account = Account()
    frames = commits(account, 40)
    async with foreseeing(key_of(account)) as ahead:
        ahead.look_ahead(frames, 8)
        assert len(ahead._asked) == 32
        ahead.forget(frames)
        assert not ahead._asked
        await answered(ahead)  # an answer that comes after that is for nobody
        assert not ahead._asked


async def test_no_more_is_asked_than_was_agreed() -> None:
    account = Account()
    most = foresight.FRAMES * foresight.REQUESTS
    frames = commits(account, most + 1)
    async with foreseeing(key_of(account)) as ahead:
        assert ahead._process is not None
        os.kill(ahead._process.pid, signal.SIGSTOP)
        ahead.look_ahead(frames, 0)
        assert len(ahead._asked) == most
        ahead.look_ahead(frames, 0)
        assert len(ahead._asked) == most
        os.kill(ahead._process.pid, signal.SIGCONT)
        await answered(ahead)
        ahead.look_ahead(frames, 0)
        assert len(ahead._asked) == most + 1


async def test_a_message_that_is_heavy_is_not_proven_ahead() -> None:
    account = Account()
    room = foresight.MAX_FRAME_BYTES - len(account.draft(_large(0)).frame(1))
    fits, above = account.draft(_large(room - 1_000)).frame(1), account.draft(_large(room + 1_000)).frame(2)
    assert len(fits) <= foresight.MAX_FRAME_BYTES < len(above)
    async with foreseeing(key_of(account)) as ahead:
        ahead.look_ahead([fits, above], 0)
        assert list(ahead._asked) == [fits]


def _large(size: int) -> Write:
    return Write("create", str(MEMORY), rkey(), memory("x" * size))


async def test_answers_that_come_too_late_are_asked_for_further_ahead_and_then_not_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foresight, "REST_SECONDS", 3.0)
    monkeypatch.setattr(foresight, "LATE", 30)
    account = Account()
    frames = commits(account, 200)
    async with foreseeing(key_of(account)) as ahead:
        ahead.look_ahead(frames, 0)
        for frame in frames[:20]:
            ahead.meet(frame, event_of(frame))
        await answered(ahead)
        ahead.forget(frames)
        ahead.look_ahead(frames, 0)
        assert next(iter(ahead._asked)) == frames[80]  # four messages for each that came too late
        for frame in frames[80:90]:
            ahead.meet(frame, event_of(frame))
        assert ahead.outcomes == Counter(late=30)
        await answered(ahead)
        ahead.forget(frames)
        ahead.look_ahead(frames, 0)
        assert not ahead._asked
        await until(lambda: ahead.look_ahead(frames, 0) or ahead._asked)


async def test_what_is_answered_in_time_is_asked_for_less_far_ahead() -> None:
    account = Account()
    frames = commits(account, 40)
    async with foreseeing(key_of(account)) as ahead:
        ahead._lead = 10
        ahead.look_ahead(frames, 0)
        await answered(ahead)
        for frame in frames[10:15]:
            ahead.meet(frame, event_of(frame))
        assert ahead._lead == 5


async def test_the_process_is_ended_when_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(foresight, "LOOK_SECONDS", 0.05)
    async with foreseeing(KEY) as ahead:
        await until(lambda: ahead._process is None)
        assert ahead.outcomes == Counter()
        ahead.look_ahead([b""] * (foresight.BACKLOG + 1), 1)
        await until(lambda: ahead._process is not None)


async def test_a_process_that_is_stuck_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "STUCK_SECONDS", 0.1)
    monkeypatch.setattr(foresight, "LOOK_SECONDS", 0.05)
    async with foreseeing(KEY) as ahead:
        stuck = ahead._process
        assert stuck is not None
        os.kill(stuck.pid, signal.SIGSTOP)
        ahead.look_ahead([FRAME], 0)
        await until(stuck.ended.is_set)
        assert ahead.outcomes["lost"] == 1
        ahead.look_ahead([b""] * (foresight.BACKLOG + 1), 1)
        await until(lambda: ahead._process not in (None, stuck))


async def test_a_program_that_cannot_be_started_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    with pytest.raises(OSError, match="No such file"):
        await ProofProcess.start()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    ahead = Foresight(now, random=lambda: 1.0, sleep=sleep)
    task = asyncio.create_task(ahead.run())
    for failures in range(1, 4):
        ahead.look_ahead([b""] * (foresight.BACKLOG + 1), 1)
        await until(lambda failures=failures: len(waits) == failures)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert waits == sorted(set(waits))  # longer each time


# What comes of it


async def test_a_backlog_is_proven_ahead_and_is_as_it_would_be_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(event: CommitEvent, key: PublicKey, now: int) -> ProvenCommit:
        time.sleep(0.003)  # so that the other process is faster, whatever else the machine does
        return prove_commit(event, key, now)

    monkeypatch.setattr(foresight, "prove_commit", slowly)
    async with Network() as network, World(network, tmp_path).running(prove_ahead=True) as world:
        _, space = world.authority()
        await world.until_declared(space)
        members = [network.account() for _ in range(3)]
        for member in members:
            world.remember(member)
            await world.join(space, member)
        await world.until_mirrored(space, *members)

        firehose = network.pds[0].firehose

        def backlog() -> None:
            for _ in range(150):
                for member in members:
                    world.remember(member, "another one")
            impostor = Account(did=members[0].did)  # with a key of its own
            seq = firehose.next_seq()
            forged = impostor.create(str(MEMORY), rkey(), memory("never there"))
            firehose.push(forged.frame(seq), seq)
            firehose.push(forged.frame(seq + 1)[:-1], firehose.next_seq())  # whose it is can still be read
            for member in members:
                world.remember(member, "behind it")

        foreseen = world.ingest._foresight
        async with asyncio.timeout(50):
            while not foreseen.outcomes["ahead"]:
                backlog()
                await world.until_mirrored(space, *members)
        process = foreseen._process
        assert process is not None

        os.kill(process.pid, signal.SIGSTOP)  # nobody waits for it
        backlog()
        await world.until_mirrored(space, *members)

        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: foreseen._process is None)
        backlog()
        await world.until_mirrored(space, *members)
        assert not foreseen._asked
        assert "never there" not in await world.texts(space)
        assert world.ingest.status()["rejects"]["bad-signature"] >= 3


@pytest.mark.parametrize("end", [Appview.kill, Appview.stop], ids=["kill -9", "SIGTERM"])
async def test_the_process_does_not_outlive_its_appview(
    tmp_path: Path, end: Callable[[Appview], Awaitable[object]]
) -> None:
    async with Network() as network:
        world = World(network, tmp_path / "unused")
        alice, _ = world.authority()
        server = await Appview.start(environment(tmp_path, network.pds[0].url, network.plc.url))
        await server.url()
        try:
            proving: list[int] = []
            async with asyncio.timeout(120):
                while not proving:
                    for _ in range(300):
                        world.remember(alice)
                    await asyncio.sleep(0.5)
                    proving = [each["process"] for each in server.log if each["event"] == "proving ahead"]
        finally:
            await end(server)
        await until(lambda: not _runs(proving[0]))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
