"""Messages of the firehose, from bytes to events.

A message is two DAG-CBOR objects. Most do not concern us, and those are told apart by their bytes before
anything is parsed (see `sieve`): a `#commit` is read only where it has an operation of ours or comes from a
repo that is tracked (whose tree moves with every commit, so that none may be missed). Every other kind of
message is always read.

Source: atproto.com/specs/event-stream and /sync. What is read is checked field by field; what is unknown is
skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import cbrrr

from appview.ingest.errors import MalformedFrame
from appview.ingest.sieve import COMMIT_HEADER, account_of
from lexicons.bombs import refuse_crowds
from lexicons.data import CID_BYTES, DAG_CBOR_PREFIX, RAW_PREFIX, Link
from lexicons.datetimes import parse_micros
from lexicons.errors import ContractError, InvalidSyntax
from lexicons.syntax import Did, Tid

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FRAME_BYTES: Final = 5_000_000  # sync spec, a message
MAX_BLOCKS_BYTES: Final = 2_000_000  # sync spec, the blocks of a commit
MAX_OPS: Final = 200  # sync spec, operations of a commit
MAX_TEXT: Final = 2_048  # characters kept of a host's own message
MAX_SEQ: Final = 2**63 - 1  # a CBOR integer of the data model
# Values in a message, keys among them; ours: 200 operations have 2,203, and the other fields 30.
MAX_ITEMS: Final = 4_096
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RepoOp:
    """One operation of a commit, as the message claims it."""

    action: str  # create, update, delete; another one is left to the proof to refuse
    path: str
    cid: bytes | None
    prev: bytes | None


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """`#commit`: claimed, nothing proven."""

    seq: int
    repo: Did
    rev: str
    since: str | None
    commit: bytes
    blocks: bytes
    ops: tuple[RepoOp, ...]
    prev_data: bytes | None
    too_big: bool
    rebase: bool
    time: str

    @property
    def did(self) -> Did:
        """The account."""
        return self.repo


@dataclass(frozen=True, slots=True)
class SyncEvent:
    """`#sync`: the repo's present commit, without its history."""

    seq: int
    did: Did
    rev: str
    blocks: bytes
    time: str


@dataclass(frozen=True, slots=True)
class IdentityEvent:
    """`#identity`: the DID document may have changed."""

    seq: int
    did: Did
    handle: str | None
    time: str


@dataclass(frozen=True, slots=True)
class AccountEvent:
    """`#account`: hidden, back, or gone."""

    seq: int
    did: Did
    active: bool
    status: str | None
    time: str


@dataclass(frozen=True, slots=True)
class InfoEvent:
    """`#info`: a word of the host, such as `OutdatedCursor`."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error message, such as `FutureCursor` or `ConsumerTooSlow`; the host closes after it."""

    error: str
    message: str


RepoEvent = CommitEvent | SyncEvent | IdentityEvent | AccountEvent
Event = RepoEvent | InfoEvent | ErrorEvent


def parse_frame(frame: bytes) -> Event | None:
    """Read one message; None for a type that is unknown; raise `MalformedFrame`."""
    if len(frame) > MAX_FRAME_BYTES:
        raise _malformed(frame, f"a message of {len(frame)} bytes, at most {MAX_FRAME_BYTES}")
    header, body = _two_objects(frame)
    op = header.get("op")
    if op == -1:
        return ErrorEvent(_shown(body, "error"), _shown(body, "message"))
    if type(op) is not int:
        raise MalformedFrame("a header without an operation")
    kind = header.get("t")
    if op != 1:
        return None
    if type(kind) is not str:
        raise MalformedFrame("a header without a type")
    reader = _READERS.get(kind)
    if reader is None:
        return None
    try:
        return reader(body)
    except MalformedFrame as error:
        did = body.get("repo", body.get("did"))
        if type(did) is str and Did.is_valid(did):
            error.did = Did(did)
        raise


def frame_seq(frame: bytes) -> int | None:
    """Read the seq of a message that was not parsed, None where it has none. Costs a parse: now and then."""
    try:
        seq = _two_objects(frame)[1].get("seq")
    except MalformedFrame:
        return None
    return seq if type(seq) is int and 0 <= seq <= MAX_SEQ else None


def frame_time(frame: bytes) -> int | None:
    """Read when a message says that it was sent, in microseconds; None where it does not. Costs a parse."""
    try:
        time = _two_objects(frame)[1].get("time")
        return parse_micros(time) if type(time) is str else None
    except (MalformedFrame, ContractError):
        return None


def _two_objects(frame: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        refuse_crowds(frame, MAX_ITEMS, values=2)
        if frame.startswith(COMMIT_HEADER):
            rest = frame[len(COMMIT_HEADER) :]
            objects: list[Any] = [{"op": 1, "t": "#commit"}, cbrrr.decode_dag_cbor(rest, cid_ctor=Link)]
        else:
            objects = list(cbrrr.decode_multi_dag_cbor_in_violation_of_the_spec(frame, cid_ctor=Link))
    except (ContractError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise _malformed(frame, f"not DAG-CBOR: {str(error)[:200]}") from None
    if len(objects) != 2:
        raise MalformedFrame(f"{len(objects)} objects in a message, expected 2")
    header, body = objects
    if type(header) is not dict or type(body) is not dict:
        raise MalformedFrame("a header or body that is not a map")
    return header, body


def _malformed(frame: bytes, problem: str) -> MalformedFrame:
    """Say whose a message is all the same, where its beginning tells."""
    error = MalformedFrame(problem)
    name = account_of(frame)
    if name is not None and Did.is_valid(name.decode(errors="replace")):
        error.did = Did(name.decode())
    return error


def _commit(body: dict[str, Any]) -> CommitEvent:
    blocks = _field(body, "blocks", bytes)
    if len(blocks) > MAX_BLOCKS_BYTES:
        raise MalformedFrame(f"{len(blocks)} bytes of blocks, at most {MAX_BLOCKS_BYTES}")
    ops = _field(body, "ops", list)
    if len(ops) > MAX_OPS:
        raise MalformedFrame(f"{len(ops)} operations, at most {MAX_OPS}")
    commit = _link(body, "commit")
    if commit is None:
        raise MalformedFrame("no commit")
    since = body.get("since")
    if since is not None and type(since) is not str:
        raise MalformedFrame("since is not text")
    return CommitEvent(
        seq=_seq(body),
        repo=_did(body, "repo"),
        rev=_rev(body),
        since=since,
        commit=commit,
        blocks=blocks,
        ops=tuple([_op(op) for op in ops]),
        prev_data=_link(body, "prevData"),
        too_big=_flag(body, "tooBig"),
        rebase=_flag(body, "rebase"),
        time=_shown(body, "time"),
    )


def _op(op: Any) -> RepoOp:
    if type(op) is not dict:
        raise MalformedFrame("an operation that is not a map")
    return RepoOp(_field(op, "action", str), _field(op, "path", str), _link(op, "cid"), _link(op, "prev"))


def _sync(body: dict[str, Any]) -> SyncEvent:
    blocks = _field(body, "blocks", bytes)
    if len(blocks) > MAX_BLOCKS_BYTES:
        raise MalformedFrame(f"{len(blocks)} bytes of blocks, at most {MAX_BLOCKS_BYTES}")
    return SyncEvent(_seq(body), _did(body, "did"), _rev(body), blocks, _shown(body, "time"))


def _identity(body: dict[str, Any]) -> IdentityEvent:
    handle = body.get("handle")
    return IdentityEvent(
        _seq(body), _did(body, "did"), handle if type(handle) is str else None, _shown(body, "time")
    )


def _account(body: dict[str, Any]) -> AccountEvent:
    status = body.get("status")
    if status is not None and type(status) is not str:
        raise MalformedFrame("status is not text")
    active = _field(body, "active", bool)
    return AccountEvent(
        _seq(body), _did(body, "did"), active, status and status[:MAX_TEXT], _shown(body, "time")
    )


def _info(body: dict[str, Any]) -> InfoEvent:
    return InfoEvent(_field(body, "name", str)[:MAX_TEXT], _shown(body, "message"))


_READERS: Final[dict[str, Callable[[dict[str, Any]], Event]]] = {
    "#commit": _commit,
    "#sync": _sync,
    "#identity": _identity,
    "#account": _account,
    "#info": _info,
}


def is_blessed(cid: bytes) -> bool:
    """Tell whether a CID is of the kind that the data model allows: version 1, dag-cbor or raw, SHA-256."""
    return len(cid) == CID_BYTES and cid[:4] in (DAG_CBOR_PREFIX, RAW_PREFIX)


def _field(body: dict[str, Any], name: str, kind: type[_T]) -> _T:
    value = body.get(name)
    if type(value) is not kind:
        raise MalformedFrame(f"{name} is missing or not {kind.__name__}")
    return value


def _flag(body: dict[str, Any], name: str) -> bool:
    return bool(body.get(name, False))


def _seq(body: dict[str, Any]) -> int:
    seq = _field(body, "seq", int)
    if not 0 <= seq <= MAX_SEQ:
        raise MalformedFrame("a seq out of range")
    return seq


def _did(body: dict[str, Any], name: str) -> Did:
    text = _field(body, name, str)
    try:
        return Did(text)
    except InvalidSyntax:
        raise MalformedFrame(f"{name} is not a DID") from None


def _rev(body: dict[str, Any]) -> str:
    rev = _field(body, "rev", str)
    if not Tid.is_valid(rev):
        raise MalformedFrame("rev is not a TID")
    return rev


def _link(body: dict[str, Any], name: str) -> bytes | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not Link or not is_blessed(value.cid_bytes):
        raise MalformedFrame(f"{name} is not a link")
    return value.cid_bytes


def _shown(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    return value[:MAX_TEXT] if type(value) is str else ""
