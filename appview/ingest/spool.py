"""What a whole repo puts into spaces, laid aside between the walk that judged it and the stores that take it.

An entry has all that a store needs of a record and nothing else: text and tags once, vectors as published.
Entries stand in the order in which the tree has their records. A store reads them one at a time, as often as
it has to, so that a repo of any size takes the memory of one record there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import cbrrr

from appview.ingest.scratch import Scratch
from appview.memory.values import Change, Put, Refuse
from lexicons.data import CID_BYTES, cid_text
from lexicons.embeddings import Embedding
from lexicons.memories import Memory
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lexicons.spaces import SpaceUri

MEMORY_BYTES: Final = 1_000_000  # ours: what a small repo holds never touches the disk
READ_BYTES: Final = 131_072  # read at once
_LENGTH_BYTES: Final = 4
_MAX_KEYS: Final = 1_000  # models that are remembered while entries are read


class Spool:
    """Takes changes with `add`; once sealed, gives those of each space with `changes`."""

    def __init__(
        self, spaces: Sequence[SpaceUri], folder: Path | None = None, *, memory_bytes: int | None = None
    ) -> None:
        self._scratch = Scratch(folder, memory_bytes=MEMORY_BYTES if memory_bytes is None else memory_bytes)
        self._bits = {space: 1 << place for place, space in enumerate(spaces)}
        self._mask_bytes = (len(spaces) + 7) // 8
        self._counts = dict.fromkeys(spaces, 0)

    def add(self, spaces: Iterable[SpaceUri], cid: bytes, change: Put | Refuse) -> None:
        """Lay a change aside for some of the spaces, with this CID, not its own. Raises `StoreError`."""
        mask = 0
        for space in spaces:
            mask |= self._bits[space]
            self._counts[space] += 1
        entry = cbrrr.encode_dag_cbor(_put(change) if isinstance(change, Put) else _refuse(change))
        self._scratch.append(
            (len(entry)).to_bytes(_LENGTH_BYTES, "big"), mask.to_bytes(self._mask_bytes, "big"), cid, entry
        )

    def seal(self) -> None:
        """Say that this was all. Raises `StoreError`."""
        self._scratch.seal()

    def changes(self, space: SpaceUri) -> SpooledChanges:
        """Give what goes to a space."""
        return SpooledChanges(self, self._bits[space], self._counts[space])

    def read(self, bit: int) -> Iterator[Put | Refuse]:
        """Read the changes whose mask has a bit, in order. Raises `StoreError`."""
        read, size, mask_bytes = self._scratch.read, len(self._scratch), self._mask_bytes
        head = _LENGTH_BYTES + mask_bytes + CID_BYTES
        keys: dict[tuple[str, str, int], ModelKey] = {}
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
                cid = cid_text(data[body - CID_BYTES : body])
                yield _change(cid, cbrrr.decode_dag_cbor(data[body : body + length]), keys)
            at = body + length


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
        change.rkey,
        memory.text,
        memory.created_at,
        memory.source,
        list(memory.tags),
        _embedding(memory.embedding),
        None if following is None else _embedding(following),
    ]


def _refuse(change: Refuse) -> list[Any]:
    return [
        change.rkey,
        change.reason,
        change.detail,
        change.brief,
        None if change.tags is None else list(change.tags),
    ]


def _embedding(embedding: Embedding) -> list[Any]:
    key = embedding.key
    return [key.model, key.digest, key.dims, embedding.encoding, embedding.vector]


def _change(cid: str, entry: Any, keys: dict[tuple[str, str, int], ModelKey]) -> Put | Refuse:
    if len(entry) == 5:
        rkey, reason, detail, brief, tags = entry
        return Refuse(rkey, cid, reason, detail, None if tags is None else tuple(tags), brief)
    rkey, text, created_at, source, tags, embedding, following = entry
    return Put(
        rkey,
        cid,
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
