"""Proof: commits a second on one core with the whole of Sync 1.1, and records a second of a whole repo.

Seconds are those that this process computed: a busy machine does not make a core look slower than it is.
"""

from __future__ import annotations

import gc
import random
import time
from typing import TYPE_CHECKING, Final

from tests.bench.harness import Figure, benchmark

if TYPE_CHECKING:
    from collections.abc import Callable

ACCOUNTS: Final = 4
RECORDS: Final = 1_000  # in each repo before the measured commits
COMMITS: Final = 500  # measured, each account
ROUNDS: Final = 3


def best_rate(count: int, step: Callable[[], object]) -> float:
    """Items a second, the best of a few rounds."""
    rates = []
    for _ in range(ROUNDS):
        start = time.process_time()
        step()
        rates.append(count / (time.process_time() - start))
    return max(rates)


@benchmark("verify")
async def verify() -> list[Figure]:
    """Measure proof on synthetic commits of one 384-dimensional memory each; the baseline proves nothing."""
    from atproto import CAR, firehose_models, parse_subscribe_repos_message

    from appview.identity.keys import PublicKey
    from appview.ingest.commits import prove_commit
    from appview.ingest.frames import CommitEvent, parse_frame
    from appview.ingest.snapshots import prove_repo
    from lexicons.syntax import Did
    from tests.network.synthetic import Account, tid

    rnd = random.Random(7)
    accounts = [Account() for _ in range(ACCOUNTS)]
    keys = {account.did: PublicKey.from_did_key(account.key.did_key) for account in accounts}
    frames: list[bytes] = []
    for account in accounts:
        for number in range(RECORDS + COMMITS):
            record = {
                "$type": "garden.engram.memory",
                "text": f"memory {number} of a garden " * 3,
                "createdAt": "2026-11-30T09:15:00.000Z",
                "embedding": {
                    "model": "bench",
                    "modelDigest": "sha256:bench",
                    "dims": 384,
                    "encoding": "f16le",
                    "vector": rnd.randbytes(768),
                },
            }
            rkey = tid(1_700_000_000_000_000 + number * 1_000)
            frame = account.create("garden.engram.memory", rkey, record).frame(number + 1)
            if number >= RECORDS:
                frames.append(frame)
    now = time.time_ns() // 1000
    gc.freeze()  # the repos above are no part of what is measured

    def prove_all() -> None:
        for frame in frames:
            event = parse_frame(frame)
            assert isinstance(event, CommitEvent)
            prove_commit(event, keys[event.repo], now)

    def parse_all() -> None:
        for frame in frames:
            message = parse_subscribe_repos_message(firehose_models.Frame.from_bytes(frame))  # type: ignore[arg-type]
            CAR.from_bytes(message.blocks)  # type: ignore[arg-type,union-attr]

    first = accounts[0]
    export = first.export()

    def prove_whole() -> None:
        prove_repo(Did(first.did), keys[first.did], [export], now)

    def parse_whole() -> None:
        CAR.from_bytes(export)

    note = f"{len(first.records):,} records a repo, {sum(map(len, frames)) // len(frames):,} bytes a frame"
    figures = [
        Figure(
            "verify.commits",
            best_rate(len(frames), prove_all),
            "commits/s",
            best_rate(len(frames), parse_all),
            5_000,
            more_is_better=True,
            note=note + "; baseline: SDK parse, unverified",
        ),
        Figure(
            "verify.repo-records",
            best_rate(len(first.records), prove_whole),
            "records/s",
            best_rate(len(first.records), parse_whole),
            10_000,
            more_is_better=True,
            note="baseline: SDK CAR, unverified",
        ),
    ]
    gc.unfreeze()
    return figures
