"""What a whole repo means for the spaces: judged record by record as the walk over its tree reaches them.

Of a record no more is kept than what a space takes of it, and that is laid aside (see `spool`): of what is
refused its reason, of what belongs nowhere nothing. So memory is bounded whatever the repo holds. Many keys
may name one record: it is judged and laid aside once, and what a repo puts into spaces stands in proportion
to its size. All of it is void where the walk ends in an error, which nobody sees who calls `route_repo`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appview.ingest.errors import Rejected
from appview.ingest.route import (
    ConfigChange,
    RecordChange,
    Stray,
    is_key,
    judge_bytes,
    judge_config,
    stray_of,
    targets,
)
from appview.ingest.spool import Laid, Spool
from appview.ingest.walks import finish
from appview.memory.values import RepoUpdate
from lexicons.data import cid_text
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from appview.ingest.mst import Leaf
    from appview.ingest.snapshots import RepoSnapshot
    from appview.ingest.walks import Work
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri

# Ours: what a repo's memories may come to, each as often as a key names it. Where each is named once they
# come to less than the repo.
MAX_TIMES: Final = 4  # times the repo's own size
MIN_ALLOWED_BYTES: Final = 4_000_000  # whatever its size
MAX_KNOWN: Final = 4_096  # ours: records whose verdict is remembered


@dataclass(frozen=True, slots=True)
class RoutedRepo:
    """A complete update for every space of the scopes, the config that the repo holds (None: none), and the
    number of its memories, of those refused, by reason, and of those that a tag keeps out of all spaces."""

    rev: str
    updates: Mapping[SpaceUri, RepoUpdate]
    config: ConfigChange | None
    memories: int
    refused: Counter[str]
    strays: Counter[Stray]


def route_repo(
    repo: RepoSnapshot, scopes: Mapping[SpaceUri, Scope], folder: Path | None = None
) -> RoutedRepo:
    """Judge the records of a repo; raise `Rejected`, `StoreError`. Where there are no scopes memories are
    counted and not looked at. `folder` takes what is too large for memory."""
    return finish(routing(repo, scopes, folder))


def routing(
    repo: RepoSnapshot, scopes: Mapping[SpaceUri, Scope], folder: Path | None = None
) -> Work[RoutedRepo]:
    """Do what `route_repo` does, giving way at every leaf of the tree."""
    config: ConfigChange | None = None
    refused: Counter[str] = Counter()
    strays: Counter[Stray] = Counter()
    memories = named = 0
    allowed = max(MIN_ALLOWED_BYTES, MAX_TIMES * repo.size)
    known: dict[bytes, Laid | Stray | None] = {}
    spool = Spool(list(scopes), folder)
    for leaf in repo.leaves():
        yield
        rkey, cid = leaf.rkey, leaf.cid
        if leaf.collection == CONFIG and rkey == CONFIG_RKEY:
            change = RecordChange(leaf.collection, rkey, cid_text(cid), repo.record(cid))
            config = judge_config(repo.did, repo.rev, change)
        if leaf.collection != MEMORY:
            continue
        memories += 1
        if cid not in known:
            if len(known) >= MAX_KNOWN:
                known.clear()
            verdict = known[cid] = _judge(repo, leaf, scopes, spool)
        elif isinstance(verdict := known[cid], Laid):
            spool.again(cid, rkey, verdict)
        if not isinstance(verdict, Laid):
            if verdict is not None:
                strays[verdict] += 1
            continue
        reason = verdict.reason if is_key(rkey) else "record"
        if reason is not None:
            refused[reason] += 1
        named += verdict.size
        if named > allowed:
            raise Rejected(
                "too-big", f"its memories come to more than {allowed:,} bytes, and it has {repo.size:,}"
            )
    spool.seal()
    tree = cid_text(repo.data)
    updates = {
        space: RepoUpdate(repo.did, repo.rev, spool.changes(space), tree, complete=True, scope=scope)
        for space, scope in scopes.items()
    }
    return RoutedRepo(repo.rev, updates, config, memories, refused, strays)


def _judge(
    repo: RepoSnapshot, leaf: Leaf, scopes: Mapping[SpaceUri, Scope], spool: Spool
) -> Laid | Stray | None:
    """Judge a record that is not known: lay it aside where a space takes it, else tell what keeps it out."""
    block = repo.record(leaf.cid)
    if not scopes:
        return None
    judged = judge_bytes(block)
    chosen = targets(repo.did, judged.topics, scopes)
    if not chosen:
        return stray_of(judged.topics, chosen)
    return spool.add(chosen, leaf.cid, leaf.rkey, judged.change)
