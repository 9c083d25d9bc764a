"""Whole repos: from the CAR of `com.atproto.sync.getRepo`, as it streams in, to the records it proves.

Memory is bounded whatever the CAR claims: blocks go to a `BlockFile`, one section is held at a time, and the
caller ends a stream that is too slow. Nothing is given out before the signature holds; each record is given
out only as the walk over the strictly checked tree reaches it, so that a caller applies a repo only once the
walk has ended without an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from appview.ingest.block_files import BlockFile
from appview.ingest.car import MAX_REPO_BLOCKS, MAX_REPO_BYTES, CarReader
from appview.ingest.commits import check_rev, read_signed
from appview.ingest.errors import Rejected
from appview.ingest.mst import EMPTY_NODE, EMPTY_TREE, walk
from lexicons.data import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from appview.identity.keys import PublicKey
    from appview.ingest.mst import Leaf
    from lexicons.syntax import Did


@dataclass(frozen=True, slots=True)
class RepoRecord:
    """One record of a repo: bytes that hash to `cid`, at a place in the signed tree."""

    collection: str
    rkey: str
    cid: bytes
    record: bytes


class RepoSnapshot:
    """A repo as of one signed commit; `size` is the bytes that it came in."""

    def __init__(self, did: Did, rev: str, data: bytes, blocks: BlockFile, size: int) -> None:
        self.did = did
        self.rev = rev
        self.data = data
        self.size = size
        self._blocks = blocks

    def leaves(self) -> Iterator[Leaf]:
        """Walk the whole tree, giving what it names in order of the paths.

        Raises `Rejected` (`bad-node`, `missing-block`) where the tree is not one; then nothing given before
        counts.
        """
        return walk(self.data, self._node)

    def record(self, cid: bytes) -> bytes:
        """Give a record that a leaf names; raise `Rejected` (`missing-block`)."""
        record = self._blocks.get(cid)
        if record is None:
            raise Rejected("missing-block", f"no record {Link(cid)}")
        return record

    def records(self, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[RepoRecord]:
        """Walk the whole tree, giving the records of the wanted collections in order of their paths; raise
        `Rejected`."""
        for leaf in self.leaves():
            if wanted(leaf.collection):
                yield RepoRecord(leaf.collection, leaf.rkey, leaf.cid, self.record(leaf.cid))

    def _node(self, cid: bytes) -> bytes | None:
        return EMPTY_NODE if cid == EMPTY_TREE else self._blocks.get(cid)


class RepoReader:
    """Reads one repo: `feed` it the bytes, then `finish`. A context manager: the snapshot lives inside it."""

    def __init__(
        self,
        did: Did,
        key: PublicKey,
        *,
        folder: Path | None = None,
        max_bytes: int = MAX_REPO_BYTES,
        max_blocks: int = MAX_REPO_BLOCKS,
    ) -> None:
        self._did = did
        self._key = key
        self._car = CarReader(max_bytes=max_bytes, max_blocks=max_blocks)
        self._blocks = BlockFile(folder)

    @property
    def bytes_read(self) -> int:
        """How much has come so far."""
        return self._car.bytes_read

    def feed(self, chunk: bytes) -> None:
        """Take more bytes. Raises `Rejected`, `StoreError`."""
        self._blocks.add(self._car.feed(chunk))

    def finish(self, now: int) -> RepoSnapshot:
        """Check the signature, once all bytes have come; `now` in microseconds. Raises `Rejected`."""
        self._car.finish()
        self._blocks.seal()
        block = self._blocks.get(self._car.roots[0])
        if block is None:
            raise Rejected("missing-block", "the commit object is not there")
        signed = read_signed(block, self._did, self._key)
        check_rev(signed.rev, now)
        return RepoSnapshot(self._did, signed.rev, signed.data, self._blocks, self.bytes_read)

    def close(self) -> None:
        """Drop the blocks."""
        self._blocks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prove_repo(
    did: Did,
    key: PublicKey,
    chunks: Iterable[bytes],
    now: int,
    wanted: Callable[[str], bool] = lambda _: True,
) -> tuple[str, bytes, list[RepoRecord]]:
    """Prove a repo whose bytes are at hand. Returns (rev, root of the tree, records). Raises `Rejected`."""
    with RepoReader(did, key) as reader:
        for chunk in chunks:
            reader.feed(chunk)
        snapshot = reader.finish(now)
        return snapshot.rev, snapshot.data, list(snapshot.records(wanted))
