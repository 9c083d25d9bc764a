"""Guards in front of the CBOR decoder.

It makes room for as many items as an array claims to hold. Measured: 100 kB of nested arrays, each claiming
all the bytes that follow it, keep the decoder busy for 2 s; 400 kB for 8 s. In a whole document the claims of
all arrays together cannot exceed its bytes, and that is what is checked.

And every item costs time, however small it is: an empty list is one byte and takes a microsecond to be read
and checked. Where it is known how many items a block needs at most, `refuse_crowds` counts before it is
decoded, and stops counting there.
"""

from __future__ import annotations

from typing import Final

from lexicons.errors import InvalidData

# Items that the decoder may make room for at most without a walk first: 0.1 s of its time. An array of many
# items takes 3 bytes of head or more and claims at most the whole block: a small block cannot exceed it.
MAX_UNCHECKED_ITEMS: Final = 10_000_000
HARMLESS_BYTES: Final = 5_000
_WIDE_ARRAYS: Final = (b"\x99", b"\x9a", b"\x9b")
_BYTES, _TEXT, _ARRAY, _TAG, _SIMPLE = 2, 3, 4, 6, 7  # kinds of items; those below hold nothing
_LARGEST_INSIDE: Final = 23  # of an argument that stands in the head itself
_LENGTH_BYTES: Final = {24: 1, 25: 2, 26: 4, 27: 8}


def refuse_bombs(block: bytes) -> None:
    """Refuse a block whose arrays claim more items than it has bytes; raise `InvalidData`.

    Costs nothing for a small block, three searches for a byte for a large one, and a walk over the tokens
    only where those find many arrays.
    """
    size = len(block)
    if size > HARMLESS_BYTES and sum(map(block.count, _WIDE_ARRAYS)) * size > MAX_UNCHECKED_ITEMS:
        _walk(block)


def refuse_crowds(block: bytes, most: int, *, values: int = 1) -> None:
    """Refuse a block of `values` CBOR values in a row that has more than `most` items; raise `InvalidData`.

    Every value counts, inside of others too: an array or a map one, a key one, a link two. Costs nothing for
    a block of fewer bytes than `most`, and never more than `most` steps. Whether the block is CBOR at all is
    left to the decoder, which reads no further than what is counted here.
    """
    size = len(block)
    if size <= most:
        return
    at = 0
    open_items = total = values  # each item is one that a container, or `values`, has promised
    while open_items and at < size:
        head = block[at]
        kind, argument = head >> 5, head & 31
        at += 1
        if argument > _LARGEST_INSIDE:
            extra = _LENGTH_BYTES.get(argument)
            if extra is None:
                return
            argument = int.from_bytes(block[at : at + extra], "big")
            at += extra
        if kind < _BYTES or kind == _SIMPLE:
            open_items -= 1
        elif kind <= _TEXT:
            at += argument
            open_items -= 1
        else:
            promised = 1 if kind == _TAG else argument if kind == _ARRAY else 2 * argument
            open_items += promised - 1
            total += promised
            if total > most:
                raise InvalidData(f"more than {most} items")


def _walk(block: bytes) -> None:
    size = len(block)
    at = claimed = 0
    while at < size:
        head = block[at]
        kind, argument = head >> 5, head & 31
        at += 1
        extra = _LENGTH_BYTES.get(argument, 0)
        if extra:
            argument = int.from_bytes(block[at : at + extra], "big")
            at += extra
        if kind in (2, 3):
            at += argument
        elif kind == _ARRAY:
            claimed += argument
            if claimed > size:
                raise InvalidData("arrays that claim more items than there are bytes")
