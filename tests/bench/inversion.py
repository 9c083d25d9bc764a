"""Undoing operations on partial trees, which proves that a commit changed nothing else: ours beside `atmst`.

The library does it with the general means of its trees; ours reads and writes only what an operation touches,
and checks every node as it is read (order, bounds, heights, form), which the library does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.harness import Figure, benchmark
from tests.bench.verify import best_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from appview.ingest.frames import RepoOp

    Undo = Callable[[bytes, Mapping[bytes, bytes], Sequence[RepoOp]], bytes]

RECORDS: Final = 1_000  # in the repo before
COMMITS: Final = 600


def by_atmst() -> Undo | None:
    """Give inversion by `atmst`; None where it is not installed."""
    try:
        from atmst.blockstore import MemoryBlockStore
        from atmst.mst.node_store import NodeStore
        from atmst.mst.node_wrangler import NodeWrangler
        from cbrrr import CID
    except ImportError:
        return None

    def undo(root: bytes, blocks: Mapping[bytes, bytes], ops: Sequence[RepoOp]) -> bytes:
        wrangler = NodeWrangler(NodeStore(MemoryBlockStore(dict(blocks))))
        tree = CID(root)
        for op in reversed(ops):
            if op.action == "create":
                tree = wrangler.del_record(tree, op.path)
            else:
                assert op.prev is not None
                tree = wrangler.put_record(tree, op.path, CID(op.prev))
        return bytes(tree)

    return undo


@benchmark("inversion")
async def inversion() -> list[Figure]:
    """Measure commits of one operation each: a create, an update and a delete in turn."""
    from appview.ingest.car import read_car
    from appview.ingest.frames import CommitEvent, parse_frame
    from appview.ingest.inversion import invert
    from tests.network.synthetic import Account, Write, tid

    account = Account()
    name = "garden.engram.memory"
    keys = [tid(1_700_000_000_000_000 + number * 1_000) for number in range(RECORDS + COMMITS)]
    account.draft(*(Write("create", name, key, {"text": key}) for key in keys[:RECORDS]))
    cases = []
    for number in range(COMMITS):
        write = (
            Write("create", name, keys[RECORDS + number], {"text": "new"}),
            Write("update", name, keys[number], {"text": "newer"}),
            Write("delete", name, keys[number]),
        )[number % 3]
        event = parse_frame(account.draft(write).frame(number + 1))
        assert isinstance(event, CommitEvent)
        blocks = read_car(event.blocks).blocks
        data = account.data
        assert data is not None and event.prev_data is not None
        cases.append((data, blocks, event.ops, event.prev_data))

    def run(undo: Undo) -> Callable[[], None]:
        def step() -> None:
            for data, blocks, ops, before in cases:
                assert undo(data, blocks, ops) == before

        return step

    rival = by_atmst()
    ours = best_rate(len(cases), run(invert))
    theirs = None if rival is None else best_rate(len(cases), run(rival))
    beside = "atmst is not installed (`pip install --group rivals`)" if rival is None else "baseline: atmst"
    note = f"commits of one operation, {RECORDS:,} records; {beside}"
    return [
        Figure("inversion.commits", ours, "commits/s", theirs, 1, True, True, note)
        if theirs is not None
        else Figure("inversion.commits", ours, "commits/s", more_is_better=True, note=note)
    ]
