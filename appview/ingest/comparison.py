"""What a space holds of an author against what the author's repo says that it should hold: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from appview.memory.judge import Fits, embedding_for, judge
from appview.memory.values import Put

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from appview.memory.values import Change
    from appview.memory.writer import Version
    from lexicons.memories import Memory
    from lexicons.models import ModelKey

DifferenceKind = Literal[
    "missing",  # in the repo, and not here
    "extra",  # here, and not in the repo, or of one who may not write here
    "version",  # here with another CID
    "content",  # here with the right CID and other contents
    "not-indexed",  # left out though it fits
    "indexed",  # indexed though it does not fit
    "shown",  # of an account that is not active, and not hidden
    "hidden",  # here, of an active account that may write here, and not shown
]
# What fetching the repo again puts right; for the others the file itself is wrong.
BY_REPO: frozenset[DifferenceKind] = frozenset(
    {"missing", "extra", "version", "not-indexed", "shown", "hidden"}
)


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One record: `served` and `repo` are CIDs. Of what concerns all of an author's, `rkey` is empty."""

    rkey: str
    kind: DifferenceKind
    served: str | None = None
    repo: str | None = None


def compare(
    expected: Iterable[Change],
    known: Mapping[str, str],
    indexed: Mapping[str, Version],
    active: ModelKey | None,
) -> list[Difference]:
    """List the differences, by record key.

    `expected` are the `Put`s and `Refuse`s of the proven repo, `known` the CIDs of what the space has of the
    author, indexed or left out; `active` is the model that decides what is indexed.
    """
    wanted = {change.rkey: change for change in expected if not _is_delete(change)}
    fits = _fitting(wanted.values(), active)
    differences = []
    for rkey in sorted(wanted.keys() | known.keys()):
        change, served = wanted.get(rkey), known.get(rkey)
        repo = getattr(change, "cid", None)
        if served is None:
            differences.append(Difference(rkey, "missing", None, repo))
        elif change is None:
            differences.append(Difference(rkey, "extra", served, None))
        elif served != repo:
            differences.append(Difference(rkey, "version", served, repo))
        elif rkey in fits and rkey not in indexed:
            differences.append(Difference(rkey, "not-indexed", served, repo))
        elif rkey not in fits and rkey in indexed:
            differences.append(Difference(rkey, "indexed", served, repo))
        elif rkey in fits and not _same(indexed[rkey].memory, fits[rkey], active):
            differences.append(Difference(rkey, "content", served, repo))
    return differences


def _is_delete(change: Change) -> bool:
    return not hasattr(change, "cid")


def _fitting(changes: Iterable[Change], active: ModelKey | None) -> dict[str, Memory]:
    puts = [change for change in changes if isinstance(change, Put)]
    verdicts = judge([put.memory for put in puts], active)
    return {
        put.rkey: put.memory for put, verdict in zip(puts, verdicts, strict=True) if isinstance(verdict, Fits)
    }


def _same(held: Memory, published: Memory, active: ModelKey | None) -> bool:
    def told(memory: Memory) -> tuple[object, ...]:
        vector = None if active is None else embedding_for(memory, active)
        return (memory.text, memory.created_at, memory.source, tuple(memory.tags), vector)

    return told(held) == told(published)
