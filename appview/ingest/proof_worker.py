"""A process that proves commits for an appview: requests on its standard input, answers on its output.

Both are DAG-CBOR behind their length in bytes. A request is a time and a list of jobs (curve and point of a
key, message as it came); its answer has, for each job, what the commit did, or null: then it was not proven,
and whoever asked finds out why. The end of the input ends the process, so it does not outlive its appview.
"""

from __future__ import annotations

import signal
import struct
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import cbrrr

from appview.collector import rare_collections
from appview.identity.keys import PublicKey
from appview.ingest.commits import ProvenCommit, ProvenOp, prove_commit
from appview.ingest.frames import CommitEvent, parse_frame
from lexicons.syntax import Nsid, RecordKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

HEAD: Final = struct.Struct(">I")  # bytes of the message that follows
KEYS: Final = 4_096  # ours: keys that are kept ready, 1 kB each


def write_request(jobs: Sequence[tuple[PublicKey, bytes]], now: int) -> bytes:
    """Write down which messages to prove, each with its account's key; `now` in microseconds since 1970."""
    return _encode([now, [[key.curve, key.point, frame] for key, frame in jobs]])


def answer(request: bytes) -> bytes:
    """Prove what a request asks for."""
    now, jobs = _decode(request)
    return _encode([_prove(now, *job) for job in jobs])


def read_answer(data: bytes) -> list[Any]:
    """Read an answer: for each job what `proven_commit` takes, or None."""
    outcomes: list[Any] = _decode(data)
    return outcomes


def proven_commit(event: CommitEvent, outcome: Any) -> ProvenCommit:
    """Make of an outcome what `prove_commit` gives for the same event and key."""
    data, prev_data, ops = outcome
    return ProvenCommit(
        event.repo,
        event.rev,
        event.since,
        data,
        prev_data,
        tuple([ProvenOp(action, Nsid(nsid), RecordKey(rkey), *rest) for action, nsid, rkey, *rest in ops]),
    )


def _prove(now: int, curve: Any, point: bytes, frame: bytes) -> list[Any] | None:
    try:
        event = parse_frame(frame)
        if not isinstance(event, CommitEvent):
            return None
        commit = prove_commit(event, _key(curve, point), now)
    except Exception:  # noqa: BLE001 - whatever it is, it happens to the one who asks as well, and is told there
        return None
    ops = [[op.action, str(op.collection), str(op.rkey), op.cid, op.record, op.prev] for op in commit.ops]
    return [commit.data, commit.prev_data, ops]


def _encode(value: Any) -> bytes:
    return bytes(cbrrr.encode_dag_cbor(value))


def _decode(message: bytes) -> Any:
    return cbrrr.decode_dag_cbor(message)


@lru_cache(KEYS)
def _key(curve: Any, point: bytes) -> PublicKey:
    return PublicKey(curve, point)


def work(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more requests."""
    while len(head := requests.read(HEAD.size)) == HEAD.size:
        (size,) = HEAD.unpack(head)
        message = answer(requests.read(size))
        answers.write(HEAD.pack(len(message)) + message)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that of a terminal is for the appview, which then ends us
    with rare_collections():
        work(sys.stdin.buffer, sys.stdout.buffer)
