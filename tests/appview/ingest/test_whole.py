"""Whole repos as updates for the spaces: judged on the way, laid aside, read as often as a store wants."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.errors import StoreError
from appview.ingest import spool as spools
from appview.ingest.errors import Rejected
from appview.ingest.route import judge_memory, targets
from appview.ingest.scratch import Scratch
from appview.ingest.snapshots import RepoRecord
from appview.ingest.spool import Spool
from appview.ingest.whole import route_repo
from appview.memory.scope import EVERYTHING, Scope, Subtree
from appview.memory.values import Put, Refuse
from lexicons.data import cid_of, cid_text
from lexicons.embeddings import Embedding
from lexicons.ids import CONFIG, MEMORY
from lexicons.memories import Memory
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.test_route import ALICE, BOB, GARDEN, MODEL, REV, SHED, record
from tests.network.synthetic import tid
from tests.network.synthetic.blocks import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from appview.memory.values import Change

TREE = cid_of(b"tree")
SCOPES = {GARDEN: EVERYTHING, SHED: EVERYTHING}


def held(value: dict[str, Any] | bytes, number: int = 0, collection: str = str(MEMORY)) -> RepoRecord:
    block = value if isinstance(value, bytes) else encode(value)
    rkey = "self" if collection == CONFIG else tid(1_700_000_000_000_000 + number)
    return RepoRecord(collection, rkey, cid_of(block), block)


def expected(records: list[RepoRecord], space: SpaceUri, scopes: dict[SpaceUri, Scope]) -> list[Change]:
    """Judge with everything in memory."""
    judged = [judge_memory(each.rkey, cid_text(each.cid), each.record) for each in records]
    return [each.change for each in judged if space in targets(ALICE, each.topics, scopes)]


def test_a_whole_repo_is_a_complete_update_for_each_space_even_when_it_is_empty_there() -> None:
    records = [held(record(tags=(f"space={BOB}",)), 1), held(b"\xff", 2)]
    routed = route_repo(ALICE, REV, TREE, records, SCOPES)
    assert all(
        (update.complete, update.rev, update.data) == (True, REV, cid_text(TREE))
        for update in routed.updates.values()
    )
    assert [type(item) for item in routed.updates[GARDEN].changes] == [Refuse]
    assert [type(item) for item in routed.updates[SHED].changes] == [Put, Refuse]
    assert (routed.refused, routed.memories) == ({"record": 1}, 2)
    nothing = route_repo(ALICE, REV, TREE, [], {GARDEN: EVERYTHING}).updates[GARDEN].changes
    assert (list(nothing), len(nothing)) == ([], 0)


def test_what_goes_nowhere_is_neither_kept_nor_counted_as_refused() -> None:
    scopes = {GARDEN: Scope(allow=frozenset({Subtree("/elsewhere")}))}
    blank = record("  ", tags=("/here",))
    routed = route_repo(ALICE, REV, TREE, [held(record(tags=("/here",)), 1), held(blank, 2)], scopes)
    assert len(routed.updates[GARDEN].changes) == 0
    assert (routed.refused, routed.memories) == ({}, 2)


def test_a_repo_whose_author_may_write_nowhere_is_not_judged() -> None:
    routed = route_repo(ALICE, REV, TREE, [held(b"\xff")], {})
    assert (routed.updates, routed.memories, routed.refused) == ({}, 1, {})


def test_the_config_is_found_wherever_it_stands() -> None:
    config = {**MODEL.to_record(), "createdAt": "2026-11-30T09:15:00.000Z"}
    routed = route_repo(ALICE, REV, TREE, [held(config, 0, str(CONFIG)), held(record(), 1)], {})
    assert routed.config is not None and routed.config.config is not None
    assert routed.config.config.model == MODEL
    assert route_repo(ALICE, REV, TREE, [held(record(), 1)], {}).config is None
    invalid = route_repo(ALICE, REV, TREE, [held(b"\xff", 0, str(CONFIG))], {}).config
    assert invalid is not None and invalid.problem


@pytest.mark.parametrize(
    ("tag", "counted"),
    [
        ("space=junk", {"no DID": 1}),
        ("space=did:plc:elsewhere", {"no space that takes it": 1}),
        (f"space={ALICE}", {}),
    ],
)
def test_a_memory_that_its_own_tag_keeps_out_of_every_space_is_counted(
    tag: str, counted: dict[str, int]
) -> None:
    assert route_repo(ALICE, REV, TREE, [held(record(tags=(tag,)))], SCOPES).strays == Counter(counted)


def test_a_walk_that_ends_in_an_error_gives_nothing() -> None:
    def records() -> Iterator[RepoRecord]:
        yield held(record(), 1)
        raise Rejected("missing-block", "no record")

    with pytest.raises(Rejected):
        route_repo(ALICE, REV, TREE, records(), SCOPES)


VECTORS = st.binary(max_size=300)
MEMORIES = st.builds(
    Memory,
    st.text(min_size=1, max_size=50),
    st.just("2026-11-30T09:15:00.000Z"),
    st.builds(Embedding, st.just(MODEL), VECTORS, st.sampled_from(["f16le", "other"])),
    st.none() | st.builds(Embedding, st.just(ModelKey("next", "sha256:next", 8)), VECTORS),
    st.lists(st.sampled_from(["/a", "/b/c", "k=v", "ß", f"space={BOB}", "space=junk"]), max_size=4).map(
        tuple
    ),
    st.none() | st.text(min_size=1, max_size=20),
)
RECORDS = st.lists(
    MEMORIES.map(lambda memory: encode(memory.to_record())) | st.binary(max_size=40), max_size=30
)


@given(
    blocks=RECORDS,
    more=st.integers(0, 20),
    memory_bytes=st.sampled_from([1, 1_000, 1_000_000]),
    read_bytes=st.sampled_from([1, 64, 131_072]),
)
def test_what_was_laid_aside_is_what_was_judged(
    blocks: list[bytes], more: int, memory_bytes: int, read_bytes: int
) -> None:
    spaces = [SpaceUri.public(Did(f"did:plc:more{number}")) for number in range(more)]
    scopes = dict.fromkeys([*spaces, GARDEN], EVERYTHING) | {SHED: Scope(allow=frozenset({Subtree("/a")}))}
    records = [held(block, number) for number, block in enumerate(blocks)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spools, "MEMORY_BYTES", memory_bytes)
        patched.setattr(spools, "READ_BYTES", read_bytes)
        routed = route_repo(ALICE, REV, TREE, records, scopes)
        for space, update in routed.updates.items():
            wanted = expected(records, space, scopes)
            assert list(update.changes) == wanted
            assert list(update.changes) == wanted, "a store that failed reads it again"
            assert len(update.changes) == len(wanted)


def test_memory_does_not_grow_with_the_repo() -> None:
    def records(count: int) -> Iterator[RepoRecord]:
        return (held(record(f"{number} " + "x" * 10_000), number) for number in range(count))

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            routed = route_repo(ALICE, REV, TREE, records(count), SCOPES)
            read = sum(1 for update in routed.updates.values() for _ in update.changes)
            assert read == 2 * count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(2_000) < 4_000_000, "20 MB"


def test_many_stores_read_at_once(tmp_path: Path) -> None:
    records = [held(record(f"memory {number} " * 200), number) for number in range(500)]
    routed = route_repo(ALICE, REV, TREE, records, SCOPES, tmp_path)
    wanted = expected(records, GARDEN, SCOPES)
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda space: list(routed.updates[space].changes), [GARDEN, SHED] * 4)
        assert all(each == wanted for each in found)


# What it is laid aside in


@pytest.mark.parametrize("memory_bytes", [1, 10, 1_000])
def test_bytes_come_back_from_memory_and_from_a_file(memory_bytes: int, tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, memory_bytes=memory_bytes)
    places = [scratch.append(b"ab", bytes([number]) * number) for number in range(20)]
    scratch.seal()
    assert all(
        scratch.read(place, 2 + number) == b"ab" + bytes([number]) * number
        for number, place in enumerate(places)
    )
    assert len(scratch) == places[-1] + 21
    assert scratch.read(len(scratch) - 1, 100) == bytes([19])
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_the_file_goes_with_the_last_that_refers_to_it() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()
    before = descriptors()
    spool = Spool([GARDEN], memory_bytes=1)
    spool.add([GARDEN], TREE, Refuse("a", "", "blank", "the text is blank"))
    spool.seal()
    changes = spool.changes(GARDEN)
    del spool
    assert descriptors() == before + 1
    assert [change.rkey for change in changes] == ["a"]
    del changes
    assert descriptors() == before


def test_a_disk_that_does_not_take_it_is_told(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "absent", memory_bytes=10)
    scratch.append(b"fits")
    with pytest.raises(StoreError, match="cannot lay a repo aside"):
        scratch.append(b"fits no more")
