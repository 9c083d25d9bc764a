"""What a whole repo means for the spaces: judged record by record as the walk over its tree reaches them.

Of a record no more is kept than what a space takes of it, and that is laid aside (see `spool`): of what is
refused its reason, of what belongs nowhere nothing. So memory is bounded whatever the repo holds. All of it
is void where the walk ends in an error, which nobody sees who calls `route_repo`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appview.ingest.route import (
    ConfigChange,
    RecordChange,
    Stray,
    count_stray,
    judge_config,
    judge_memory,
    targets,
)
from appview.ingest.spool import Spool
from appview.memory.values import Refuse, RepoUpdate
from lexicons.data import cid_text
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from appview.ingest.snapshots import RepoRecord
    from appview.memory.scope import Scope
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did


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
    author: Did,
    rev: str,
    data: bytes,
    records: Iterable[RepoRecord],
    scopes: Mapping[SpaceUri, Scope],
    folder: Path | None = None,
) -> RoutedRepo:
    """Judge the records of a repo, given in order of their paths. Where there are no scopes memories are
    counted and not looked at. `folder` takes what is too large for memory."""
    config: ConfigChange | None = None
    refused: Counter[str] = Counter()
    strays: Counter[Stray] = Counter()
    memories = 0
    spool = Spool(list(scopes), folder)
    for record in records:
        if record.collection == CONFIG and record.rkey == CONFIG_RKEY:
            change = RecordChange(record.collection, record.rkey, cid_text(record.cid), record.record)
            config = judge_config(author, rev, change)
        if record.collection != MEMORY:
            continue
        memories += 1
        if not scopes:
            continue
        judged = judge_memory(record.rkey, "", record.record)
        chosen = targets(author, judged.topics, scopes)
        count_stray(judged.topics, chosen, strays)
        if chosen:
            if isinstance(judged.change, Refuse):
                refused[judged.change.reason] += 1
            spool.add(chosen, record.cid, judged.change)
    spool.seal()
    tree = cid_text(data)
    updates = {
        space: RepoUpdate(author, rev, spool.changes(space), tree, complete=True, scope=scope)
        for space, scope in scopes.items()
    }
    return RoutedRepo(rev, updates, config, memories, refused, strays)
