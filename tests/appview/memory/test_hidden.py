"""An author whose account is not active: for a reader it is as if nothing of the author's had ever come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from appview.memory.scope import EVERYTHING, Exact, Scope, Subtree
from appview.memory.store import SpaceStore
from appview.memory.values import Filters, Visibility
from lexicons.syntax import AtUri
from tests.appview.memory.support import ALICE, BOB, SPACE, WordAnalyser, commit, memory, put, refuse

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from tests.appview.memory.support import Clock

HERS = commit(1, put("a", memory("hers", "/p", "x")), refuse("b"), put("c", memory("mine too", "/q/r")))
HIS = commit(2, put("d", memory("his", "/p", "x")), refuse("e"), author=BOB)
SCOPES = [
    EVERYTHING,
    Scope(frozenset({Subtree("/p")})),
    Scope(frozenset({Subtree("/")}), frozenset({Exact("/q")})),
]


async def seen(store: SpaceStore, scope: Scope) -> list[Any]:
    """Read everything that a reader can, without the numbers that rows happen to have."""
    scope = store.visible(scope)
    rows = [
        await store.list(scope, limit=100),
        await store.list(scope, Filters(author=ALICE), limit=100),
        await store.list(scope, Filters(tags=("x",)), limit=100),
        await store.path_facts(scope, "/p", limit=100),
        [
            found
            for did in (ALICE, BOB)
            for rkey in "abcde"
            if (found := await store.get(AtUri(f"at://{did}/garden.engram.memory/{rkey}"), scope)) is not None
        ],
    ]
    uris = [[fact.uri for fact in found] for found in rows]
    tree = [await store.paths(scope, parent, limit=100) for parent in ("/", "/q")]
    return [uris, tree, await store.status(scope)]


@pytest.mark.parametrize("scope", SCOPES, ids=["everything", "a path", "all but a path"])
async def test_a_hidden_author_is_as_one_who_never_wrote(
    store: SpaceStore, tmp_path: Path, executor: ThreadPoolExecutor, clock: Clock, scope: Scope
) -> None:
    other = await SpaceStore.open(tmp_path / "other.db", SPACE, executor, clock, analyser=WordAnalyser())
    await other.configure(store.config)
    await other.apply([HIS])
    await store.apply([HERS, HIS])
    with_her = await seen(store, scope)
    await store.apply([Visibility(ALICE, True)])
    assert await seen(store, scope) == await seen(other, scope) != with_her
    await store.apply([Visibility(ALICE, False)])
    assert await seen(store, scope) == with_her
    await other.close()


async def test_what_comes_of_a_hidden_author_is_kept_and_hidden(store: SpaceStore) -> None:
    await store.apply([Visibility(ALICE, True), HERS, HIS])
    assert [fact.author for fact in await store.list(store.visible(EVERYTHING), limit=9)] == [BOB]
    assert set(await store.live(ALICE)) == {"a", "b", "c"}
    await store.apply([Visibility(ALICE, False)])
    assert len(await store.list(store.visible(EVERYTHING), limit=9)) == 3


async def test_the_data_version_moves_when_and_only_when_somebody_goes_or_comes(store: SpaceStore) -> None:
    await store.apply([HERS])
    versions = []
    for hidden in (False, True, True, False):
        await store.apply([Visibility(ALICE, hidden)])
        versions.append(await store.data_version())
    assert [version - versions[0] for version in versions] == [0, 1, 1, 2]


async def test_the_file_knows_who_is_hidden_and_forgets_one_who_is_removed(
    store: SpaceStore, path: Path, executor: ThreadPoolExecutor, clock: Clock
) -> None:
    await store.apply([HERS, HIS, Visibility(ALICE, True), Visibility(BOB, True)])
    await store.remove_author(BOB)
    assert store.hidden == {ALICE}
    again = await SpaceStore.open(path, SPACE, executor, clock, analyser=WordAnalyser())
    assert again.hidden == {ALICE}
    await again.close()
