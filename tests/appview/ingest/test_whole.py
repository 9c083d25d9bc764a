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
from appview.ingest import whole
from appview.ingest.block_files import BlockFile
from appview.ingest.errors import Rejected
from appview.ingest.route import judge_bytes, judge_memory, stray_of, targets
from appview.ingest.scratch import Scratch
from appview.ingest.snapshots import RepoRecord, RepoSnapshot
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
from tests.network.synthetic import mst as trees
from tests.network.synthetic import tid
from tests.network.synthetic.blocks import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.ingest.route import Judged
    from appview.memory.values import Change

SCOPES = {GARDEN: EVERYTHING, SHED: EVERYTHING}


def held(
    value: dict[str, Any] | bytes, number: int = 0, collection: str = str(MEMORY), *, fits: bool = True
) -> RepoRecord:
    block = value if isinstance(value, bytes) else encode(value)
    key = tid(1_700_000_000_000_000 + number)
    rkey = "self" if collection == CONFIG else key if fits else key[1:]
    return RepoRecord(collection, rkey, cid_of(block), block)


def repo_of(records: Iterable[RepoRecord], size: int = 0, *, lost: bytes = b"") -> RepoSnapshot:
    """Make a repo of some records, without the block of the one that was lost."""
    blocks, items = BlockFile(), {}
    for each in records:
        items[f"{each.collection}/{each.rkey}"] = each.cid
        if each.cid != lost:
            blocks.add([(each.cid, each.record)])
    root, nodes = trees.build(items)
    blocks.add(nodes.items())
    blocks.seal()
    return RepoSnapshot(ALICE, REV, root, blocks, size)


def expected(records: list[RepoRecord], space: SpaceUri, scopes: dict[SpaceUri, Scope]) -> list[Change]:
    """Judge with everything in memory."""
    judged = [judge_memory(each.rkey, cid_text(each.cid), each.record) for each in records]
    return [each.change for each in judged if space in targets(ALICE, each.topics, scopes)]


def test_a_whole_repo_is_a_complete_update_for_each_space_even_when_it_is_empty_there() -> None:
    records = [held(record(tags=(f"space={BOB}",)), 1), held(b"\xff", 2)]
    repo = repo_of(records)
    routed = route_repo(repo, SCOPES)
    assert all(
        (update.complete, update.rev, update.data) == (True, REV, cid_text(repo.data))
        for update in routed.updates.values()
    )
    assert [type(item) for item in routed.updates[GARDEN].changes] == [Refuse]
    assert [type(item) for item in routed.updates[SHED].changes] == [Put, Refuse]
    assert (routed.refused, routed.memories) == ({"record": 1}, 2)
    nothing = route_repo(repo_of([]), {GARDEN: EVERYTHING}).updates[GARDEN].changes
    assert (list(nothing), len(nothing)) == ([], 0)


def test_what_goes_nowhere_is_neither_kept_nor_counted_as_refused() -> None:
    scopes = {GARDEN: Scope(allow=frozenset({Subtree("/elsewhere")}))}
    blank = record("  ", tags=("/here",))
    routed = route_repo(repo_of([held(record(tags=("/here",)), 1), held(blank, 2)]), scopes)
    assert len(routed.updates[GARDEN].changes) == 0
    assert (routed.refused, routed.memories) == ({}, 2)


def test_a_repo_whose_author_may_write_nowhere_is_not_judged() -> None:
    routed = route_repo(repo_of([held(b"\xff")]), {})
    assert (routed.updates, routed.memories, routed.refused) == ({}, 1, {})


def test_the_config_is_found_wherever_it_stands() -> None:
    config = {**MODEL.to_record(), "createdAt": "2026-11-30T09:15:00.000Z"}
    routed = route_repo(repo_of([held(config, 0, str(CONFIG)), held(record(), 1)]), {})
    assert routed.config is not None and routed.config.config is not None
    assert routed.config.config.model == MODEL
    assert route_repo(repo_of([held(record(), 1)]), {}).config is None
    invalid = route_repo(repo_of([held(b"\xff", 0, str(CONFIG))]), {}).config
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
    assert route_repo(repo_of([held(record(tags=(tag,)))]), SCOPES).strays == Counter(counted)


@pytest.mark.parametrize("scopes", [SCOPES, {}], ids=["with scopes", "without"])
def test_a_walk_that_ends_in_an_error_gives_nothing(scopes: dict[SpaceUri, Scope]) -> None:
    lost = held(record(text="lost"), 2)
    with pytest.raises(Rejected, match="missing-block"):
        route_repo(repo_of([held(record(), 1), lost], lost=lost.cid), scopes)


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
BLOCKS = MEMORIES.map(lambda memory: encode(memory.to_record())) | st.binary(max_size=40)
# Many keys may name one record, and keys may be such that no memory can have.
RECORDS = st.lists(BLOCKS, min_size=1, max_size=12).flatmap(
    lambda blocks: st.lists(st.tuples(st.sampled_from(blocks), st.booleans()), max_size=30)
)


@given(
    named=RECORDS,
    known=st.sampled_from([1, 2, 4_096]),
    more=st.integers(0, 20),
    memory_bytes=st.sampled_from([1, 1_000, 1_000_000]),
    read_bytes=st.sampled_from([1, 64, 131_072]),
)
def test_what_was_laid_aside_is_what_was_judged(
    named: list[tuple[bytes, bool]], known: int, more: int, memory_bytes: int, read_bytes: int
) -> None:
    spaces = [SpaceUri.public(Did(f"did:plc:more{number}")) for number in range(more)]
    scopes = dict.fromkeys([*spaces, GARDEN], EVERYTHING) | {SHED: Scope(allow=frozenset({Subtree("/a")}))}
    records = [held(block, number, fits=fits) for number, (block, fits) in enumerate(named)]
    records.sort(key=lambda each: each.rkey)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spools, "MEMORY_BYTES", memory_bytes)
        patched.setattr(spools, "READ_BYTES", read_bytes)
        patched.setattr(whole, "MAX_KNOWN", known)
        routed = route_repo(repo_of(records), scopes)
        for space, update in routed.updates.items():
            wanted = expected(records, space, scopes)
            assert list(update.changes) == wanted
            assert list(update.changes) == wanted, "a store that failed reads it again"
            assert len(update.changes) == len(wanted)
    judged = [judge_memory(each.rkey, "", each.record) for each in records]
    chosen = [targets(ALICE, each.topics, scopes) for each in judged]
    refused = [
        each.change.reason
        for each, spaces in zip(judged, chosen, strict=True)
        if spaces and isinstance(each.change, Refuse)
    ]
    strays = [stray_of(each.topics, spaces) for each, spaces in zip(judged, chosen, strict=True)]
    assert routed.refused == Counter(refused)
    assert routed.strays == Counter(stray for stray in strays if stray is not None)
    assert routed.memories == len(records)


def test_a_record_that_many_keys_name_is_judged_and_laid_aside_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, laid = [], []

    class Noted(Scratch):
        def append(self, *parts: bytes) -> int:
            laid.append(sum(map(len, parts)))
            return super().append(*parts)

    def judge(block: bytes) -> Judged:
        judged.append(block)
        return judge_bytes(block)

    monkeypatch.setattr(spools, "Scratch", Noted)
    monkeypatch.setattr(whole, "judge_bytes", judge)
    large, wrong = record(text="x" * 10_000), record(text="x" * 1_000_000)
    records = [held((large, wrong)[number % 2], number) for number in range(1_000)]
    routed = route_repo(repo_of(records, 2_000_000), SCOPES)
    assert len(judged) == 2
    assert sum(laid) < 2 * 11_000 + 1_000 * 100
    assert list(routed.updates[GARDEN].changes) == expected(records, GARDEN, SCOPES)


def test_what_a_repo_puts_into_spaces_stands_in_proportion_to_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = judge_bytes(encode(record())).change
    size = Spool([GARDEN]).add([GARDEN], cid_of(b"x"), tid(1), content).size
    records = [held(record(), number) for number in range(9)]

    def take(count: int, repo_size: int) -> int:
        routed = route_repo(repo_of(records[:count], repo_size), SCOPES)
        return len(routed.updates[GARDEN].changes)

    def is_refused(count: int, repo_size: int) -> bool:
        with pytest.raises(Rejected) as caught:
            take(count, repo_size)
        return caught.value.reason == "too-big"

    assert take(9, 0) == 9, "a small repo may put more into spaces than it has"
    monkeypatch.setattr(whole, "MIN_ALLOWED_BYTES", 3 * size)
    assert take(3, 0) == 3
    assert is_refused(4, 0)
    assert take(whole.MAX_TIMES * 2, 2 * size) == whole.MAX_TIMES * 2
    assert is_refused(whole.MAX_TIMES * 2 + 1, 2 * size)


def test_records_that_go_nowhere_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MIN_ALLOWED_BYTES", 1)
    stray = [held(record(tags=("space=junk",)), number) for number in range(100)]
    assert route_repo(repo_of(stray), SCOPES).memories == 100


def test_memory_does_not_grow_with_the_repo() -> None:
    def peak(count: int) -> int:
        repo = repo_of(held(record(f"{number} " + "x" * 10_000), number) for number in range(count))
        tracemalloc.start()
        try:
            routed = route_repo(repo, SCOPES)
            read = sum(1 for update in routed.updates.values() for _ in update.changes)
            assert read == 2 * count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(2_000) < 4_000_000, "20 MB"


def test_many_stores_read_at_once(tmp_path: Path) -> None:
    records = [held(record(f"memory {number} " * 200), number) for number in range(500)]
    routed = route_repo(repo_of(records), SCOPES, tmp_path)
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
    spool.add([GARDEN], cid_of(b"a"), tid(1), Refuse("", "", "blank", "the text is blank"))
    spool.seal()
    changes = spool.changes(GARDEN)
    del spool
    assert descriptors() == before + 1
    assert [change.rkey for change in changes] == [tid(1)]
    del changes
    assert descriptors() == before


def test_a_disk_that_does_not_take_it_is_told(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "absent", memory_bytes=10)
    scratch.append(b"fits")
    with pytest.raises(StoreError, match="cannot lay a repo aside"):
        scratch.append(b"fits no more")
