"""A change of model loses no memory unasked; a memory gets its missing vectors without losing a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lexicons.hashing import embed, model_key
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY
from lexicons.memories import Memory
from publisher.drafts import Draft
from publisher.errors import Conflict, ModelTrouble, NotSignedIn, Refused, Temporary
from publisher.publisher import Publisher
from publisher.reembedding import Coverage, Reembedded
from publisher.repo import cid_of_value
from tests.publisher.fake_pds import DID, PASSWORD, FakePds, Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from publisher.settings import Settings
    from tests.publisher.conftest import Waits


@pytest.fixture
async def both(settings: Settings, waits: Waits) -> AsyncIterator[Publisher]:
    """A publisher with both models, `hashing-16` and `hashing-32`."""
    async with Publisher(
        settings=settings, next_embedder="hashing-32", identifier=DID, password=PASSWORD, sleep=waits
    ) as opened:
        yield opened


async def older(publisher: Publisher, pds: FakePds, count: int = 3) -> None:
    """Publish memories, then announce the next model."""
    drafts = [Draft(f"memory {index}", tags=("/old",), source="a book") for index in range(count)]
    assert all([outcome.committed async for outcome in publisher.remember_many(drafts)])
    await publisher.next_model()
    pds.calls.clear()
    pds.batches.clear()


async def run(publisher: Publisher) -> list[Reembedded]:
    return [outcome async for outcome in publisher.reembed()]


def states(outcomes: list[Reembedded]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def stored(pds: FakePds) -> list[Memory]:
    found = [value for (collection, _), (_, value) in pds.records.items() if collection == MEMORY]
    return [Memory.from_record(value) for value in found if "embedding" in value]


def key_of_first(pds: FakePds) -> str:
    return min(rkey for collection, rkey in pds.records if collection == MEMORY)


def overwrite(pds: FakePds, rkey: str, **fields: Any) -> None:
    value = {**pds.records[MEMORY, rkey][1], **fields}
    pds.records[MEMORY, rkey] = (cid_of_value(value), value)
    pds._commit()


async def test_promoting_is_refused_while_memories_of_ones_own_would_be_lost(
    both: Publisher, pds: FakePds
) -> None:
    await older(both, pds)
    await both.remember("published during the change")
    before = pds.records[CONFIG, CONFIG_RKEY]
    with pytest.raises(Refused, match=r"3 of this account's 4 memories have no vector of hashing-32") as told:
        await both.promote_model()
    assert "engram-publisher reembed" in told.value.hint and "--force" in told.value.hint
    assert pds.records[CONFIG, CONFIG_RKEY] == before
    assert await both.coverage() == Coverage(model_key(32), 4, 3)
    config, _ = await both.promote_model(force=True)
    assert config.model == model_key(32)
    assert await both.coverage() == Coverage(model_key(32), 4, 3)


async def test_reembedding_adds_the_next_vector_and_keeps_the_rest(both: Publisher, pds: FakePds) -> None:
    await older(both, pds)
    overwrite(pds, key_of_first(pds), unknown={"of": "another program"})
    before = {memory.text: memory for memory in stored(pds)}
    outcomes = await run(both)
    assert states(outcomes) == ["done"] * 3 and pds.batches == [3]
    assert pds.records[MEMORY, key_of_first(pds)][1]["unknown"] == {"of": "another program"}
    for memory in stored(pds):
        was = before[memory.text]
        assert (memory.embedding, memory.tags, memory.source, memory.created_at) == (
            was.embedding,
            was.tags,
            was.source,
            was.created_at,
        )
        assert memory.next_embedding is not None and memory.next_embedding.key == model_key(32)
        expected = embed(f"{memory.text}\n\nTags: /old", 32)
        assert memory.next_embedding.unit_vector() == pytest.approx(expected, abs=1e-3)
    for outcome in outcomes:
        assert outcome.committed is not None and outcome.committed.uri == outcome.uri
        assert outcome.committed.cid == pds.records[MEMORY, outcome.uri.rsplit("/", 1)[1]][0]
    config, _ = await both.promote_model()
    assert config.model == model_key(32)


async def test_what_has_every_vector_is_left_alone(both: Publisher, pds: FakePds) -> None:
    await older(both, pds)
    assert states(await run(both)) == ["done"] * 3
    revision = pds.rev
    assert states(await run(both)) == ["already"] * 3 and pds.rev == revision


async def test_memories_of_an_old_model_are_brought_back(both: Publisher, pds: FakePds) -> None:
    await older(both, pds)
    await both.promote_model(force=True)
    assert states(await run(both)) == ["done"] * 3
    assert {memory.embedding.key for memory in stored(pds)} == {model_key(32)}
    assert {memory.next_embedding for memory in stored(pds)} == {None}


async def test_a_vector_that_cannot_be_used_counts_as_missing(both: Publisher, pds: FakePds) -> None:
    await older(both, pds, 1)
    await run(both)
    [memory] = stored(pds)
    assert memory.next_embedding is not None
    broken = {**memory.next_embedding.to_record(), "vector": bytes(64)}
    overwrite(pds, key_of_first(pds), nextEmbedding=broken)
    assert (await both.coverage()).lacking == 1
    assert states(await run(both)) == ["done"]
    assert (await both.coverage()).lacking == 0


async def test_what_is_not_for_the_space_is_neither_counted_nor_changed(
    both: Publisher, pds: FakePds
) -> None:
    await both.remember("for another space", tags=["space=did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"])
    await both.remember("for this one alone", narrow=True)
    await both.remember("to be damaged")
    await both.next_model()
    last = max(rkey for collection, rkey in pds.records if collection == MEMORY)
    overwrite(pds, last, text="\u200b")
    assert (await both.coverage()) == Coverage(model_key(32), 1, 1)
    assert states(await run(both)) == ["unfit", "done", "elsewhere"]


async def test_every_page_is_gone_through(both: Publisher, pds: FakePds) -> None:
    await older(both, pds, 230)
    outcomes = await run(both)
    assert states(outcomes) == ["done"] * 230
    assert len({outcome.uri for outcome in outcomes}) == 230 and pds.count("listRecords") <= 4
    assert (await both.coverage()) == Coverage(model_key(32), 230, 0)


@pytest.mark.parametrize("call", ["listRecords", "applyWrites"])
async def test_a_change_by_somebody_else_is_never_written_over(
    both: Publisher, pds: FakePds, call: str
) -> None:
    await older(both, pds)
    rkey = key_of_first(pds)
    changes = iter([lambda: overwrite(pds, rkey, text="changed meanwhile")])
    # Before the page is read the change is seen; between reading and writing it must be noticed.
    pds.meanwhile[call] = lambda: next(changes, lambda: None)()
    outcomes = await run(both)
    assert pds.records[MEMORY, rkey][1]["text"] == "changed meanwhile"
    assert states(outcomes)[:2] == ["done", "done"]
    if call == "applyWrites":
        assert states(outcomes)[2] == "failed" and isinstance(outcomes[2].error, Conflict)
    again = await run(both)
    assert set(states(again)) <= {"already", "done"}
    assert all(memory.next_embedding is not None for memory in stored(pds))
    last = Memory.from_record(pds.records[MEMORY, rkey][1])
    assert last.next_embedding is not None


@pytest.mark.parametrize("lose", ["before", "after"])
async def test_a_lost_answer_is_looked_up(both: Publisher, pds: FakePds, lose: Any) -> None:
    await older(both, pds)
    pds.faults["applyWrites"] = [Fault(lose=lose)]
    outcomes = await run(both)
    assert states(outcomes) == ["done"] * 3 and pds.batches == [3]
    assert {outcome.committed.cid for outcome in outcomes if outcome.committed} == {
        cid for (collection, _), (cid, _) in pds.records.items() if collection == MEMORY
    }


async def test_a_batch_that_is_too_large_is_halved(both: Publisher, pds: FakePds) -> None:
    await older(both, pds, 8)
    pds.faults["applyWrites"] = [Fault(status=413, error="PayloadTooLarge")]
    assert states(await run(both)) == ["done"] * 8 and pds.batches == [4, 4]


async def test_a_pds_without_batches_gets_one_at_a_time(both: Publisher, pds: FakePds) -> None:
    await older(both, pds, 120)
    pds.faults["applyWrites"] = [Fault(status=501, error="MethodNotImplemented")]
    assert states(await run(both)) == ["done"] * 120
    assert pds.count("applyWrites") == 1 and pds.count("putRecord") == 120


async def test_one_memory_that_is_refused_does_not_take_the_others_with_it(
    both: Publisher, pds: FakePds
) -> None:
    await older(both, pds)
    pds.refused_texts.add("memory 1")
    outcomes = await run(both)
    assert states(outcomes) == ["done", "failed", "done"]
    pds.refused_texts.clear()
    assert states(await run(both)) == ["already", "done", "already"]


async def test_what_meets_every_memory_ends_the_run(both: Publisher, pds: FakePds) -> None:
    await older(both, pds, 120)
    pds.faults["applyWrites"] = [Fault(status=503)] * 20
    outcomes = await run(both)
    assert states(outcomes) == ["failed"] * 100
    assert all(isinstance(outcome.error, Temporary) for outcome in outcomes)
    pds.faults.clear()
    assert states(await run(both)) == ["done"] * 120


async def test_a_model_that_is_not_configured_writes_nothing(
    both: Publisher, settings: Settings, pds: FakePds
) -> None:
    await older(both, pds)
    revision = pds.rev
    async with Publisher(settings=settings, identifier=DID, password=PASSWORD) as one:
        outcomes = await run(one)
    assert states(outcomes) == ["failed"] * 3 and pds.rev == revision
    assert all(isinstance(outcome.error, ModelTrouble) for outcome in outcomes)
    assert outcomes[0].error is not None and "--next-embedder" in outcomes[0].error.hint


async def test_the_present_model_need_not_be_at_hand_for_the_next_ones_vectors(
    both: Publisher, settings: Settings, pds: FakePds
) -> None:
    await older(both, pds)
    async with Publisher(settings=settings, embedder="hashing-32", identifier=DID, password=PASSWORD) as one:
        assert states(await run(one)) == ["done"] * 3
        with pytest.raises(ModelTrouble):
            await one.remember("needs both")


async def test_the_same_model_is_no_next_one(publisher: Publisher) -> None:
    with pytest.raises(Refused, match="same as the present one: hashing-16") as told:
        await publisher.next_model()
    assert "--next-embedder" in told.value.hint and "--embedder" in told.value.hint


async def test_without_a_session_nothing_is_read(settings: Settings) -> None:
    async with Publisher(settings=settings) as nobody:
        with pytest.raises(NotSignedIn):
            await run(nobody)
