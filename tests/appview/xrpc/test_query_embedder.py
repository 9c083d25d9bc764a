"""Embedding questions: whose model, how long, how often."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import structlog

from appview.xrpc import query_embedder
from appview.xrpc.query_embedder import CACHED_VECTORS, EmbedderFailed, QueryEmbedder
from embedders.errors import EmbedderBusy, ModelUnavailable
from lexicons.embeddings import decode_unit_vector, encode_f16le
from lexicons.hashing import embed, model_key
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

HOSTED = ModelKey("some-model", "sha256:1", 2)


class Fake:
    """An embedder whose loading and answers the test decides."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.error: Exception | None = None
        self.load_error: Exception | None = None
        self.loaded = asyncio.Event()
        self.answer = asyncio.Event()
        self.loaded.set()
        self.answer.set()
        self.closed = False

    async def key(self) -> ModelKey:
        await self.loaded.wait()
        if self.load_error is not None:
            raise self.load_error
        return HOSTED

    async def embed_documents(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        raise AssertionError("questions are no documents")

    async def embed_query(self, text: str) -> tuple[float, ...]:
        self.questions.append(text)
        await self.answer.wait()
        if self.error is not None:
            raise self.error
        return (3.0, 4.0)

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def opened(fake: Fake | None, deadline: float = 5.0) -> AsyncIterator[QueryEmbedder]:
    embedder = QueryEmbedder(fake, deadline=deadline)
    embedder.start()
    try:
        yield embedder
    finally:
        await embedder.close()


async def test_hashing_models_are_always_there() -> None:
    async with opened(None) as embedder:
        assert await embedder.hosts(model_key(48))
        assert await embedder.vector(model_key(48), "slugs") == encode_f16le(embed("slugs", 48))
        assert not await embedder.hosts(HOSTED)


async def test_a_model_that_only_claims_to_hash_is_not() -> None:
    async with opened(None) as embedder:
        for key in (ModelKey("hashing-48", "sha256:other", 48), ModelKey("hashing-47", "sha256:hashing", 48)):
            assert not await embedder.hosts(key)


async def test_the_configured_model_and_no_other_is_hosted() -> None:
    async with opened(Fake()) as embedder:
        assert await embedder.hosts(HOSTED)
        assert not await embedder.hosts(ModelKey("some-model", "sha256:2", 2))
        assert not await embedder.hosts(ModelKey("some-model", "sha256:1", 3))


async def test_vectors_have_length_one() -> None:
    async with opened(Fake()) as embedder:
        vector = await embedder.vector(HOSTED, "q")
        assert decode_unit_vector(vector, 2) == pytest.approx((0.6, 0.8), abs=1e-3)


async def test_a_question_asked_again_is_not_embedded_again() -> None:
    fake = Fake()
    async with opened(fake) as embedder:
        for question in ("a", "b", "a", "a"):
            await embedder.vector(HOSTED, question)
    assert fake.questions == ["a", "b"]


async def test_a_question_asked_by_several_at_once_is_embedded_once() -> None:
    fake = Fake()
    fake.answer.clear()
    async with opened(fake) as embedder, asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(embedder.vector(HOSTED, "popular"))
        group.create_task(asyncio.sleep(0)).add_done_callback(lambda _: fake.answer.set())
    assert fake.questions == ["popular"]


async def test_only_so_many_questions_are_remembered_and_the_oldest_goes() -> None:
    fake = Fake()
    async with opened(fake) as embedder:
        for number in range(CACHED_VECTORS):
            await embedder.vector(HOSTED, str(number))
        await embedder.vector(HOSTED, "0")  # used again, so not the oldest
        await embedder.vector(HOSTED, "one more")
        fake.questions.clear()
        await embedder.vector(HOSTED, "0")
        await embedder.vector(HOSTED, "1")
    assert fake.questions == ["1"]


async def test_the_deadline_ends_the_wait_and_the_vector_is_there_next_time() -> None:
    fake = Fake()
    fake.answer.clear()
    async with opened(fake, deadline=0.05) as embedder:
        with pytest.raises(EmbedderFailed):
            await embedder.vector(HOSTED, "slow")
        fake.answer.set()
        await embedder.vector(HOSTED, "slow")
    assert fake.questions == ["slow"]


@pytest.mark.parametrize("error", [EmbedderBusy("down"), ModelUnavailable("gone")])
async def test_a_failing_model_is_a_failure_and_its_words_are_not_logged(error: Exception) -> None:
    fake = Fake()
    fake.error = error
    async with opened(fake) as embedder:
        with structlog.testing.capture_logs() as lines, pytest.raises(EmbedderFailed):
            await embedder.vector(HOSTED, "a private question")
        assert lines
        assert "private" not in str(lines)
        fake.error = None
        assert await embedder.vector(HOSTED, "a private question")


async def test_a_model_that_does_not_load_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    fake.load_error = ModelUnavailable("no network")
    async with opened(fake) as embedder:
        with structlog.testing.capture_logs() as lines:
            assert not await embedder.hosts(HOSTED)
            assert not await embedder.hosts(HOSTED)
        assert [line["event"] for line in lines] == ["embedder not loaded"]
        fake.load_error = None
        assert not await embedder.hosts(HOSTED), "it is left alone for a while"
        monkeypatch.setattr(query_embedder, "RETRY_SECONDS", 0.0)
        assert await embedder.hosts(HOSTED)


async def test_a_model_that_loads_for_long_is_not_waited_for_beyond_the_deadline() -> None:
    fake = Fake()
    fake.loaded.clear()
    async with opened(fake, deadline=0.05) as embedder:
        assert not await embedder.hosts(HOSTED)
        fake.loaded.set()
        async with asyncio.timeout(5):
            while not await embedder.hosts(HOSTED):
                pass


async def test_the_end_stops_what_runs_and_closes_the_model() -> None:
    fake = Fake()
    fake.answer.clear()
    async with opened(fake, deadline=0.05) as embedder:
        with pytest.raises(EmbedderFailed):
            await embedder.vector(HOSTED, "slow")
    assert fake.closed
