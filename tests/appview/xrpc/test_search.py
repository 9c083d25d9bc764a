"""searchMemories over the socket: what is asked, with what, and what comes back."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from appview.access.rules import Permission
from appview.access.subjects import EVERYONE
from appview.memory.scope import Subtree
from lexicons.embeddings import encode_f16le, encode_query_vector
from lexicons.hashing import embed, model_key
from lexicons.ids import SEARCH_MEMORIES
from lexicons.models import ModelKey
from tests.appview.xrpc.garden import ALICE, BOB, MODEL, SPACE, query_vector

if TYPE_CHECKING:
    from tests.appview.xrpc.garden import Answer, Client, Garden

SLUGS = "Slugs eat the lettuce at night"
FROST = "Cover tomatoes before the first frost"
BEES = "The bees swarm in May"
FOREIGN = ModelKey("minilm", "sha256:abc", 64)  # one that this service does not run


async def ask(client: Client, **given: Any) -> Answer:
    return await client.ask(SEARCH_MEMORIES, given, space=SPACE)


@pytest.fixture
async def planted(garden: Garden) -> Garden:
    """A space with three memories."""
    await garden.declare()
    await garden.remember(SLUGS, tags=["/beds/north", "pest"], created_at="2026-01-01T00:00:00Z")
    await garden.remember(FROST, tags=["/beds/south"], author=BOB, created_at="2026-01-02T00:00:00Z")
    await garden.remember(BEES, created_at="2026-01-03T00:00:00Z")
    return garden


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword", None])
async def test_words_alone_find_the_memory_in_every_mode(
    client: Client, planted: Garden, mode: str | None
) -> None:
    answer = await ask(client, q="lettuce at night", **({"mode": mode} if mode else {}))
    assert answer.texts[0] == SLUGS
    assert answer.body["mode"] == (mode or "hybrid")
    assert "approximate" not in answer.body


async def test_a_vector_alone_searches_by_vector(client: Client, planted: Garden) -> None:
    for mode in ({}, {"mode": "hybrid"}, {"mode": "vector"}):
        answer = await ask(client, **query_vector("lettuce at night"), **mode)
        assert answer.texts[0] == SLUGS
        assert answer.body["mode"] == "vector"
        assert "keyword" not in answer.body["memories"][0]["match"]


async def test_words_and_vector_each_do_their_part(client: Client, planted: Garden) -> None:
    answer = await ask(client, q="frost", **query_vector("lettuce at night"))
    by_text = {memory["text"]: memory["match"] for memory in answer.body["memories"]}
    assert by_text[FROST]["words"] == ["frost"]
    assert by_text[FROST]["keyword"]["normalised"] == 1000
    assert by_text[SLUGS]["vector"]["normalised"] == 1000
    assert "keyword" not in by_text[SLUGS]
    assert (await ask(client, q="frost", mode="vector", **query_vector(SLUGS))).texts[0] == SLUGS
    assert (await ask(client, q="frost", mode="keyword", **query_vector(SLUGS))).texts == [FROST]


async def test_every_hit_says_why_and_the_parts_sum_to_the_score(client: Client, planted: Garden) -> None:
    await planted.remember("Night frost kills slugs", tags=["/beds/north"])
    answer = await ask(client, q="slugs at night in the frost")
    assert len(answer.body["memories"]) == 4
    scores = []
    for memory in answer.body["memories"]:
        match = memory["match"]
        parts = [match[part] for part in ("keyword", "context", "vector") if part in match]
        assert sum(part["contribution"] for part in parts) == match["score"]
        assert all(0 < part["weight"] < 1000 for part in parts)
        assert memory["similarity"] == max(match["vector"]["raw"], 0) or (
            memory["similarity"] == match["vector"]["raw"] - 1  # cut off, not rounded
        )
        assert bool(match["words"]) == ("keyword" in match)
        scores.append(match["score"])
    assert scores == sorted(scores, reverse=True)


async def test_similarity_is_cut_off_and_never_negative(client: Client, planted: Garden) -> None:
    vector = [0.0] * MODEL.dims
    for place, value in enumerate(embed(SLUGS + "\n\nTags: /beds/north, pest", MODEL.dims)):
        vector[place] = -value
    given = {**query_vector("x"), "vector": encode_query_vector(encode_f16le(vector))}
    answer = await ask(client, **given, q="slugs")
    similarities = {memory["text"]: memory["similarity"] for memory in answer.body["memories"]}
    assert similarities[SLUGS] == 0
    same = encode_query_vector(encode_f16le([-value for value in vector]))
    answer = await ask(client, **{**given, "vector": same})
    assert answer.body["memories"][0]["similarity"] in (999, 1000)


async def test_the_limit_is_kept(client: Client, planted: Garden) -> None:
    for limit in (1, 2, 3, 50):
        answer = await ask(client, q="the lettuce frost bees", limit=limit)
        assert len(answer.body["memories"]) == min(limit, 3)
    for wrong in (0, 51):
        assert (await ask(client, q="x", limit=wrong)).error == "InvalidRequest"


async def test_filters_narrow_both_arms(client: Client, planted: Garden) -> None:
    for mode in ("hybrid", "vector", "keyword"):
        question = {"q": "lettuce frost bees", "mode": mode}
        assert (await ask(client, **question, author=BOB)).texts == [FROST]
        assert (await ask(client, **question, tags=["/beds/north", "pest"])).texts == [SLUGS]
        assert (await ask(client, **question, tags=["pest", "nothing"])).texts == []
        assert (await ask(client, **question, since="2026-01-03T00:00:00Z")).texts == [BEES]


async def test_what_is_hidden_changes_no_byte_of_an_answer(client: Client, planted: Garden) -> None:
    questions: list[dict[str, Any]] = [
        {"q": "lettuce frost bees secret"},
        {"q": "secret", "mode": "keyword"},
        {**query_vector("secret lettuce")},
    ]
    before = [(await ask(client, **question)).raw for question in questions]
    await planted.hide(Permission(EVERYONE, SPACE, Subtree("/private"), "read", allow=False))
    assert [(await ask(client, **question)).raw for question in questions] == before
    for number in range(5):
        await planted.remember(f"secret lettuce frost bees {number}", tags=["/private/x"])
    assert [(await ask(client, **question)).raw for question in questions] == before


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"q": ""},
        {"q": "   \t\n"},
        {"mode": "hybrid"},
        {"vector": "AAAA"},
        {"model": "m", "modelDigest": "d"},
        {"q": "x", "vector": "AAAA", "model": "m"},
        {"q": "x", "modelDigest": "d"},
        {**query_vector("x"), "mode": "keyword"},
        {"q": "x", "mode": "fuzzy"},
        {"q": "x", "mode": "HYBRID"},
    ],
)
async def test_a_question_must_be_whole(client: Client, planted: Garden, given: dict[str, str]) -> None:
    answer = await ask(client, **given)
    assert (answer.status, answer.error) == (400, "InvalidRequest")


def f16(*values: float) -> str:
    return encode_query_vector(struct.pack(f"<{len(values)}e", *values))


ONES = [1.0] * 64
ZERO = f16(*[0.0] * 64)
NAN = f16(float("nan"), *ONES[1:])
INFINITE = f16(float("inf"), *ONES[1:])
MINUS_INFINITE = f16(float("-inf"), *ONES[1:])


@pytest.mark.parametrize(
    "vector",
    ["A", "AA", "AAAA", "!!!!", "AB+/", "A\u00e9A", ZERO, NAN, INFINITE, MINUS_INFINITE, f16(*ONES) + "A"],
    ids=["short", "odd", "zeros", "marks", "base64", "letters", "zero", "nan", "inf", "-inf", "half"],
)
async def test_an_unusable_vector_is_refused(client: Client, planted: Garden, vector: str) -> None:
    given = {**query_vector("x"), "vector": vector}
    answer = await ask(client, q="x", **given)
    assert (answer.status, answer.error) == (400, "InvalidRequest")
    assert "vector" in answer.body["message"]


@pytest.mark.parametrize(
    "model",
    [
        model_key(32),
        ModelKey(MODEL.model, "sha256:other", MODEL.dims),
        ModelKey("other", MODEL.digest, MODEL.dims),
        ModelKey(MODEL.model, MODEL.digest, 63),
        ModelKey(MODEL.model, MODEL.digest, 65),
    ],
    ids=str,
)
async def test_a_vector_of_another_model_is_a_mismatch(
    client: Client, planted: Garden, model: ModelKey
) -> None:
    answer = await ask(client, q="x", **query_vector("x", model))
    assert (answer.status, answer.error) == (400, "ModelMismatch")
    assert MODEL.digest in answer.body["message"]


async def test_a_vector_that_is_not_used_is_not_compared(client: Client, planted: Garden) -> None:
    answer = await ask(client, q="lettuce", mode="keyword", **query_vector("x", model_key(32)))
    assert (answer.status, answer.texts) == (200, [SLUGS])


async def test_a_vector_of_the_next_model_waits_for_its_promotion(client: Client, planted: Garden) -> None:
    changing = planted.config.with_next(model_key(32))
    await planted.declare(config=changing)
    early = await ask(client, **query_vector("x", model_key(32)))
    assert early.error == "ModelMismatch"
    assert "changing" in early.body["message"]
    assert (await ask(client, **query_vector("lettuce"))).status == 200
    await planted.declare(config=changing.promote())
    assert (await ask(client, **query_vector("x", model_key(32)))).status == 200
    assert (await ask(client, **query_vector("x"))).error == "ModelMismatch"


async def test_the_service_falls_back_to_words_where_it_has_no_model(client: Client, garden: Garden) -> None:
    config = type(garden.config).declare(FOREIGN, created_at="2026-01-01T00:00:00Z")
    await garden.declare(config=config)
    await garden.remember(SLUGS, model=FOREIGN)
    answer = await ask(client, q="lettuce")
    assert answer.texts == [SLUGS]
    assert answer.body["mode"] == "keyword"
    assert "similarity" not in answer.body["memories"][0]
    refused = await ask(client, q="lettuce", mode="vector")
    assert (refused.status, refused.error) == (400, "ModelNotHosted")
    own = await ask(client, q="lettuce", **query_vector(SLUGS, FOREIGN))
    assert own.body["mode"] == "hybrid"
    assert own.body["memories"][0]["similarity"] >= 999


async def test_the_configs_query_prefix_is_put_before_the_words(client: Client, garden: Garden) -> None:
    config = type(garden.config).declare(
        MODEL, created_at="2026-01-01T00:00:00Z", query_prefix="frost frost frost frost frost "
    )
    await garden.declare(config=config)
    await garden.remember(SLUGS)
    await garden.remember(FROST)
    assert (await ask(client, q="lettuce", mode="vector")).texts[0] == FROST


async def test_a_space_without_a_model_holds_nothing_to_search(client: Client, planted: Garden) -> None:
    await planted.withdraw()
    for given in ({"q": "lettuce"}, {"q": "lettuce", "mode": "keyword"}, query_vector("lettuce")):
        answer = await ask(client, **given)
        assert (answer.status, answer.error) == (400, "NoModel")


@pytest.mark.parametrize("dims", [4096, 16_000])
async def test_wide_vectors_fit_in_a_url(client: Client, garden: Garden, dims: int) -> None:
    model = model_key(dims)
    await garden.declare(config=type(garden.config).declare(model, created_at="2026-01-01T00:00:00Z"))
    await garden.remember(SLUGS, model=model)
    given = query_vector("lettuce at night", model)
    assert len(given["vector"]) == -(-dims * 2 * 4 // 3)
    answer = await ask(client, q="\u00e9" * 2000, tags=[], **given)
    assert answer.texts == [SLUGS]


async def test_the_longest_question_of_all_fits(client: Client, garden: Garden) -> None:
    digest = "\u00e9" * 128
    model = ModelKey("\u00e8" * 128, digest, 16_000)
    await garden.declare(config=type(garden.config).declare(model, created_at="2026-01-01T00:00:00Z"))
    tags = [chr(0xC0 + number) + "\u00ea" * 63 for number in range(16)]
    assert all(len(tag.encode()) == 128 for tag in tags)
    author = "did:web:" + "a" * 2040
    answer = await ask(
        client, q="\u00e9" * 2000, tags=tags, author=author, since="2026-01-01T00:00:00Z", limit=50,
        mode="hybrid", **query_vector("x", model),
    )  # fmt: skip
    assert (answer.status, answer.texts) == (200, [])


async def test_a_vector_one_character_too_long_is_refused(client: Client, planted: Garden) -> None:
    for length in (42_668, 43_000):
        given = {**query_vector("x"), "vector": "A" * length}
        answer = await ask(client, **given)
        assert (answer.status, answer.error) == (400, "InvalidRequest")


HOSTILE = [
    "' OR 1=1 --",
    "'; DROP TABLE facts; --",
    '" OR text:*',
    "NEAR(a b, 1)",
    "text : secret",
    "^lettuce",
    "lettuce*",
    "*",
    "-",
    "--",
    '"',
    '""',
    '"unbalanced',
    "(((((",
    "a AND",
    "NOT",
    "OR OR OR",
    "{a b}: c",
    "a + b",
    "%",
    "%_",
    "\\",
    "?1",
    ":param",
    "$x",
    "\u202e\u200b\u2066",
    "\ufffe\uffff",
    "\U0001f40c" * 1000,
    "\u83dc\u56ed",
    "e\u0301" * 1000,
    "a" * 4000,
    "a " * 2000,
    "-a " * 1300,
    '"a" ' * 1000,
    "a* " * 1300,
    "\x01\x02\x1b[31m",
    "\r\nSet-Cookie: x=1",
    "<script>alert(1)</script>",
]


@pytest.mark.parametrize("q", HOSTILE, ids=range(len(HOSTILE)))
async def test_any_words_are_a_question(client: Client, planted: Garden, q: str) -> None:
    for mode in ("hybrid", "vector", "keyword"):
        assert (await ask(client, q=q, mode=mode)).status == 200
    assert (await ask(client, q="lettuce", tags=q[:30])).texts == []
    assert (await ask(client, q="lettuce")).texts[0] == SLUGS


@pytest.mark.parametrize("q", ["a" * 4001, "\u00e9" * 2001, "\U0001f40c" * 1001])
async def test_a_question_is_at_most_4000_bytes(client: Client, planted: Garden, q: str) -> None:
    assert (await ask(client, q=q)).error == "InvalidRequest"


@pytest.mark.parametrize("q", ["%00", "a%00b", "%ff", "%ed%a0%80", "%", "%zz"])
async def test_words_must_be_text(client: Client, planted: Garden, q: str) -> None:
    from yarl import URL

    target = f"/xrpc/{SEARCH_MEMORIES}?space={quote(SPACE, safe='')}&q={q}"
    async with client.session.get(URL(client.base + target, encoded=True)) as response:
        assert response.status == 400
        assert (await response.json())["error"] == "InvalidRequest"


async def test_parameters_that_are_not_known_are_ignored(client: Client, planted: Garden) -> None:
    plain = await ask(client, q="lettuce")
    assert (await ask(client, q="lettuce", explained="yes", author_="x")).raw == plain.raw
    assert ALICE in {memory["author"] for memory in plain.body["memories"]}
