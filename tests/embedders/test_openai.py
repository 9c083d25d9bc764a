"""Endpoints that speak OpenAI's embeddings: identified, batched, retried, and never believed blindly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from embedders.errors import BadAnswer, EmbedderBusy, ModelUnavailable
from embedders.openai import ATTEMPTS, BATCH, OpenAIEmbedder
from embedders.spec import OpenAISpec
from lexicons.hashing import embed
from lexicons.models import ModelKey
from tests.embedders.endpoint import OLLAMA_DIGEST, Endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as running:
        yield running


class Waits(list[float]):
    """A sleep that only remembers."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def embedder(endpoint: Endpoint, model: str = "nomic-embed-text", **options: Any) -> OpenAIEmbedder:
    spec = OpenAISpec(endpoint.url, model, options.pop("digest", None), options.pop("dims", None))
    return OpenAIEmbedder(spec, sleep=options.pop("sleep", Waits()), **options)


async def test_ollama_names_the_digest(endpoint: Endpoint) -> None:
    made = embedder(endpoint)
    assert await made.key() == ModelKey("nomic-embed-text", f"sha256:{OLLAMA_DIGEST}", 16)
    assert await made.key() == await made.key()
    assert len(endpoint.requests) == 1, "the model is identified once"
    await made.close()


async def test_a_digest_that_is_set_is_used_and_nothing_else_asked(endpoint: Endpoint) -> None:
    endpoint.ollama = False
    made = embedder(endpoint, "text-embedding-3", digest="2024-01", dims=8)
    assert await made.key() == ModelKey("text-embedding-3", "2024-01", 8)
    assert endpoint.requests[0]["dimensions"] == 8
    await made.close()


@pytest.mark.parametrize("model", ["no-such-model", "broken"])
async def test_a_model_without_a_digest_is_refused(endpoint: Endpoint, model: str) -> None:
    made = embedder(endpoint, model)
    with pytest.raises(ModelUnavailable):
        await made.key()
    assert endpoint.requests == [], "nothing is embedded with a model that has no name"
    await made.close()


async def test_an_endpoint_without_a_tag_list_needs_a_digest(endpoint: Endpoint) -> None:
    endpoint.ollama = False
    made = embedder(endpoint)
    with pytest.raises(ModelUnavailable) as caught:
        await made.key()
    assert ";digest=" in caught.value.hint
    await made.close()


async def test_texts_go_in_batches_and_vectors_come_back_in_order(endpoint: Endpoint) -> None:
    made = embedder(endpoint)
    texts = [f"text number {index}" for index in range(BATCH + 3)]
    vectors = await made.embed_documents(texts)
    assert vectors == [pytest.approx(embed(text, 16)) for text in texts]
    assert [len(request["input"]) for request in endpoint.requests[1:]] == [BATCH, 3]
    assert await made.embed_query("sun") == pytest.approx(embed("sun", 16))
    assert await made.embed_documents([]) == []
    await made.close()


async def test_the_key_goes_out_as_a_bearer_token_to_https_and_loopback_alone(endpoint: Endpoint) -> None:
    made = embedder(endpoint, api_key="secret")
    await made.key()
    assert endpoint.headers[0]["Authorization"] == "Bearer secret"
    await made.close()
    with pytest.raises(ModelUnavailable, match="plain http"):
        OpenAIEmbedder(OpenAISpec("http://192.0.2.7/v1", "m", "d"), api_key="secret")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_endpoint_is_asked_again(endpoint: Endpoint, status: int) -> None:
    waits = Waits()
    endpoint.failures = [(status, {"Retry-After": "7"}), (status, {})]
    made = embedder(endpoint, sleep=waits)
    assert len(await made.embed_query("sun")) == 16
    assert waits[0] == 7 and len(waits) == 2
    await made.close()


async def test_an_endpoint_that_stays_busy_is_a_temporary_error(endpoint: Endpoint) -> None:
    endpoint.failures = [(503, {})] * ATTEMPTS
    made = embedder(endpoint)
    with pytest.raises(EmbedderBusy, match="503"):
        await made.key()
    endpoint.failures = [(429, {"Retry-After": "3600"})]
    with pytest.raises(EmbedderBusy):
        await made.key()
    assert endpoint.failures == [], "an hour is not waited"
    await made.close()


async def test_an_endpoint_that_is_not_there_is_a_temporary_error(unused_tcp_port: int) -> None:
    spec = OpenAISpec(f"http://127.0.0.1:{unused_tcp_port}/v1", "m", "d")
    made = OpenAIEmbedder(spec, sleep=Waits())
    with pytest.raises(EmbedderBusy) as caught:
        await made.key()
    assert caught.value.retryable
    await made.close()


async def test_a_refusal_is_told_and_not_repeated(endpoint: Endpoint) -> None:
    endpoint.failures = [(401, {})]
    made = embedder(endpoint)
    with pytest.raises(ModelUnavailable, match="401: not now") as caught:
        await made.key()
    assert "ENGRAM_EMBEDDER_API_KEY" in caught.value.hint
    await made.close()


def _numbers(*values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda answer: {"data": [{"index": 0, "embedding": list(values)}]}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answer: [],
        lambda answer: {"data": "many"},
        lambda answer: {"data": []},
        lambda answer: {"data": answer["data"] * 2},
        lambda answer: {"data": [{"index": 1, "embedding": [1.0]}]},
        lambda answer: {"data": [{"index": True, "embedding": "x"}]},
        lambda answer: {"data": [7]},
        _numbers(),
        _numbers(1.0, "2"),
        _numbers(1.0, True),
        _numbers(float("nan")),
        _numbers(float("inf")),
        _numbers(10**400),
    ],
)
async def test_an_answer_that_is_not_vectors_is_an_error(
    endpoint: Endpoint, spoil: Callable[[dict[str, Any]], Any]
) -> None:
    endpoint.spoil = spoil
    made = embedder(endpoint)
    with pytest.raises(BadAnswer):
        await made.key()
    await made.close()


async def test_two_vectors_for_one_text_are_an_error(endpoint: Endpoint) -> None:
    made = embedder(endpoint)
    await made.key()
    endpoint.spoil = lambda answer: {"data": [{**each, "index": 0} for each in answer["data"]]}
    with pytest.raises(BadAnswer, match="not numbered"):
        await made.embed_documents(["one", "two"])
    await made.close()


async def test_a_vector_of_another_width_is_an_error(endpoint: Endpoint) -> None:
    made = embedder(endpoint)
    await made.key()
    endpoint.dims = 15
    with pytest.raises(BadAnswer, match="15 dimensions, expected 16"):
        await made.embed_query("sun")
    await made.close()
