"""The lexicons of this project: every limit of the records and queries from both sides."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from lexicons import configs, embeddings, ids, memories, models
from lexicons.catalog import Catalog, garden
from lexicons.configs import Config
from lexicons.data import Link, cid_of, decode, encode, from_json
from lexicons.embeddings import Embedding, encode_query_vector
from lexicons.errors import InvalidRecord
from lexicons.hashing import embed, model_key
from lexicons.memories import Memory
from lexicons.syntax import Nsid
from tests.shared_data import REPOSITORY

KEY = model_key(8)
NOW = "2026-11-30T09:15:00.000Z"
TID = "3jzfcijpj2z2a"
SPACE = "at://did:plc:abc/garden.engram.config/self"


def _memory(**changes: Any) -> dict[str, Any]:
    embedding = Embedding.of(KEY, embed("compost", 8))
    record = Memory("compost", NOW, embedding, tags=("/soil", "kind=fact"), source="a book").to_record()
    return {**record, **changes}


def _embedding(**changes: Any) -> dict[str, Any]:
    return {"embedding": {**_memory()["embedding"], **changes}}


def _config(**changes: Any) -> dict[str, Any]:
    return {**Config.declare(KEY, created_at=NOW).to_record(), **changes}


def _refused(nsid: Nsid, value: Any, rkey: str, path: str) -> str:
    with pytest.raises(InvalidRecord) as caught:
        garden().validate_record(nsid, value, rkey)
    assert caught.value.path == path
    return caught.value.reason


def test_every_name_of_the_contract_has_a_schema_and_the_other_way_round() -> None:
    named = {value for value in vars(ids).values() if isinstance(value, Nsid)}
    folder = REPOSITORY / "lexicons" / "schemas" / "garden" / "engram"
    assert {f"{ids.NAMESPACE}.{path.stem}" for path in folder.glob("*.json")} == named
    catalog = garden()
    assert {method.nsid for method in catalog.methods()} == named - {ids.MEMORY, ids.CONFIG, ids.DEFS}
    assert catalog.has_record(ids.MEMORY)
    assert catalog.has_record(ids.CONFIG)
    assert not catalog.has_record(ids.DEFS)


def test_the_limits_in_the_code_are_those_of_the_schemas() -> None:
    schemas = {name: garden().schema(name) for name in (ids.MEMORY, ids.CONFIG)}
    fields = schemas[ids.MEMORY]["record"]["properties"]
    assert fields["text"]["maxLength"] == memories.MAX_TEXT_BYTES
    assert fields["text"]["maxGraphemes"] == memories.MAX_TEXT_GRAPHEMES
    assert fields["tags"]["maxLength"] == memories.MAX_TAGS
    assert fields["tags"]["items"]["maxLength"] == memories.MAX_TAG_BYTES
    assert fields["tags"]["items"]["maxGraphemes"] == memories.MAX_TAG_GRAPHEMES
    assert fields["source"]["maxLength"] == memories.MAX_SOURCE_BYTES
    fields = schemas[ids.CONFIG]["record"]["properties"]
    assert fields["documentPrefix"]["maxLength"] == configs.MAX_PREFIX_BYTES
    assert fields["model"]["maxLength"] == models.MAX_MODEL_BYTES
    assert fields["modelDigest"]["maxLength"] == models.MAX_DIGEST_BYTES
    assert fields["dims"]["maximum"] == models.MAX_DIMS
    vector = garden().schema("garden.engram.defs#embedding")["properties"]["vector"]
    assert vector["maxLength"] == embeddings.MAX_VECTOR_BYTES


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"text": "a" * 10_000},
        {"text": "é" * 10_000},
        {"text": "e\u0301" * 10_000},  # 30,000 bytes, 10,000 graphemes
        {"text": "👩‍👩‍👦‍👦" * 1_200},
        {"text": " "},
        {"text": "\x00"},
        {"tags": []},
        {"tags": ["a"] * 16},
        {"tags": ["é" * 64]},
        {"tags": ["a" * 64, ""]},
        {"source": "a" * 2_000},
        {"createdAt": "0001-01-01T00:00:00Z"},
        {"createdAt": "9999-12-31T23:59:59Z"},
        {"nextEmbedding": _memory()["embedding"]},
        _embedding(encoding="f32be"),
        _embedding(vector=b""),
        _embedding(vector=b"\x00" * 32_000, dims=16_000),
        _embedding(model="m" * 256, modelDigest="d" * 256, dims=1),
        {"unheard": {"of": [1, None, b"x"]}},
    ],
)
def test_a_memory_within_the_limits_satisfies_its_lexicon(changes: dict[str, Any]) -> None:
    record = _memory(**changes)
    garden().validate_record(ids.MEMORY, record, TID)
    assert decode(encode(record)) == record
    del record["$type"]
    garden().validate_record(ids.MEMORY, record, TID)


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"text": "a" * 30_001}, "text", "30001 bytes, at most 30000"),
        ({"text": "👩‍👩‍👦‍👦" * 1_201}, "text", "30025 bytes, at most 30000"),
        ({"text": "a" * 10_001}, "text", "10001 graphemes, at most 10000"),
        ({"text": "é" * 10_001}, "text", "10001 graphemes, at most 10000"),
        ({"text": 1}, "text", "must be a string"),
        ({"text": b"a"}, "text", "must be a string"),
        ({"tags": ["a"] * 17}, "tags", "17 items, at most 16"),
        ({"tags": ["a", "a" * 129]}, "tags[1]", "129 bytes, at most 128"),
        ({"tags": ["a" * 65]}, "tags[0]", "65 graphemes, at most 64"),
        ({"tags": [None]}, "tags[0]", "must be a string"),
        ({"tags": "abc"}, "tags", "must be an array"),
        ({"source": "a" * 2_001}, "source", "2001 bytes, at most 2000"),
        ({"createdAt": "2026-11-30T09:15:00"}, "createdAt", "not a valid datetime"),
        ({"createdAt": "2026-11-30"}, "createdAt", "not a valid datetime"),
        ({"$type": "garden.engram.config"}, "$type", "must be garden.engram.memory"),
        ({"$type": None}, "$type", "must be garden.engram.memory"),
        ({"embedding": None}, "embedding", "must be an object"),
        (_embedding(dims=0), "embedding.dims", "0, at least 1"),
        (_embedding(dims=16_001), "embedding.dims", "16001, at most 16000"),
        (_embedding(dims="8"), "embedding.dims", "must be an integer"),
        (_embedding(vector=b"\x00" * 32_001), "embedding.vector", "32001 bytes, at most 32000"),
        (_embedding(vector="AAAA"), "embedding.vector", "must be bytes"),
        (_embedding(vector=Link(cid_of(b""))), "embedding.vector", "must be bytes"),
        (_embedding(vector={"$bytes": "!!!!"}), "embedding.vector", "must be bytes"),
        (_embedding(encoding=1), "embedding.encoding", "must be a string"),
        (_embedding(model="m" * 257), "embedding.model", "257 bytes, at most 256"),
        (_embedding(modelDigest="d" * 257), "embedding.modelDigest", "257 bytes, at most 256"),
        ({"nextEmbedding": {}}, "nextEmbedding.model", "is required"),
    ],
)
def test_a_memory_beyond_the_limits_is_refused(changes: dict[str, Any], path: str, reason: str) -> None:
    assert reason in _refused(ids.MEMORY, _memory(**changes), TID, path)


@pytest.mark.parametrize("field", ["text", "createdAt", "embedding"])
def test_a_memory_needs(field: str) -> None:
    record = _memory()
    del record[field]
    assert _refused(ids.MEMORY, record, TID, field) == "is required"


@pytest.mark.parametrize("value", [None, [], "text", 1])
def test_a_record_is_an_object(value: Any) -> None:
    assert _refused(ids.MEMORY, value, TID, "") == "must be an object"


def test_the_key_of_a_memory_is_a_tid_and_that_of_a_config_is_self() -> None:
    assert "does not fit the key tid" in _refused(ids.MEMORY, _memory(), "self", "rkey")
    garden().validate_record(ids.CONFIG, _config(), "self")
    assert "does not fit the key literal:self" in _refused(ids.CONFIG, _config(), TID, "rkey")


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"dims": 0}, "dims", "0, at least 1"),
        ({"dims": 16_001}, "dims", "16001, at most 16000"),
        ({"model": "m" * 257}, "model", "257 bytes, at most 256"),
        ({"modelDigest": "d" * 257}, "modelDigest", "257 bytes, at most 256"),
        ({"documentPrefix": "p" * 201}, "documentPrefix", "201 bytes, at most 200"),
        ({"queryPrefix": "é" * 101}, "queryPrefix", "202 bytes, at most 200"),
        ({"next": {"model": "m", "modelDigest": "d"}}, "next.dims", "is required"),
        ({"createdAt": "now"}, "createdAt", "not a valid datetime"),
        ({"$type": "garden.engram.memory"}, "$type", "must be garden.engram.config"),
    ],
)
def test_a_config_beyond_the_limits_is_refused(changes: dict[str, Any], path: str, reason: str) -> None:
    assert reason in _refused(ids.CONFIG, _config(**changes), "self", path)


@pytest.mark.parametrize(
    "changes",
    [
        {"dims": 1},
        {"dims": 16_000},
        {"model": "m" * 256, "modelDigest": "d" * 256},
        {"documentPrefix": "p" * 200, "queryPrefix": "é" * 100},
        {"next": {"model": "m", "modelDigest": "d", "dims": 3}},
    ],
)
def test_a_config_within_the_limits_satisfies_its_lexicon(changes: dict[str, Any]) -> None:
    garden().validate_record(ids.CONFIG, _config(**changes), "self")


def _params(nsid: Nsid, *pairs: tuple[str, str]) -> dict[str, Any]:
    return garden().read_params(nsid, pairs)


def test_reads_a_search_with_everything() -> None:
    vector = encode_query_vector(b"\x00" * 32_000)
    assert len(vector) == 42_667
    assert _params(
        ids.SEARCH_MEMORIES,
        ("space", SPACE),
        ("q", "compost"),
        ("vector", vector),
        ("model", "m"),
        ("modelDigest", "d"),
        ("mode", "hybrid"),
        ("tags", "/soil"),
        ("tags", "kind=fact"),
        ("author", "did:plc:abc"),
        ("since", NOW),
    ) == {
        "space": SPACE,
        "q": "compost",
        "vector": vector,
        "model": "m",
        "modelDigest": "d",
        "mode": "hybrid",
        "limit": 10,
        "tags": ["/soil", "kind=fact"],
        "author": "did:plc:abc",
        "since": NOW,
    }


LIMITS: list[tuple[Nsid, int, int | None]] = [
    (ids.SEARCH_MEMORIES, 50, 10),
    (ids.LIST_MEMORIES, 100, 25),
    (ids.LIST_PATHS, 500, 100),
    (ids.LIST_SPACES, 100, 50),
    (ids.GET_PATH, 100, 25),
    (ids.GET_MEMORY_GRAPH, 500, 200),
    (ids.GET_MEMORY_LINKS, 100, 25),
]


@pytest.mark.parametrize(("nsid", "most", "default"), LIMITS)
def test_a_page_has_a_size(nsid: Nsid, most: int, default: int) -> None:
    base = (("space", SPACE), ("path", "/"), ("uri", VIEW["uri"]))
    assert _params(nsid, *base)["limit"] == default
    assert _params(nsid, *base, ("limit", "1"))["limit"] == 1
    assert _params(nsid, *base, ("limit", str(most)))["limit"] == most
    for wrong in ("0", str(most + 1), "ten"):
        with pytest.raises(InvalidRecord) as caught:
            _params(nsid, *base, ("limit", wrong))
        assert caught.value.path == "limit"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("q", "a" * 4_000, "a" * 4_001),
        ("q", "é" * 2_000, "é" * 2_000 + "a"),
        ("vector", "A" * 42_667, "A" * 42_668),
        ("model", "m" * 256, "m" * 257),
        ("modelDigest", "d" * 256, "d" * 257),
        ("mode", "sideways", "m" * 65),
        ("author", "did:plc:abc", "alice.test"),
        ("since", "2026-11-30T09:15:00Z", "2026-11-30"),
        ("tags", "a" * 64, "a" * 65),
    ],
)
def test_a_parameter_of_a_search_is_limited(name: str, good: str, bad: str) -> None:
    assert _params(ids.SEARCH_MEMORIES, ("space", SPACE), (name, good))[name] in (good, [good])
    with pytest.raises(InvalidRecord) as caught:
        _params(ids.SEARCH_MEMORIES, ("space", SPACE), (name, bad))
    assert caught.value.path.startswith(name)


def test_a_query_takes_at_most_16_tags() -> None:
    pairs = [("space", SPACE)] + [("tags", "a")] * 16
    assert len(_params(ids.LIST_MEMORIES, *pairs)["tags"]) == 16
    with pytest.raises(InvalidRecord, match="tags: 17 items, at most 16"):
        _params(ids.LIST_MEMORIES, *pairs, ("tags", "a"))


@pytest.mark.parametrize(
    "space",
    [
        SPACE,
        "at://did:web:garden.test/garden.engram.config/self",
        "at://did:plc:abc/space/com.example.group/a",
    ],
)
def test_a_space_is_named_by_a_uri_of_any_form(space: str) -> None:
    assert _params(ids.GET_SPACE_STATUS, ("space", space)) == {"space": space}


@pytest.mark.parametrize("method", garden().methods(), ids=lambda method: method.nsid)
def test_every_method_declares_its_answer_and_its_errors(method: Any) -> None:
    assert method.kind == ("procedure" if method.input_encoding else "query")
    assert method.description
    assert method.output_encoding == "application/json"
    assert "RateLimitExceeded" in method.errors
    if method.kind == "procedure":
        assert method.input_encoding == "application/json"
        assert {"UnknownSpace", "InvalidRequest", "Forbidden", "AuthenticationRequired"} <= set(method.errors)
        with pytest.raises(InvalidRecord, match="space: is required"):
            garden().validate_input(method.nsid, {"did": "did:plc:abc"})
    if "space" in method.parameters:
        assert {"UnknownSpace", "InvalidRequest", "Forbidden", "AuthenticationRequired"} <= set(method.errors)
        with pytest.raises(InvalidRecord, match="space: is required"):
            _params(method.nsid, ("q", "x"))


VIEW: dict[str, Any] = {
    "uri": f"at://did:plc:abc/garden.engram.memory/{TID}",
    "cid": "bafyreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq",
    "author": "did:plc:abc",
    "text": "compost",
    "tags": ["/soil"],
    "path": "/soil",
    "createdAt": NOW,
    "indexedAt": NOW,
    "similarity": 1000,
    "match": {
        "score": 750,
        "words": ["compost"],
        "keyword": {"raw": 2345, "normalised": 500, "weight": 500, "contribution": 250},
        "vector": {"raw": 1000, "normalised": 1000, "weight": 500, "contribution": 500},
        "places": [{"field": "text", "byteStart": 0, "byteEnd": 7}],
        "foundBy": ["keyword"],
        "missing": [{"component": "links", "reason": "switched-off"}],
        "alike": 1,
        "alikeUris": [f"at://did:plc:abc/garden.engram.memory/{TID}"],
    },
}
TRACE: dict[str, Any] = {
    "corpus": 3,
    "searched": 2,
    "superseded": 1,
    "keyword": 1,
    "vector": 2,
    "candidates": 2,
    "weights": [{"component": "keyword", "weight": 500}],
    "terms": [{"term": "compost", "memories": 1, "counted": True}],
    "phrases": [],
    "excluded": [],
}
MODEL = KEY.to_record()
ANSWERS: dict[Nsid, dict[str, Any]] = {
    ids.SEARCH_MEMORIES: {"memories": [VIEW], "mode": "hybrid", "approximate": False, "trace": TRACE},
    ids.RECALL_MEMORIES: {"memories": [VIEW], "mode": "strength", "reinforced": 1},
    ids.GET_MEMORY_GRAPH: {
        "nodes": [VIEW, VIEW],
        "edges": [{"a": 0, "b": 1, "similarity": 700}],
        "links": [{"from": 1, "to": 0, "kind": "mention"}],
    },
    ids.GET_MEMORY_LINKS: {
        "links": [{"kind": "path", "path": "/soil"}, {"kind": "mention", "uri": VIEW["uri"], "memory": VIEW}],
        "backlinks": [{"kinds": ["supersedes"], "memory": VIEW}],
        "cursor": "x",
    },
    ids.GET_MEMORY: {"memory": VIEW},
    ids.LIST_MEMORIES: {"memories": [VIEW], "cursor": "x"},
    ids.GET_SPACE_STATUS: {
        "memories": 1,
        "config": {**MODEL, "createdAt": NOW, "next": MODEL, "documentPrefix": "d: "},
        "active": MODEL,
        "building": MODEL,
        "buildingMemories": 0,
        "skipped": [{"author": "did:plc:abc", "count": 2, "reasons": [{"reason": "model", "count": 2}]}],
    },
    ids.DESCRIBE_SERVICE: {"did": "did:web:memory.test", "registration": "open"},
    ids.LIST_SPACES: {
        "spaces": [
            {
                "uri": SPACE,
                "kind": "public",
                "authority": "did:plc:abc",
                "model": MODEL,
                "memories": 3,
                "authors": 1,
            }
        ]
    },
    ids.LIST_PATHS: {
        "path": "/",
        "paths": [{"path": "/soil", "segment": "soil", "memories": 1, "children": 0, "descendants": 1}],
    },
    ids.GET_PATH: {"path": "/soil", "memories": [VIEW]},
    ids.LIST_MEMBERS: {"members": [{"did": "did:plc:abc"}], "cursor": "x"},
    ids.PUT_MEMBER: {"changed": True},
    ids.REMOVE_MEMBER: {"changed": False},
    ids.PUT_PATH_TAG: {"changed": True},
    ids.REMOVE_PATH_TAG: {"changed": True},
}


@pytest.mark.parametrize("method", garden().methods(), ids=lambda method: method.nsid)
def test_an_answer_is_checked(method: Any) -> None:
    answer = from_json(ANSWERS[method.nsid])
    garden().validate_output(method.nsid, answer)
    for field in answer:
        with pytest.raises(InvalidRecord):
            garden().validate_output(method.nsid, {**answer, field: None})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("similarity", 1001),
        ("similarity", -1),
        ("author", "alice.test"),
        ("cid", "x"),
        ("match", {"score": 1}),
    ],
)
def test_a_view_of_a_memory_is_checked(field: str, value: Any) -> None:
    garden().validate("garden.engram.defs#memoryView", VIEW)
    with pytest.raises(InvalidRecord):
        garden().validate("garden.engram.defs#memoryView", {**VIEW, field: value})


def test_the_catalog_is_read_once() -> None:
    assert garden() is garden()
    assert isinstance(garden(), Catalog)


def test_the_contract_is_light_to_import() -> None:
    code = (
        "import sys, lexicons.memories, lexicons.configs, lexicons.hashing, lexicons.catalog\n"
        "print([name for name in ('regex', 'numpy', 'asyncio', 'atproto') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
