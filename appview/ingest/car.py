"""CAR files, version 1: a reader that is fed bytes as they come, and the same over bytes at hand.

Invariants:
- No block leaves the reader unless its bytes hash to its CID. (The libraries do not check.)
- No length is believed: at most one block and one chunk are held, whatever the file claims.
- Only the CIDs of the data model are read: version 1, dag-cbor or raw, SHA-256.

Source: ipld.io/specs/transport/car/carv1, atproto.com/specs/repository.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from appview.ingest.errors import Rejected
from lexicons.data import CID_BYTES, DAG_CBOR_PREFIX, RAW_PREFIX, Link, decode
from lexicons.errors import InvalidData

MAX_HEADER_BYTES: Final = 4_096  # ours: a header with one root takes 58
MAX_BLOCK_BYTES: Final = 2_000_000  # sync spec, the largest that a commit could carry
MAX_REPO_BYTES: Final = 2_000_000_000  # ours: the whole of one repo
MAX_REPO_BLOCKS: Final = 5_000_000  # ours: 16 bytes of memory each while a repo is read
_MAX_VARINT: Final = 4  # bytes: 2**28 is above every limit

Block = tuple[bytes, bytes]  # CID, bytes that hash to it


@dataclass(frozen=True, slots=True)
class Car:
    """A CAR that was read whole. A CID that comes twice counts once."""

    roots: tuple[bytes, ...]
    blocks: dict[bytes, bytes]


def read_car(data: bytes) -> Car:
    """Read a whole CAR; raise `Rejected` (`malformed-car`, `bad-block-hash`, `too-big`)."""
    reader = CarReader()
    blocks = dict(reader.feed(data))
    reader.finish()
    return Car(reader.roots, blocks)


class CarReader:
    """Reads a CAR in pieces of any size: `feed` gives complete blocks, `finish` says that was all.

    After an error the reader is of no further use.
    """

    def __init__(self, *, max_bytes: int = MAX_REPO_BYTES, max_blocks: int = MAX_REPO_BLOCKS) -> None:
        self.roots: tuple[bytes, ...] = ()
        self.bytes_read = 0
        self.blocks_read = 0
        self._max_bytes = max_bytes
        self._max_blocks = max_blocks
        self._rest = b""  # the beginning of a section
        self._pending: list[bytes] = []  # chunks after it that do not complete it yet
        self._have = 0
        self._need = 1  # bytes before another look is worth it
        self._header_read = False

    def feed(self, chunk: bytes) -> list[Block]:
        """Take more bytes; raise `Rejected` (`malformed-car`, `bad-block-hash`, `too-big`)."""
        self.bytes_read += len(chunk)
        if self.bytes_read > self._max_bytes:
            raise Rejected("too-big", f"a repo of more than {self._max_bytes} bytes")
        self._pending.append(chunk)
        self._have += len(chunk)
        if self._have < self._need:
            return []
        data = chunk if self._have == len(chunk) else b"".join((self._rest, *self._pending))
        self._pending.clear()
        blocks, used, wanted = self._sections(data)
        self._rest = data[used:]
        self._have = len(self._rest)
        self._need = max(wanted, self._have + 1)
        return blocks

    def finish(self) -> None:
        """Say that no more bytes come; raise `Rejected` (`malformed-car`) where some are missing."""
        if not self._header_read:
            raise Rejected("malformed-car", "no header")
        if self._have:
            raise Rejected("malformed-car", "truncated")

    def _sections(self, data: bytes) -> tuple[list[Block], int, int]:
        """Read whole sections. Returns (blocks, bytes used, bytes that the section after them needs)."""
        blocks: list[Block] = []
        at, end = 0, len(data)
        sha256 = hashlib.sha256
        while at < end:
            length, start = data[at], at + 1
            if length > 0x7F:
                read = _varint(data, at)
                if read is None:
                    return blocks, at, end - at + 1
                length, start = read
            stop = start + length
            if not self._header_read:
                if length > MAX_HEADER_BYTES:
                    raise Rejected("malformed-car", f"a header of {length} bytes, at most {MAX_HEADER_BYTES}")
                if stop > end:
                    return blocks, at, stop - at
                self.roots = _header(data[start:stop])
                self._header_read = True
                at = stop
                continue
            if length > MAX_BLOCK_BYTES + CID_BYTES:
                raise Rejected("too-big", f"a block of {length} bytes, at most {MAX_BLOCK_BYTES}")
            if length < CID_BYTES:
                raise Rejected("malformed-car", "a section without a CID of the data model")
            if stop > end:
                return blocks, at, stop - at
            body = start + CID_BYTES
            cid, block = data[start:body], data[body:stop]
            if cid[:4] != DAG_CBOR_PREFIX and cid[:4] != RAW_PREFIX:
                raise Rejected("malformed-car", "a CID that is not of the data model")
            if cid[4:] != sha256(block).digest():
                raise Rejected("bad-block-hash", f"a block does not hash to its CID {Link(cid)}")
            blocks.append((cid, block))
            self.blocks_read += 1
            if self.blocks_read > self._max_blocks:
                raise Rejected("too-big", f"a repo of more than {self._max_blocks} blocks")
            at = stop
        return blocks, at, 1


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Read a LEB128 length. Returns (length, position after it), or None where it is not complete."""
    length = 0
    for index in range(_MAX_VARINT):
        if at + index >= len(data):
            return None
        byte = data[at + index]
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if index and not byte:
                raise Rejected("malformed-car", "a length that is not minimal")
            return length, at + index + 1
    raise Rejected("too-big", f"a length of more than {_MAX_VARINT} bytes")


def _header(block: bytes) -> tuple[bytes, ...]:
    try:
        header = decode(block)
    except InvalidData as error:
        raise Rejected("malformed-car", f"the header is {error}") from None
    if type(header) is not dict or type(header.get("version")) is not int or header["version"] != 1:
        raise Rejected("malformed-car", "not a CAR of version 1")
    roots = header.get("roots")
    if type(roots) is not list or not roots or not all(type(root) is Link for root in roots):
        raise Rejected("malformed-car", "no roots")
    return tuple(root.cid_bytes for root in roots)
