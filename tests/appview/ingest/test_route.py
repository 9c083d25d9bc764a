"""Where records go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from appview.ingest import route as route_module
from appview.ingest.route import (
    Judged,
    RecordChange,
    Stray,
    judge_config,
    judge_memory,
    route_commit,
    targets,
)
from appview.memory.scope import EVERYTHING, NOTHING, Attribute, Scope, Subtree
from appview.memory.values import Delete, Put, Refuse
from lexicons import data
from lexicons.embeddings import Embedding
from lexicons.ids import CONFIG, MEMORY
from lexicons.memories import Memory, read_tags
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.network.synthetic import FIELDS, GOOD_FIELDS, padded, with_raw
from tests.network.synthetic.blocks import encode

ALICE = Did("did:plc:alice")
BOB = Did("did:plc:bob")
GARDEN = SpaceUri.public(ALICE)
SHED = SpaceUri.public(BOB)
MODEL = ModelKey("hashing-4", "sha256:hashing", 4)
RKEY = "3jzfcijpj2z2a"
REV = "3jzfcijpj2z2b"


def record(text: str = "compost is warm", tags: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    memory = Memory(text, "2026-11-30T09:15:00.000Z", Embedding.of(MODEL, (1.0, 0.0, 0.0, 0.0)), tags=tags)
    return {**memory.to_record(), **more}


def change(value: dict[str, Any] | bytes | None, *, existed: bool = False, rkey: str = RKEY) -> RecordChange:
    block = value if isinstance(value, bytes) or value is None else data.encode(value)
    return RecordChange(str(MEMORY), rkey, None if block is None else "bafy" + rkey, block, existed)


def route(*changes: RecordChange, **scopes: Scope) -> dict[SpaceUri, tuple[Any, ...]]:
    chosen = {GARDEN: scopes.get("garden", EVERYTHING), SHED: scopes.get("shed", EVERYTHING)}
    return {space: update.changes for space, update in route_commit(ALICE, REV, "t", changes, chosen).items()}


# Judging a record


def test_a_memory_is_taken_as_it_is() -> None:
    judged = judge_memory(RKEY, "cid", data.encode(record(tags=("/a", "kind=note"), source="somewhere")))
    assert isinstance(judged.change, Put)
    assert (judged.change.memory.text, judged.change.memory.tags) == ("compost is warm", ("/a", "kind=note"))


def test_a_missing_type_is_accepted_and_a_wrong_one_is_not() -> None:
    without = {key: value for key, value in record().items() if key != "$type"}
    assert isinstance(judge_memory(RKEY, "cid", data.encode(without)).change, Put)
    wrong = judge_memory(RKEY, "cid", data.encode({**record(), "$type": "app.bsky.feed.post"})).change
    assert isinstance(wrong, Refuse) and wrong.reason == "record"


@pytest.mark.parametrize(
    "created_at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2126-01-01T00:00:00+14:00"]
)
def test_an_odd_but_valid_date_is_accepted(created_at: str) -> None:
    assert isinstance(judge_memory(RKEY, "cid", data.encode(record(createdAt=created_at))).change, Put)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (record(createdAt="2026-11-30T09:15:00"), "createdAt"),  # without a zone
        (record(text="x" * 30_001), "text"),
        (record(text="e\u0301" * 10_001), "text"),
        (record(tags=["x"] * 17), "tags"),
        (record(tags=["x" * 129]), "tags"),
        ({**record(), "tags": "x"}, "tags"),
        (record(source="x" * 2_001), "source"),
        ({"$type": str(MEMORY)}, ""),
        (record(embedding={**MODEL.to_record(), "encoding": "f16le", "vector": "no bytes"}), "vector"),
        (record(embedding={**MODEL.to_record(), "dims": 0, "encoding": "f16le", "vector": b""}), "dims"),
        (record(embedding={**MODEL.to_record(), "dims": 16_001, "encoding": "f16le", "vector": b""}), "dims"),
        (record(embedding={"$bytes_": "!!!!"}), "embedding"),
    ],
)
def test_a_record_that_breaks_its_lexicon_is_refused(value: dict[str, Any], word: str) -> None:
    refused = judge_memory(RKEY, "cid", data.encode(value)).change
    assert isinstance(refused, Refuse)
    assert refused.reason == "record"
    assert word in refused.detail
    assert len(refused.detail) <= 200


@pytest.mark.parametrize(
    "value",
    [
        record(createdAt="1999-zealous-quince"),
        record(**{"$type": "app.zealous.quince"}),
        record(embedding={**MODEL.to_record(), "model": "zealous-quince" * 20, "encoding": "f16le"}),
        record(embedding={**MODEL.to_record(), "dims": 7_777_777, "encoding": "f16le", "vector": b""}),
        record(tags=["zealous-quince" * 20]),
        record(zealous={"quince": 1.5, "$type": 7_777_777}),
    ],
)
def test_what_may_be_logged_of_a_refused_record_quotes_nothing_of_it(value: dict[str, Any]) -> None:
    refused = judge_memory(RKEY, "cid", encode(value)).change
    assert isinstance(refused, Refuse) and refused.brief
    assert not any(word in refused.brief for word in ("zealous", "quince", "7777777"))


def test_what_may_be_logged_names_the_field_and_sizes() -> None:
    refused = judge_memory(RKEY, "cid", data.encode(record(createdAt="x" * 57))).change
    assert isinstance(refused, Refuse)
    assert refused.brief == "createdAt: not a valid datetime, 57 bytes"
    assert "xxx" in refused.detail


@pytest.mark.parametrize("length", [30_000])
def test_a_text_at_its_limit_is_taken(length: int) -> None:
    assert isinstance(
        judge_memory(RKEY, "cid", data.encode(record(text="ab cd " * (length // 6)))).change, Refuse | Put
    )


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\xff",
        b"\xa1atx",
        b"\x80",  # a list
        b"\xa1aa\xfb?\xf0\x00\x00\x00\x00\x00\x00",  # a float
        b"\xa1aa\x1b\xff\xff\xff\xff\xff\xff\xff\xff",  # 2**64 - 1
        b"\xa1f$bytesd!!!!",
        b"\xa1ab\x58\x02x",  # cut off
    ],
)
def test_what_is_no_record_is_refused(block: bytes) -> None:
    refused = judge_memory(RKEY, "cid", block).change
    assert isinstance(refused, Refuse) and refused.reason == "record"


@pytest.mark.parametrize("name", FIELDS)
def test_one_bad_field_makes_a_good_record_be_refused_and_says_why(name: str) -> None:
    field, raw, word = FIELDS[name]
    refused = judge_memory(RKEY, "cid", with_raw(record(), field, raw)).change
    assert isinstance(refused, Refuse) and refused.reason == "record"
    assert word in refused.detail


@pytest.mark.parametrize("name", GOOD_FIELDS)
def test_an_integer_of_up_to_64_bits_is_taken(name: str) -> None:
    assert isinstance(judge_memory(RKEY, "cid", with_raw(record(), *GOOD_FIELDS[name])).change, Put)


def test_a_record_of_a_megabyte_is_taken_and_one_byte_more_is_not() -> None:
    assert isinstance(judge_memory(RKEY, "cid", padded(record(), 1_000_000)).change, Put)
    refused = judge_memory(RKEY, "cid", padded(record(), 1_000_001)).change
    assert isinstance(refused, Refuse)
    assert refused.detail == "a record of 1000001 bytes, at most 1000000"


@pytest.mark.parametrize("text", ["", " ", "\n\t\u00a0\u3000"])
def test_a_blank_text_is_refused_as_blank(text: str) -> None:
    refused = judge_memory(RKEY, "cid", data.encode(record(text=text))).change
    assert isinstance(refused, Refuse) and refused.reason == "blank"


def test_a_nul_in_a_text_is_text() -> None:
    assert isinstance(judge_memory(RKEY, "cid", data.encode(record(text="a\x00b"))).change, Put)


def test_a_record_key_that_is_no_tid_is_refused() -> None:
    refused = judge_memory("self", "cid", data.encode(record())).change
    assert isinstance(refused, Refuse) and refused.reason == "record"


# Choosing spaces


def test_a_memory_goes_wherever_its_author_may_write() -> None:
    made = route(change(record()))
    assert set(made) == {GARDEN, SHED}
    assert all(isinstance(changes[0], Put) for changes in made.values())


def test_a_record_that_many_keys_name_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[bytes] = []

    def judging(block: bytes) -> Judged:
        judged.append(block)
        return judge(block)

    judge = route_module.judge_bytes
    monkeypatch.setattr(route_module, "judge_bytes", judging)
    block = data.encode(record())
    keys = ["3jzfcijpj2z2a", "3jzfcijpj2z2b", "self", "3jzfcijpj2z2c"]
    changes = [RecordChange(MEMORY, key, "cid", block, False) for key in keys]
    made = route(*changes, **{GARDEN: EVERYTHING})[GARDEN]
    assert [(each.rkey, type(each)) for each in made] == [
        (key, Refuse if key == "self" else Put) for key in keys
    ]
    assert judged == [block]


def test_a_space_tag_narrows_to_one_space() -> None:
    assert set(route(change(record(tags=(f"space={BOB}",))))) == {SHED}


@pytest.mark.parametrize("tag", ["space=did:plc:stranger", "space=nonsense", "space="])
def test_a_space_tag_that_names_no_space_goes_nowhere(tag: str) -> None:
    assert route(change(record(tags=(tag,)))) == {}


def test_paths_and_attributes_decide_what_may_be_written() -> None:
    notes = Scope(allow=frozenset({Subtree("/notes")}))
    assert set(route(change(record(tags=("/notes/today",))), garden=notes, shed=NOTHING)) == {GARDEN}
    assert set(route(change(record(tags=("/plans",))), garden=notes)) == {SHED}
    drafts = Scope(allow=frozenset({Attribute("kind", "draft")}))
    assert set(route(change(record(tags=("kind=draft",))), garden=drafts, shed=NOTHING)) == {GARDEN}


def test_the_author_is_the_owner_whatever_the_record_claims() -> None:
    own = Scope(allow=frozenset({Attribute("owner", str(ALICE))}))
    assert targets(ALICE, read_tags((f"owner={BOB}",)), {GARDEN: own}) == {GARDEN}
    others = Scope(allow=frozenset({Attribute("owner", str(BOB))}))
    assert targets(ALICE, read_tags((f"owner={BOB}",)), {GARDEN: others}) == frozenset()


def test_where_rules_speak_of_attributes_the_space_decides() -> None:
    trusted = Scope(allow=frozenset({Attribute("trust", "high")}))
    assert targets(ALICE, read_tags(("/a",)), {GARDEN: trusted}) == {GARDEN}
    (update,) = route_commit(ALICE, "3l", None, [change(record(tags=("/a",)))], {GARDEN: trusted}).values()
    assert update.scope == trusted


def test_an_update_that_leaves_a_space_is_a_delete_there() -> None:
    made = route(change(record(tags=(f"space={BOB}",)), existed=True))
    assert made[GARDEN] == (Delete(RKEY),)
    assert isinstance(made[SHED][0], Put)


def test_a_deleted_record_is_deleted_everywhere() -> None:
    assert route(change(None, existed=True)) == {GARDEN: (Delete(RKEY),), SHED: (Delete(RKEY),)}


def test_a_refused_record_is_counted_where_it_would_have_gone() -> None:
    made = route(change({**record(tags=(f"space={BOB}",)), "createdAt": "never"}))
    assert set(made) == {SHED}
    assert set(route(change(b"\xff"))) == {GARDEN, SHED}


def test_records_of_other_collections_go_nowhere() -> None:
    other = RecordChange("app.bsky.feed.post", RKEY, "cid", data.encode(record()))
    assert route(other) == {}


# Config records


def config(block: bytes | None, rkey: str = "self") -> RecordChange:
    return RecordChange(str(CONFIG), rkey, None if block is None else "cid", block)


def test_a_config_record_gives_the_config_of_its_author() -> None:
    value = {**MODEL.to_record(), "createdAt": "2026-11-30T09:15:00.000Z"}
    read = judge_config(BOB, REV, config(data.encode(value)))
    assert read is not None and read.config is not None
    assert (read.author, read.config.model, read.problem) == (BOB, MODEL, "")


def test_a_config_under_another_key_is_none() -> None:
    assert judge_config(BOB, REV, config(data.encode(MODEL.to_record()), rkey="other")) is None


@pytest.mark.parametrize(
    "block", [b"\xff", data.encode({"model": "m"}), data.encode({**MODEL.to_record(), "createdAt": 5})]
)
def test_a_config_that_is_not_valid_is_told(block: bytes) -> None:
    read = judge_config(BOB, REV, config(block))
    assert read is not None and read.config is None and read.problem


def test_a_deleted_config_is_no_problem() -> None:
    read = judge_config(BOB, REV, config(None))
    assert read is not None and (read.config, read.cid, read.problem) == (None, None, "")


@pytest.mark.parametrize(
    ("tag", "counted"),
    [
        ("space=junk", {"no DID": 1}),
        ("space=", {"no DID": 1}),
        ("space=did:plc:elsewhere", {"no space that takes it": 1}),
        (f"space={BOB}", {"no space that takes it": 1}),
        (f"space={ALICE}", {}),
        ("kind=note", {}),
    ],
)
def test_a_memory_that_its_own_tag_keeps_out_of_every_space_is_counted(
    tag: str, counted: dict[str, int]
) -> None:
    strays: Counter[Stray] = Counter()
    changes = [change(record(tags=(tag,)))]
    scopes = {GARDEN: EVERYTHING, SHED: Scope(allow=frozenset({Subtree("/elsewhere")}))}
    route_commit(ALICE, REV, "t", changes, scopes, strays)
    assert strays == counted
