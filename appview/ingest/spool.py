"""What a whole repo puts into spaces, laid aside between the walk that judged it and the stores that take it.

An entry has all that a store needs of a record and nothing else: text and tags once, vectors as published.
Entries stand in the order in which the tree has their records; one with the content of another before it says
only where that stands. A store reads them one at a time, as often as it has to, so that a repo of any size
takes the memory of two records there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cbrrr

from appview.ingest.route import with_key
from appview.ingest.scratch import Scratch
from appview.memory.values import Change, Put, Refuse
from lexicons.data import CID_BYTES, cid_text
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from appview.memory.values import SkipReason
    from lexicons.spaces import SpaceUri

MEMORY_BYTES: Final = 1_000_000  # ours: what a small repo holds never touches the disk
READ_BYTES: Final = 131_072  # read at once
_LENGTH_BYTES: Final = 4
_MAX_KEYS: Final = 1_000  # models that are remembered while entries are read


class Laid(NamedTuple):
    """Content that is laid aside: where, for which spaces, its bytes, and why it is refused, if it is."""

    place: int
    mask: int
    size: int
    reason: SkipReason | None


class Spool:
    """Takes changes with `add` and `again`; once sealed, gives those of each space with `changes`."""

    def __init__(
        self, spaces: Sequence[SpaceUri], folder: Path | None = None, *, memory_bytes: int | None = None
    ) -> None:
        self._scratch = Scratch(folder, memory_bytes=MEMORY_BYTES if memory_bytes is None else memory_bytes)
        self._bits = {space: 1 << place for place, space in enumerate(spaces)}
        self._mask_bytes = (len(spaces) + 7) // 8
        self._counts = [0] * len(spaces)

    def add(self, spaces: Iterable[SpaceUri], cid: bytes, rkey: str, content: Put | Refuse) -> Laid:
        """Lay a change aside for some of the spaces, with this CID and key; raise `StoreError`."""
        mask = 0
        for space in spaces:
            mask |= self._bits[space]
        entry = cbrrr.encode_dag_cbor([rkey, _put(content) if isinstance(content, Put) else _refuse(content)])
        reason = content.reason if isinstance(content, Refuse) else None
        return Laid(self._append(mask, cid, entry), mask, len(entry), reason)

    def again(self, cid: bytes, rkey: str, laid: Laid) -> None:
        """Lay a change aside that has the content of another. Raises `StoreError`."""
        self._append(laid.mask, cid, cbrrr.encode_dag_cbor([rkey, laid.place]))

    def _append(self, mask: int, cid: bytes, entry: bytes) -> int:
        rest = mask
        while rest:
            lowest = rest & -rest
            self._counts[lowest.bit_length() - 1] += 1
            rest ^= lowest
        return self._scratch.append(
            len(entry).to_bytes(_LENGTH_BYTES, "big"), mask.to_bytes(self._mask_bytes, "big"), cid, entry
        )

    def seal(self) -> None:
        """Say that this was all. Raises `StoreError`."""
        self._scratch.seal()

    def changes(self, space: SpaceUri) -> SpooledChanges:
        """Give what goes to a space."""
        bit = self._bits[space]
        return SpooledChanges(self, bit, self._counts[bit.bit_length() - 1])

    def read(self, bit: int) -> Iterator[Put | Refuse]:
        """Read the changes whose mask has a bit, in order. Raises `StoreError`."""
        read, size, mask_bytes = self._scratch.read, len(self._scratch), self._mask_bytes
        head = _LENGTH_BYTES + mask_bytes + CID_BYTES
        keys: dict[tuple[str, str, int], ModelKey] = {}
        shared: tuple[int, Any] = (-1, None)  # the content that was pointed to last, and its place
        place, data, at = 0, b"", 0  # `data` stands at `place`; the next entry begins `at` inside it
        while place + at < size:
            length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
            needed = head if len(data) - at < head else head + length
            if len(data) - at < needed:
                place, at = place + at, 0
                data = read(place, max(READ_BYTES, needed))
                if len(data) < needed:
                    raise AssertionError("an entry that is cut")
                continue
            body = at + head
            masked = at + _LENGTH_BYTES
            if int.from_bytes(data[masked : masked + mask_bytes], "big") & bit:
                rkey, content = _entry(data[body : body + length])
                if isinstance(content, int):
                    if shared[0] != content:
                        shared = content, self._content(content, head)
                    content = shared[1]
                cid = cid_text(data[body - CID_BYTES : body])
                yield with_key(_change(content, keys), rkey, cid)
            at = body + length

    def _content(self, place: int, head: int) -> Any:
        """Read the content of the entry at a place."""
        read = self._scratch.read
        length = int.from_bytes(read(place, _LENGTH_BYTES), "big")
        return _entry(read(place + head, length))[1]


class SpooledChanges(Collection[Change]):
    """The changes of one space, by ascending record key; each pass reads them anew."""

    ascending: Final = True

    def __init__(self, spool: Spool, bit: int, count: int) -> None:
        self._spool = spool
        self._bit = bit
        self._count = count

    def __iter__(self) -> Iterator[Put | Refuse]:
        return self._spool.read(self._bit)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, change: object) -> bool:
        return any(each == change for each in self)


def _put(change: Put) -> list[Any]:
    memory = change.memory
    following = memory.next_embedding
    return [
        memory.text,
        memory.created_at,
        memory.source,
        list(memory.tags),
        _embedding(memory.embedding),
        None if following is None else _embedding(following),
    ]


def _refuse(change: Refuse) -> list[Any]:
    return [
        change.reason,
        change.detail,
        change.brief,
        None if change.tags is None else list(change.tags),
    ]


def _embedding(embedding: Embedding) -> list[Any]:
    key = embedding.key
    return [key.model, key.digest, key.dims, embedding.encoding, embedding.vector]


def _entry(body: bytes) -> tuple[str, Any]:
    entry: Any = cbrrr.decode_dag_cbor(body)
    rkey, content = entry
    return rkey, content


def _change(content: Any, keys: dict[tuple[str, str, int], ModelKey]) -> Put | Refuse:
    if len(content) == 4:
        reason, detail, brief, tags = content
        return Refuse("", "", reason, detail, None if tags is None else tuple(tags), brief)
    text, created_at, source, tags, embedding, following = content
    return Put(
        "",
        "",
        Memory(
            text,
            created_at,
            _read(embedding, keys),
            None if following is None else _read(following, keys),
            tuple(tags),
            source,
        ),
    )


def _read(entry: Any, keys: dict[tuple[str, str, int], ModelKey]) -> Embedding:
    model, digest, dims, encoding, vector = entry
    key = keys.get((model, digest, dims))
    if key is None:
        if len(keys) >= _MAX_KEYS:
            keys.clear()
        key = keys[model, digest, dims] = ModelKey(model, digest, dims)
    return Embedding(key, vector, encoding)
