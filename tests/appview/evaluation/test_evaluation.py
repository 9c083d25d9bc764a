"""A small judged set on the real engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from appview.clock import now
from appview.evaluation.errors import EvaluationError
from appview.evaluation.evaluation import Evaluation, Prefixes, evaluate_set, evaluate_space
from appview.evaluation.judged import JudgedQuery, read_memories, read_queries
from appview.evaluation.report import document, lines
from appview.evaluation.runner import Configuration
from appview.evaluation.spaces import indexed
from appview.evaluation.vectors import VectorFile
from appview.search.analysis import ANALYSIS
from appview.search.tuning import read_tuning
from embedders.fastembed import FastembedEmbedder
from embedders.hashing import HashingEmbedder
from lexicons.configs import Config
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.evaluation import small_set

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from embedders.protocol import Embedder
    from embedders.spec import FolderSpec

BASE = Configuration("settings")


async def evaluated(
    folder: Path, *configurations: Configuration, embedder: Embedder | None = None
) -> Evaluation:
    memories, queries = small_set.write(folder)
    return await evaluate_set(
        read_memories(memories),
        read_queries(queries),
        embedder or HashingEmbedder(256),
        folder / "vectors",
        configurations or (BASE,),
        Prefixes(),
        progress=lambda _: None,
    )


async def test_each_question_is_measured_in_each_mode(tmp_path: Path) -> None:
    found = await evaluated(tmp_path)
    assert (found.spaces, found.memories, found.unknown) == (3, 22, 0)
    outcomes = found.outcomes[BASE]
    assert len(outcomes) == len(small_set.QUESTIONS)
    assert all(set(outcome.measured) == {"keyword", "vector", "hybrid"} for outcome in outcomes)
    names = [outcome for outcome in outcomes if outcome.kind == "names"]
    assert [outcome.measured["keyword"].of("mrr") for outcome in names] == [1.0] * 4


async def test_hybrid_beats_both_arms_on_every_kind_of_the_small_set(
    tmp_path: Path, minilm: FolderSpec
) -> None:
    embedder = FastembedEmbedder(minilm)
    found = await evaluated(tmp_path, embedder=embedder)
    await embedder.close()
    results = document(found, "minilm", "all")["configurations"][0]["results"]
    for measure in ("ndcg@10", "recall@10"):
        for kind in ("words", "names", "beside", "all"):
            hybrid = results["hybrid"][kind][measure]["mean"]
            assert hybrid >= results["keyword"][kind][measure]["mean"] - 1e-9, (kind, measure)
            assert hybrid >= results["vector"][kind][measure]["mean"] - 1e-9, (kind, measure)
    assert results["hybrid"]["beside"]["ndcg@10"]["mean"] > results["keyword"]["beside"]["ndcg@10"]["mean"]


async def test_a_run_is_the_same_again(tmp_path: Path) -> None:
    first = document(await evaluated(tmp_path), "hashing-256", "all")
    assert document(await evaluated(tmp_path), "hashing-256", "all") == first


async def test_two_configurations_are_compared_question_by_question(tmp_path: Path) -> None:
    words_alone = Configuration("compare", read_tuning("keyword=1,vector=0,context=0,gap=12345678"))
    written = document(await evaluated(tmp_path, BASE, words_alone), "hashing-256", "all")
    first, second = written["configurations"]
    assert second["settings"]["context"] == 0.0
    assert first["settings"]["keyword"] == 0.85  # what a hashing model gets
    for kind, cells in written["comparison"]["hybrid"].items():
        for measure in ("ndcg@10", "mrr"):
            means = [each["results"]["hybrid"][kind][measure]["mean"] for each in (first, second)]
            assert cells[measure]["estimate"]["mean"] == pytest.approx(means[1] - means[0], abs=2e-4)
    assert written["comparison"]["keyword"]["all"]["ndcg@10"]["better"] == 0
    told = "\n".join(lines(written))
    assert "compare less settings" in told
    assert "hybrid less keyword" in told
    assert "seed" in told
    assert "gap 12345678," in told


async def test_another_language_is_another_index(tmp_path: Path) -> None:
    other = Configuration("compare", language="german")
    found = await evaluated(tmp_path, BASE, other)
    assert len(found.outcomes[other]) == len(found.outcomes[BASE])
    assert document(found, "h", "all")["configurations"][1]["settings"]["language"] == "german"
    with pytest.raises(EvaluationError, match="klingon"):
        await evaluated(tmp_path, Configuration("settings", language="klingon"))


async def test_a_judgement_of_what_is_not_there_is_counted(tmp_path: Path) -> None:
    memories, queries = small_set.write(tmp_path)
    judged = read_memories(memories)
    asked = read_queries(queries)
    asked.append(JudgedQuery("garden", "q", "lost", ("never",), "words"))
    found = await evaluate_set(
        judged, asked, HashingEmbedder(64), tmp_path, (BASE,), Prefixes(), lambda _: None
    )
    assert found.unknown == 1


async def test_questions_of_a_space_without_memories_are_refused(tmp_path: Path) -> None:
    memories, _ = small_set.write(tmp_path)
    asked = [JudgedQuery("nowhere", "q", "lost", ("1",), "words")]
    with pytest.raises(EvaluationError, match="nowhere"):
        await evaluate_set(
            read_memories(memories), asked, HashingEmbedder(64), tmp_path, (BASE,), Prefixes(), print
        )


async def test_a_space_that_is_there_is_asked_by_uri(tmp_path: Path, executor: Executor) -> None:
    memories, _ = small_set.write(tmp_path)
    garden = [memory for memory in read_memories(memories) if memory.space == "garden"]
    embedder = HashingEmbedder(64)
    vectors = VectorFile.open(tmp_path / "vectors", await embedder.key())
    await vectors.fill(embedder, "document", [memory.text for memory in garden])
    config = Config(await embedder.key(), "2026-01-01T00:00:00Z")
    async with indexed(garden, vectors, config, tmp_path, executor, now, ANALYSIS) as space:
        uris = {name: uri for uri, name in space.names.items()}
        uri = space.store.space
    (path,) = tmp_path.glob("*.db")
    asked = [JudgedQuery(uri, "q1", "compost heap", (uris["garden-2"],), "words")]
    found = await evaluate_space(path, uri, asked, embedder, tmp_path / "vectors", (BASE,))
    assert found.outcomes[BASE][0].measured["keyword"].of("mrr") == 1.0
    assert (found.memories, found.unknown) == (8, 0)

    with pytest.raises(EvaluationError, match="is searched with hashing-64"):
        await evaluate_space(path, uri, asked, HashingEmbedder(65), tmp_path / "vectors", (BASE,))
    with pytest.raises(EvaluationError, match="own language"):
        german = Configuration("settings", language="german")
        await evaluate_space(path, uri, asked, embedder, tmp_path / "vectors", (german,))
    wrong = [replace(asked[0], relevant=("garden-2",))]
    with pytest.raises(EvaluationError, match="no AT URI"):
        await evaluate_space(path, uri, wrong, embedder, tmp_path / "vectors", (BASE,))


async def test_a_space_that_is_not_there_is_told(tmp_path: Path) -> None:
    space = SpaceUri.public(Did("did:plc:nobody"))
    with pytest.raises(EvaluationError, match="has no memories here"):
        await evaluate_space(tmp_path / "x.db", space, [], HashingEmbedder(64), tmp_path, (BASE,))
