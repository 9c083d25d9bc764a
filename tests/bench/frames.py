"""Frames of the firehose that do not concern us: how many a second one core gets rid of."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

from tests.bench.harness import Figure, benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FRAMES: Final = 2_000
SECONDS: Final = 1.0  # each side, three times
ROUNDS: Final = 3


def other_frames(count: int) -> list[bytes]:
    """Signed commits of another namespace, about 4 kB each, as most of a relay's are."""
    from tests.network.synthetic import Account, Write

    account = Account("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
    made = []
    for number in range(count):
        record = {
            "$type": "app.bsky.feed.post",
            "text": f"post number {number} about nothing in particular",
            "createdAt": "2026-11-30T09:15:00.000Z",
            "langs": ["en"],
        }
        draft = account.draft(Write("create", "app.bsky.feed.post", f"3l{number:011d}", record))
        made.append(draft.frame(number + 1))
    return made


def rate(step: Callable[[bytes], object], frames: Sequence[bytes]) -> float:
    """Frames a second, the best of a few rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        done, start = 0, perf_counter()
        while perf_counter() - start < SECONDS:
            for frame in frames:
                step(frame)
            done += len(frames)
        best = max(best, done / (perf_counter() - start))
    return best


@benchmark("frames.")
async def measure() -> list[Figure]:
    """Compare with the SDK's own parse of the same frames, which ends before the blocks are read."""
    from atproto import CAR, firehose_models, models, parse_subscribe_repos_message
    from atproto_firehose.models import MessageFrame

    from appview.ingest.sieve import concerns
    from lexicons.ids import NAMESPACE

    frames = other_frames(FRAMES)
    needle = f"{NAMESPACE}.".encode()
    tracked: frozenset[bytes] = frozenset()

    def ours(frame: bytes) -> bool:
        return concerns(frame, needle, tracked)

    def sdk(frame: bytes) -> object:
        return parse_subscribe_repos_message(firehose_models.Frame.from_bytes(frame))  # type: ignore[arg-type]

    def sdk_with_blocks(frame: bytes) -> object:
        message = sdk(frame)
        assert isinstance(message, models.ComAtprotoSyncSubscribeRepos.Commit)
        return CAR.from_bytes(message.blocks)  # type: ignore[arg-type]

    assert isinstance(firehose_models.Frame.from_bytes(frames[0]), MessageFrame)
    assert not any(map(ours, frames[:100]))
    size = sum(map(len, frames)) // len(frames)
    note = f"frames of {size:,} bytes"
    dropped = rate(ours, frames)
    return [
        Figure(
            "frames.ignored",
            dropped,
            "frames/s",
            rate(sdk, frames),
            10,
            True,
            True,
            note + "; baseline: SDK parse",
        ),
        Figure(
            "frames.ignored-vs-blocks",
            dropped,
            "frames/s",
            rate(sdk_with_blocks, frames),
            None,
            True,
            note=note + "; baseline: SDK parse and CAR",
        ),
    ]
