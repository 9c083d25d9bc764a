"""Kept questions made ready for a judge: each once, with what all ways of searching find for it.

Of each way the best few are taken together, and shown in an order that tells nothing of which found what,
so that no way is judged by its looks. What none of them found stays unjudged and counts as wrong for whoever
finds it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, Final

from appview.clock import now
from appview.evaluation.runner import MODES
from appview.evaluation.spaces import existing
from appview.memory.scope import EVERYTHING
from appview.memory.superseding import Succession
from appview.memory.values import Filters
from appview.search.analysis import ANALYSIS
from appview.search.derived import ViewCache
from appview.search.engine import Searcher, SearchRequest
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from appview.memory.store import SpaceStore
    from appview.memory.values import Fact
    from appview.query_log import Asked
    from lexicons.models import ModelKey
    from lexicons.spaces import SpaceUri

THREADS: Final = 2  # one question at a time
ID_CHARACTERS: Final = 12  # of a hash, in hexadecimal


def distinct(asked: Iterable[Asked], active: ModelKey | None) -> list[tuple[str, Asked, int]]:
    """Give each question once, with an id and how often it was asked, in the order of the ids: the first of
    them are a fair sample. Of several vectors the newest of the active model is taken."""
    found: dict[str, tuple[Asked, int]] = {}
    for each in asked:
        narrowed = (each.text, each.author, each.tags, each.since, each.include_superseded)
        id_ = sha256(repr(narrowed).encode()).hexdigest()[:ID_CHARACTERS]
        usable = each if each.model == active else replace(each, vector=None, model=None)
        before, count = found.get(id_, (usable, 0))
        if usable.vector is None and before.vector is not None:
            usable = replace(usable, vector=before.vector, model=before.model)
        found[id_] = usable, count + 1
    return [(id_, *found[id_]) for id_ in sorted(found)]


async def pooled(
    path: Path, space: SpaceUri, asked: Iterable[Asked], *, limit: int, depth: int
) -> AsyncIterator[dict[str, Any]]:
    """Write `limit` of the questions, each with the first `depth` hits of each way of searching, without
    judgements. Raises `EvaluationError` and `StoreError`."""
    with ThreadPoolExecutor(THREADS) as executor:
        async with existing(path, space, executor, now, ANALYSIS) as opened:
            searcher = Searcher(cache=ViewCache(ANALYSIS), seconds=inf)
            try:
                for id_, each, count in distinct(asked, opened.store.active)[:limit]:
                    facts, ranks = await _pool(searcher, opened.store, each, depth)
                    order = sorted(facts, key=lambda uri: sha256(f"{id_} {uri}".encode()).digest())
                    yield {
                        "space": space,
                        "id": id_,
                        **each.to_json(),
                        "asked": count,
                        "relevant": [],
                        "candidates": [
                            {
                                "uri": uri,
                                "text": facts[uri].text,
                                "tags": list(facts[uri].tags),
                                "createdAt": facts[uri].created_at,
                                "relevant": None,
                                "ranks": ranks[uri],
                            }
                            for uri in order
                        ],
                    }
            finally:
                await searcher.close()


async def _pool(
    searcher: Searcher, store: SpaceStore, asked: Asked, depth: int
) -> tuple[dict[str, Fact], dict[str, dict[str, int]]]:
    facts: dict[str, Fact] = {}
    ranks: dict[str, dict[str, int]] = {}
    request = SearchRequest(
        text=asked.text,
        vector=asked.vector,
        limit=depth,
        filters=Filters(
            author=None if asked.author is None else Did(asked.author), tags=asked.tags, since=asked.since
        ),
        model=asked.model,
        succession=Succession(shown=asked.include_superseded),
    )
    for mode in MODES if asked.vector is not None else ("keyword",):
        result = await searcher.search(store, replace(request, mode=mode), EVERYTHING)
        await searcher.settled()
        for rank, hit in enumerate(result.hits, start=1):
            facts[hit.fact.uri] = hit.fact
            ranks.setdefault(hit.fact.uri, {})[mode] = rank
    return facts, ranks
