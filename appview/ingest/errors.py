"""Errors of ingest.

IngestError (AppviewError)
├── MalformedFrame       a message of the firehose that cannot be read; nothing in it is used
├── Rejected             a commit, repo or proof that is not what it claims; `reason` names why
├── RepoBehind           a repo as it was before what is already proven
└── RepoInactive         a repo that its host does not give out at the moment
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from appview.errors import AppviewError

if TYPE_CHECKING:
    from lexicons.syntax import Did

Reason = Literal[
    "account-inactive",  # the account is hidden; its commits wait for its return
    "bad-block-hash",  # bytes that do not hash to their CID
    "bad-commit",  # the commit object is not one
    "bad-node",  # a node of the tree breaks the tree's rules
    "bad-op",  # an operation that is not one
    "bad-signature",  # not signed by the account's key
    "did-mismatch",  # the commit names another account than the message
    "future-rev",  # more than 5 minutes ahead
    "high-s",  # signed, in the form that the protocol refuses
    "malformed-car",  # the CAR cannot be read
    "malformed-frame",  # the message cannot be read
    "missing-block",  # a block that the proof needs is not there
    "not-proven",  # a claim that its author's host does not confirm
    "no-prev",  # an operation or commit without the value before it (a host before Sync 1.1)
    "old-rev",  # a rev that is not above the last one: a replay
    "op-mismatch",  # the operations are not what the trees say
    "prev-data-mismatch",  # the commit starts from another tree than we hold
    "rebase",  # history was rewritten
    "rev-mismatch",  # the commit has another rev than the message
    "too-big",  # the host left the data out, or it is over a limit
    "wrong-host",  # from a host that is not the account's PDS
]


class IngestError(AppviewError):
    """Base of what ingest refuses."""


class MalformedFrame(IngestError):
    """A message of the firehose that cannot be read; `did` is the account, where that much could be read."""

    did: Did | None = None


class Rejected(IngestError):
    """A commit, repo or proof that is not what it claims."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail


class RepoBehind(IngestError):
    """A repo as it was before what is already proven: its host lags behind."""


class RepoInactive(IngestError):
    """A repo that its host does not give out at the moment; `status` as `#account` has it."""

    def __init__(self, did: str, status: str) -> None:
        super().__init__(f"{did} is {status}")
        self.status = status
