"""Every memory is published once and only once, whatever the network and the PDS do."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest

from embedders.hashing import HashingEmbedder
from lexicons.hashing import embed, model_key
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY
from lexicons.memories import Memory
from publisher.drafts import Draft
from publisher.errors import (
    Conflict,
    ModelTrouble,
    NotFound,
    PublisherError,
    Refused,
    RefusedByPds,
    Temporary,
    TooManyRequests,
)
from publisher.publisher import Publisher
from publisher.repo import Committed, cid_of_value
from publisher.retry import RetryPolicy
from tests.publisher.fake_pds import DID, HANDLE, PASSWORD, FakePds, Fault

if TYPE_CHECKING:
    from lexicons.models import ModelKey
    from publisher.settings import Settings
    from publisher.writing import Outcome
    from tests.publisher.conftest import Waits

ATTEMPTS = RetryPolicy().attempts


async def outcomes_of(publisher: Publisher, drafts: list[Any], **options: Any) -> list[Outcome]:
    return [outcome async for outcome in publisher.remember_many(drafts, **options)]


async def test_what_is_published_is_what_the_contract_says(publisher: Publisher, pds: FakePds) -> None:
    done = await publisher.remember("Tomatoes want sun", tags=["/garden", "kind=fact", "x"], source="a book")
    [((collection, rkey), (cid, value))] = [each for each in pds.records.items() if each[0][0] == MEMORY]
    assert done == Committed(f"at://{DID}/{collection}/{rkey}", cid, pds.rev)
    memory = Memory.from_record(value)
    assert (memory.text, memory.tags, memory.source) == (
        "Tomatoes want sun",
        ("/garden", "kind=fact", "x"),
        "a book",
    )
    assert memory.embedding.key == model_key(16)
    expected = embed("Tomatoes want sun\n\nTags: /garden, kind=fact, x", 16)
    assert memory.embedding.unit_vector() == pytest.approx(expected, abs=1e-3)
    assert memory.created_at.endswith("Z") and memory.next_embedding is None


@pytest.mark.parametrize(
    "fault",
    [
        Fault(lose="before"),
        Fault(lose="after"),
        Fault(status=500),
        Fault(status=502),
        Fault(status=429, headers={"Retry-After": "3"}),
        Fault(body=b"<html>"),
    ],
    ids=["lost before", "lost after", "500", "502", "429", "damaged"],
)
@pytest.mark.parametrize("times", [1, 2])
async def test_a_failing_create_ends_in_one_record(
    publisher: Publisher, pds: FakePds, fault: Fault, times: int
) -> None:
    pds.faults["createRecord"] = [fault] * times
    done = await publisher.remember("only once")
    assert pds.texts() == ["only once"]
    found = pds.records[MEMORY, done.uri.rsplit("/", 1)[1]]
    assert done == Committed(done.uri, found[0], pds.rev)


@pytest.mark.parametrize("lose", ["before", "after"])
async def test_a_failing_batch_ends_in_one_record_each(publisher: Publisher, pds: FakePds, lose: Any) -> None:
    pds.faults["applyWrites"] = [Fault(lose=lose)]
    outcomes = await outcomes_of(publisher, [Draft("one"), Draft("two"), Draft("three")])
    assert sorted(pds.texts()) == ["one", "three", "two"]
    for outcome in outcomes:
        assert outcome.committed is not None
        assert outcome.committed.cid == pds.records[MEMORY, outcome.committed.uri.rsplit("/", 1)[1]][0]


async def test_a_pds_that_stays_away_is_a_temporary_error(
    publisher: Publisher, pds: FakePds, waits: Waits
) -> None:
    pds.faults["createRecord"] = [Fault(status=503)] * 20
    with pytest.raises(Temporary, match="503") as caught:
        await publisher.remember("never")
    assert caught.value.retryable and caught.value.exit_code == 6
    assert f"may have been published after all, as at://{DID}/{MEMORY}/" in caught.value.hint
    assert pds.count("createRecord") == ATTEMPTS and len(waits) == ATTEMPTS - 1


async def test_a_refusal_is_not_repeated(publisher: Publisher, pds: FakePds) -> None:
    pds.faults["createRecord"] = [Fault(status=400, error="InvalidRequest")]
    with pytest.raises(RefusedByPds, match="InvalidRequest: told to"):
        await publisher.remember("no")
    assert pds.count("createRecord") == 1


async def test_the_pds_is_believed_when_it_names_a_time(
    publisher: Publisher, pds: FakePds, waits: Waits
) -> None:
    date = formatdate(time.time() + 40, usegmt=True)
    pds.faults["createRecord"] = [
        Fault(status=429, headers={"Retry-After": "30"}),
        Fault(status=429, headers={"Retry-After": date}),
        Fault(status=429, headers={"RateLimit-Reset": str(int(time.time()) + 50)}),
    ]
    await publisher.remember("patience")
    assert [round(wait, -1) for wait in waits] == [30, 40, 50]


async def test_a_pause_longer_than_allowed_is_the_callers_to_decide(
    publisher: Publisher, pds: FakePds
) -> None:
    pds.faults["createRecord"] = [Fault(status=429, headers={"Retry-After": "61"})]
    with pytest.raises(TooManyRequests, match="429") as caught:
        await publisher.remember("later")
    assert caught.value.seconds == 61 and caught.value.exit_code == 6
    assert pds.count("createRecord") == 1


async def test_writing_slows_down_before_it_is_told_off(
    publisher: Publisher, pds: FakePds, waits: Waits
) -> None:
    reset = str(int(time.time()) + 20)
    pds.headers = {"RateLimit-Remaining": "2", "RateLimit-Reset": reset}
    await publisher.remember("one")
    pds.headers = {}
    await publisher.remember("two")
    assert len(waits) == 1 and 15 < waits[0] <= 20
    pds.headers = {"RateLimit-Remaining": "0", "RateLimit-Reset": str(int(time.time()) + 3600)}
    await publisher.remember("three")
    with pytest.raises(TooManyRequests, match="no more writes"):
        await publisher.remember("four")
    assert pds.texts() == ["one", "two", "three"]


async def test_a_batch_is_no_larger_than_what_is_left(publisher: Publisher, pds: FakePds) -> None:
    pds.headers = {"RateLimit-Remaining": "30", "RateLimit-Reset": str(int(time.time()) + 20)}
    await publisher.remember("first")
    outcomes = await outcomes_of(publisher, [Draft(f"number {index}") for index in range(25)])
    assert pds.batches == [10, 10, 5]
    assert all(outcome.committed for outcome in outcomes)


async def test_batches_hold_at_most_200_and_fit_a_request(publisher: Publisher, pds: FakePds) -> None:
    outcomes = await outcomes_of(publisher, [Draft(f"short {index}") for index in range(401)])
    assert [outcome.index for outcome in outcomes] == list(range(401))
    assert pds.batches == [200, 200] and pds.count("createRecord") == 1
    pds.batches.clear()
    await outcomes_of(publisher, [Draft("長" * 6600 + str(index)) for index in range(20)])
    assert pds.batches == [6, 6, 6, 2], "20 kB each, in requests of 140 kB"


async def test_a_batch_that_is_too_large_is_halved(publisher: Publisher, pds: FakePds) -> None:
    pds.body_limit = 2000
    outcomes = await outcomes_of(publisher, [Draft(f"number {index}") for index in range(9)])
    assert all(outcome.committed for outcome in outcomes) and len(pds.texts()) == 9
    assert [outcome.index for outcome in outcomes] == list(range(9))


@pytest.mark.parametrize("status", [404, 501])
async def test_a_pds_without_batches_gets_one_at_a_time(
    publisher: Publisher, pds: FakePds, status: int
) -> None:
    pds.faults["applyWrites"] = [Fault(status=status, error="MethodNotImplemented")]
    outcomes = await outcomes_of(publisher, [Draft(f"number {index}") for index in range(5)])
    assert all(outcome.committed for outcome in outcomes)
    await outcomes_of(publisher, [Draft("six"), Draft("seven")])
    assert pds.count("applyWrites") == 1 and pds.count("createRecord") == 7


async def test_one_memory_that_is_refused_does_not_take_the_others_with_it(
    publisher: Publisher, pds: FakePds
) -> None:
    pds.refused_texts = {"bad"}
    drafts = [Draft("one"), Draft("bad"), Refused("not JSON"), Draft(" "), Draft("two")]
    outcomes = await outcomes_of(publisher, drafts)
    assert pds.texts() == ["one", "two"]
    told = [type(outcome.error).__name__ if outcome.error else "done" for outcome in outcomes]
    assert told == ["done", "RefusedByPds", "Refused", "Refused", "done"]


async def test_what_meets_every_memory_is_not_tried_again(publisher: Publisher, pds: FakePds) -> None:
    pds.faults["applyWrites"] = [Fault(status=503)] * 50
    drafts = [Draft(f"number {index}") for index in range(450)]
    outcomes = await outcomes_of(publisher, drafts)
    assert len(outcomes) == 450 and {type(outcome.error) for outcome in outcomes} == {Temporary}
    assert pds.count("applyWrites") == ATTEMPTS
    tried = [outcome for outcome in outcomes if "after all" in outcome.error.hint]  # type: ignore[union-attr]
    assert [outcome.index for outcome in tried] == list(range(200)), "only the first commit was sent"


async def test_a_record_key_of_ones_own_makes_a_repetition_safe(publisher: Publisher, pds: FakePds) -> None:
    draft: dict[str, Any] = {"created_at": "2026-11-30T09:15:00.000Z", "rkey": "3n3j4yb7fdvmh"}
    first = await publisher.remember("once", **draft)
    again = await publisher.remember("once", **draft)
    assert (first.uri, first.cid) == (again.uri, again.cid) and pds.texts() == ["once"]
    with pytest.raises(Conflict, match="exists already"):
        await publisher.remember("something else", **draft)
    assert pds.texts() == ["once"]
    outcomes = await outcomes_of(publisher, [Draft("once", **draft), Draft("twice")])
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert sorted(pds.texts()) == ["once", "twice"]


async def test_an_update_keeps_what_it_does_not_change(publisher: Publisher, pds: FakePds) -> None:
    done = await publisher.remember("old", tags=["a"], source="s")
    key = (MEMORY, done.uri.rsplit("/", 1)[1])
    pds.records[key][1]["somebodyElses"] = 7
    pds.records[key] = (done.cid, pds.records[key][1])
    created = pds.records[key][1]["createdAt"]
    changed = await publisher.update(done.uri, text="new")
    value = pds.records[key][1]
    assert (value["text"], value["tags"], value["source"], value["createdAt"]) == ("new", ["a"], "s", created)
    assert value["somebodyElses"] == 7
    assert Memory.from_record(value).embedding.unit_vector() == pytest.approx(
        embed("new\n\nTags: a", 16), abs=1e-3
    )
    assert changed.cid == pds.records[key][0] != done.cid
    await publisher.update(key[1], tags=[], source="")
    assert "tags" not in pds.records[key][1] and "source" not in pds.records[key][1]


@pytest.mark.parametrize("call", ["putRecord", "deleteRecord"])
async def test_a_change_never_goes_over_another_ones(publisher: Publisher, pds: FakePds, call: str) -> None:
    done = await publisher.remember("old")
    key = (MEMORY, done.uri.rsplit("/", 1)[1])
    theirs = {**pds.records[key][1], "text": "changed by somebody else"}

    def change() -> None:
        pds.records[key] = (cid_of_value(theirs), theirs)

    pds.meanwhile[call] = change
    with pytest.raises(Conflict, match="changed meanwhile"):
        await (publisher.update(done.uri, text="new") if call == "putRecord" else publisher.forget(done.uri))
    assert pds.texts() == ["changed by somebody else"]


async def test_a_config_never_goes_over_another_ones(publisher: Publisher, pds: FakePds) -> None:
    theirs = {**pds.records[CONFIG, CONFIG_RKEY][1], "documentPrefix": "theirs"}
    pds.meanwhile["putRecord"] = lambda: pds.records.update(
        {(CONFIG, CONFIG_RKEY): (cid_of_value(theirs), theirs)}
    )
    with pytest.raises(Conflict):
        await publisher.set_model(document_prefix="ours")
    assert pds.records[CONFIG, CONFIG_RKEY][1] == theirs


@pytest.mark.parametrize("lose", ["before", "after"])
async def test_a_lost_update_is_done_once(publisher: Publisher, pds: FakePds, lose: Any) -> None:
    done = await publisher.remember("old")
    pds.faults["putRecord"] = [Fault(lose=lose)]
    changed = await publisher.update(done.uri, text="new")
    assert pds.texts() == ["new"] and changed.rev == pds.rev


@pytest.mark.parametrize("lose", ["before", "after"])
async def test_a_lost_forget_is_done_once(publisher: Publisher, pds: FakePds, lose: Any) -> None:
    done = await publisher.remember("old")
    pds.faults["deleteRecord"] = [Fault(lose=lose)]
    gone = await publisher.forget(done.uri)
    assert pds.texts() == [] and gone == Committed(done.uri, done.cid, pds.rev)
    with pytest.raises(NotFound):
        await publisher.forget(done.uri)


@pytest.mark.parametrize(
    ("draft", "told"),
    [
        (Draft("x" * 30_001), r"30001 bytes, at most 30000"),
        (Draft("é" * 10_001), r"10001 graphemes, at most 10000"),
        (Draft(" \n\t"), "blank"),
        (Draft("x", tuple("abcdefghijklmnopq")), "17 tags, at most 16"),
        (Draft("x", ("t" * 129,)), "129 bytes, at most 128"),
        (Draft("x", ("é" * 64 + "e",)), "129 bytes|65 graphemes"),
        (Draft("x", ("owner=did:plc:x",)), "owner"),
        (Draft("x", ("trust=high",)), "trust"),
        (Draft("x", source="s" * 2001), "2001 bytes, at most 2000"),
        (Draft("\ud800"), "surrogate"),
        (Draft("x", created_at="yesterday"), "datetime"),
        (Draft("x", rkey="self"), "TID"),
    ],
)
async def test_what_breaks_a_limit_is_refused_before_anything_is_spent(
    settings: Settings, pds: FakePds, draft: Draft, told: str
) -> None:
    class Untouchable(HashingEmbedder):
        async def key(self) -> ModelKey:
            raise AssertionError("nothing may be embedded")

    async with Publisher(
        settings=settings, embedder=Untouchable(16), identifier=DID, password=PASSWORD
    ) as opened:
        before = len(pds.calls)
        with pytest.raises(Refused, match=told):
            await opened.remember(
                draft.text,
                tags=draft.tags,
                source=draft.source,
                created_at=draft.created_at,
                rkey=draft.rkey,
            )
        assert len(pds.calls) == before


@pytest.mark.parametrize(
    "draft",
    [
        Draft("長" * 10_000),  # 30,000 bytes and 10,000 graphemes
        Draft("x", tuple("abcdefghijklmnop")),
        Draft("x", ("é" * 64,)),  # 128 bytes and 64 graphemes
        Draft("x", source="s" * 2000),
        Draft("a\0b\x1b[31m"),
    ],
)
async def test_what_keeps_to_the_limits_is_published(publisher: Publisher, draft: Draft) -> None:
    assert (await publisher.remember(draft.text, tags=draft.tags, source=draft.source)).rev


async def test_another_model_than_the_spaces_writes_nothing(settings: Settings, pds: FakePds) -> None:
    async with Publisher(
        settings=settings, embedder="hashing-32", identifier=DID, password=PASSWORD
    ) as opened:
        with pytest.raises(ModelTrouble, match=r"hashing-16.*hashing-32") as caught:
            await opened.remember("no")
        assert caught.value.exit_code == 5
        [outcome] = await outcomes_of(opened, [Draft("no")])
        assert isinstance(outcome.error, ModelTrouble)
    assert pds.texts() == [] and pds.count("createRecord") == 0


async def test_a_space_without_a_model_is_not_found(publisher: Publisher, pds: FakePds) -> None:
    del pds.records[CONFIG, CONFIG_RKEY]
    with pytest.raises(NotFound, match="declares no model"):
        await publisher.remember("no")
    [outcome] = await outcomes_of(publisher, [Draft("no")])
    assert isinstance(outcome.error, NotFound)


async def test_a_memory_can_be_kept_to_one_space(publisher: Publisher, pds: FakePds) -> None:
    await publisher.remember("narrow", tags=["a"], narrow=True)
    assert [value["tags"] for _, value in pds.records.values() if "text" in value] == [["a", f"space={DID}"]]
    with pytest.raises(Refused, match="another space"):
        await publisher.remember("narrow", tags=["space=did:plc:other"], narrow=True)
    with pytest.raises(Refused, match="17 tags"):
        await publisher.remember("narrow", tags=list("abcdefghijklmnop"), narrow=True)


async def test_both_vectors_are_written_while_the_model_changes(settings: Settings, pds: FakePds) -> None:
    async with Publisher(
        settings=settings, next_embedder="hashing-32", identifier=DID, password=PASSWORD
    ) as opened:
        await opened.remember("before")
        config, _ = await opened.next_model()
        assert config.next == model_key(32)
        await opened.remember("during")
        config, _ = await opened.promote_model(force=True)
        assert config.model == model_key(32) and config.next is None
        await opened.remember("after")
    memories = {
        value["text"]: Memory.from_record(value) for _, value in pds.records.values() if "text" in value
    }
    keys = {
        text: (memory.embedding.key.dims, memory.next_embedding and memory.next_embedding.key.dims)
        for text, memory in memories.items()
    }
    assert keys == {"before": (16, None), "during": (16, 32), "after": (32, None)}


async def test_a_wrong_second_model_writes_nothing_either(settings: Settings, pds: FakePds) -> None:
    async with Publisher(
        settings=settings, next_embedder="hashing-32", identifier=DID, password=PASSWORD
    ) as one:
        await one.next_model()
    async with Publisher(
        settings=settings, next_embedder="hashing-64", identifier=DID, password=PASSWORD
    ) as two:
        with pytest.raises(ModelTrouble, match=r"next model is hashing-32.*hashing-64"):
            await two.remember("no")
        await two.cancel_model()
        with pytest.raises(Refused, match="no next model"):
            await two.promote_model()
        with pytest.raises(Refused, match="no next model"):
            await two.cancel_model()
    assert pds.texts() == []


async def test_another_model_is_not_replaced_by_accident(settings: Settings, pds: FakePds) -> None:
    async with Publisher(
        settings=settings, embedder="hashing-32", identifier=DID, password=PASSWORD
    ) as opened:
        with pytest.raises(Refused, match="would not be found"):
            await opened.set_model()
        config, done = await opened.set_model(replace_model=True, document_prefix="d: ", query_prefix="q: ")
        assert config.model == model_key(32)
        assert pds.records[CONFIG, CONFIG_RKEY][0] == done.cid
        await opened.remember("prefixed")
    [memory] = [Memory.from_record(value) for _, value in pds.records.values() if "text" in value]
    assert memory.embedding.unit_vector() == pytest.approx(embed("d: prefixed", 32), abs=1e-3)


async def test_a_handle_must_be_named_by_the_document_too(publisher: Publisher, pds: FakePds) -> None:
    pds._resolveHandle = lambda request, body: {"did": DID}  # type: ignore[attr-defined]
    async with Publisher(
        settings=publisher._settings, space=HANDLE, identifier=DID, password=PASSWORD
    ) as right:
        assert (await right.space()).authority.handle == HANDLE
    async with Publisher(
        settings=publisher._settings, space="liar.test", identifier=DID, password=PASSWORD
    ) as wrong:
        with pytest.raises(NotFound, match="does not name it"):
            await wrong.space()


@pytest.mark.parametrize(
    "endpoint", ["http://192.0.2.1", "https://10.0.0.1", "https://host/path", "ftp://x.y"]
)
async def test_a_document_cannot_send_us_just_anywhere(
    settings: Settings, pds: FakePds, endpoint: str
) -> None:
    pds.endpoint = endpoint
    async with Publisher(settings=settings, space=DID) as opened:
        with pytest.raises(PublisherError, match="the PDS of did:plc:"):
            await opened.space()
