"""Which facts say that they supersede others, and what those others are.

What a reader may read comes first: of all facts that claim to supersede something only the ids are read, and
only of those that a reader may read, what they claim. So claims that are hidden from a reader cost next to
nothing. What was read is kept and follows the file, so that a write costs what it changes.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from appview.memory import meta
from appview.memory.changes import changed_since, last_change, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from appview.memory.scope import Scope
    from appview.sqlite import Connection

    Ids = NDArray[np.int64]
    Inside = Callable[[Scope, set[int]], set[int]]
    _Key = tuple[str, str]  # author and record key
    _Version = tuple[int, str | None]  # of what paths give, and of the rules that links are read by

_T = TypeVar("_T")
MAX_KEPT: Final = 50_000  # ours, claims of one file and ends of them, in about 25 MB; more are read each time
MAX_SCOPES: Final = 64  # ours, scopes of which it is kept what they have of the claiming facts
MAX_WAIT_SECONDS: Final = (
    0.1  # for another thread that reads claims; then they are read for this reader alone
)
READ_AT_ONCE: Final = 1_000  # facts; what was read is kept where time is over in between
MIN_FOLLOWED: Final = 1_000  # changes that are followed whatever is kept

_CLAIMING: Final = "SELECT DISTINCT fact_id AS number FROM fact_links WHERE kind = 'supersedes'"
_CHANGED: Final = (
    "SELECT f.id, f.author, f.rkey,"
    " EXISTS (SELECT 1 FROM fact_links AS l WHERE l.fact_id = f.id AND l.kind = 'supersedes')"
    " FROM json_each(?) AS asked CROSS JOIN facts AS f ON f.id = asked.value AND f.invalidated_at IS NULL"
)
_CLAIMS: Final = (
    "SELECT f.id, f.author, f.ordered_at, f.rkey, l.target_author, l.target FROM json_each(?) AS asked"
    " CROSS JOIN facts AS f ON f.id = asked.value AND f.invalidated_at IS NULL"
    " CROSS JOIN fact_links AS l ON l.fact_id = f.id AND l.kind = 'supersedes'"
)
_TARGETS: Final = (
    "SELECT old.id, old.author, old.ordered_at, old.rkey FROM json_each(?) AS asked"
    " CROSS JOIN facts AS old ON old.author = asked.value ->> 0 AND old.rkey = asked.value ->> 1"
    " AND old.invalidated_at IS NULL"
)


class End(NamedTuple):
    """A live fact, and what orders it."""

    id: int
    author: str
    ordered_at: int
    rkey: str


@dataclass(frozen=True, slots=True)
class _Within:
    """Which of the `checked` claiming facts a scope has."""

    checked: Ids
    inside: Ids


@dataclass(slots=True)
class _Kept:
    """What is known at one state of the file. `ends` are live facts by record, None where there is none."""

    change: int
    version: _Version
    claiming: Ids
    claims: dict[int, tuple[End, tuple[_Key, ...]]] = field(default_factory=dict)
    ends: dict[_Key, End | None] = field(default_factory=dict)
    records: dict[int, _Key] = field(default_factory=dict)  # of `ends`, by id
    scopes: OrderedDict[Scope, _Within] = field(default_factory=OrderedDict)


class Claims:
    """The claims of one file. Safe across threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: _Kept | None = None

    def pairs(self, connection: Connection, scope: Scope, inside: Inside) -> list[tuple[End, End]]:
        """List live facts inside a scope with the live facts that they claim to supersede, which need not be
        inside. `inside` tells which of some live facts a scope has."""
        if self._lock.acquire(timeout=MAX_WAIT_SECONDS):
            try:
                kept = self._current(connection)
                if kept is not None:
                    return _pairs(kept, connection, scope, inside)
            finally:
                if self._kept is not None and _held(self._kept) > MAX_KEPT:
                    self._kept = None
                self._lock.release()
        return _pairs(_read(connection), connection, scope, inside)

    def _current(self, connection: Connection) -> _Kept | None:
        """Bring what is kept to the reader's state. None where another reader saw a newer one."""
        kept, last = self._kept, last_change(connection)
        if kept is not None and kept.change > last:
            return None
        if kept is None or kept.version != _version(connection) or not _follow(kept, connection, last):
            self._kept = kept = _read(connection)
        return kept


def _version(connection: Connection) -> _Version:
    return meta.path_tags_version(connection), meta.read(connection, "links")


def _read(connection: Connection) -> _Kept:
    return _Kept(last_change(connection), _version(connection), np.sort(numbers(connection, _CLAIMING)))


def _held(kept: _Kept) -> int:
    return max(len(kept.claims), len(kept.ends))


def _follow(kept: _Kept, connection: Connection, last: int) -> bool:
    """Follow what has changed. False where it is not known, or reading anew costs less."""
    if kept.change == last:
        return True
    changed = changed_since(connection, kept.change)
    if changed is None or len(changed) > max(MIN_FOLLOWED, len(kept.claims)):
        return False
    rows = connection.execute(_CHANGED, (json.dumps(changed.tolist()),)).fetchall()
    # Nothing is read from here on, so nothing is left half done.
    claiming = np.array([id_ for id_, *_, claims in rows if claims], np.int64)
    kept.claiming = np.union1d(np.setdiff1d(kept.claiming, changed, assume_unique=True), claiming)
    for id_ in changed.tolist():
        kept.claims.pop(id_, None)
        _forget(kept, kept.records.get(id_))
    for _, author, rkey, _ in rows:
        _forget(kept, (author, rkey))
    for scope, within in kept.scopes.items():
        kept.scopes[scope] = _Within(
            np.setdiff1d(within.checked, changed, assume_unique=True),
            np.setdiff1d(within.inside, changed, assume_unique=True),
        )
    kept.change = last
    return True


def _forget(kept: _Kept, record: _Key | None) -> None:
    if record is not None:
        end = kept.ends.pop(record, None)
        if end is not None:
            del kept.records[end.id]


def _pairs(kept: _Kept, connection: Connection, scope: Scope, inside: Inside) -> list[tuple[End, End]]:
    ids = (kept.claiming if scope.is_everything else _inside(kept, scope, inside)).tolist()
    for part in _parts([id_ for id_ in ids if id_ not in kept.claims]):
        rows = connection.execute(_CLAIMS, (json.dumps(part),)).fetchall()
        for end, group in groupby(rows, key=itemgetter(0, 1, 2, 3)):
            kept.claims[end[0]] = (End(*end), tuple([(author, rkey) for *_, author, rkey in group]))
    claims = [kept.claims[id_] for id_ in ids if id_ in kept.claims]
    wanted = dict.fromkeys(target for _, targets in claims for target in targets)
    for part in _parts([target for target in wanted if target not in kept.ends]):
        found = [End(*row) for row in connection.execute(_TARGETS, (json.dumps(part),))]
        kept.ends.update(dict.fromkeys(part))
        for end in found:
            kept.ends[end.author, end.rkey] = end
            kept.records[end.id] = (end.author, end.rkey)
    return [
        (claim, end)
        for claim, targets in claims
        for target in targets
        if (end := kept.ends[target]) is not None
    ]


def _inside(kept: _Kept, scope: Scope, inside: Inside) -> Ids:
    """List the claiming facts inside a scope; asked about are those that came since it was asked last."""
    within = kept.scopes.get(scope) or _Within(np.empty(0, np.int64), np.empty(0, np.int64))
    new = np.setdiff1d(kept.claiming, within.checked, assume_unique=True)
    if len(new) or scope not in kept.scopes:
        found = np.array(sorted(inside(scope, set(new.tolist()))), np.int64)
        within = _Within(kept.claiming, np.union1d(within.inside, found))
        kept.scopes[scope] = within
        if len(kept.scopes) > MAX_SCOPES:
            kept.scopes.popitem(last=False)
    return within.inside


def _parts(items: list[_T]) -> Iterable[list[_T]]:
    return (items[start : start + READ_AT_ONCE] for start in range(0, len(items), READ_AT_ONCE))
