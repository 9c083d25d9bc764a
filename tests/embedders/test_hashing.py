"""The offline model gives what the contract says."""

from __future__ import annotations

from embedders.select import open_embedder
from lexicons.hashing import embed
from lexicons.models import ModelKey


async def test_vectors_and_key_are_the_contracts() -> None:
    embedder = open_embedder("hashing-64")
    assert await embedder.key() == ModelKey("hashing-64", "sha256:hashing", 64)
    texts = ["tomatoes want sun", "", "tomatoes"]
    assert await embedder.embed_documents(texts) == [embed(text, 64) for text in texts]
    assert await embedder.embed_query("tomatoes") == embed("tomatoes", 64)
    assert await embedder.embed_documents([]) == []
    await embedder.close()
