"""Which facts have been superseded, as one reader sees it.

A relation `supersedes` counts where both facts are live, the reader may read the one that supersedes, and its
author is the other's too or may write over it by the rules. What a reader may not read hides nothing from
them. Facts that supersede each other in a circle do not all vanish: the newest of them stands, unless one
from outside supersedes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from appview.memory.claims import Claims
from appview.memory.described import describe
from appview.memory.meta import data_version
from appview.memory.scope import NOTHING
from appview.memory.scope_sql import LIVE, render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from appview.memory.claims import Inside
    from appview.memory.scope import Scope
    from appview.memory.values import Fact, Filters
    from appview.sqlite import Connection

    WriteScope = Callable[[str], Scope]
    _Key = tuple[
        int, Scope, tuple[tuple[str, Scope], ...]
    ]  # data version, reader, what authors may write over

_K = TypeVar("_K")
_V = TypeVar("_V")
MAX_KNOWN: Final = 64  # ours, readers with scopes of their own that are remembered; one is 60 bytes a fact

_FEW: Final = 500  # ours, facts up to which asking the scope about each costs less than rendering it


def nobody(author: str) -> Scope:
    """Let no author write over another's facts."""
    return NOTHING


@dataclass(frozen=True, slots=True)
class Succession:
    """How a reader meets superseded facts: `may_write` tells what an author may write over, `shown` that they
    are among the answers, marked. By itself it leaves out what authors have superseded of their own."""

    may_write: WriteScope = nobody
    shown: bool = False


STANDING: Final = Succession()


class Superseding:
    """What has been superseded in one file. Safe across threads; remembers what it worked out for as long as
    the file and the rules stay as they are."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._claims = Claims()
        self._known: dict[_Key, frozenset[int]] = {}
        self._authors: dict[tuple[int, Scope], frozenset[str]] = {}

    def ids(
        self, connection: Connection, scope: Scope, may_write: WriteScope, inside: Inside | None = None
    ) -> frozenset[int]:
        """Find the facts that others have taken the place of, for who reads inside a scope. `inside` tells
        which of some live facts a scope has, where somebody knows that better than the file."""
        place = (data_version(connection), scope)
        with self._lock:
            authors = self._authors.get(place)
        if authors is not None:
            # Of the rules, only what these authors may write over decides.
            key = (*place, tuple([(author, may_write(author)) for author in sorted(authors)]))
            with self._lock:
                known = self._known.get(key)
            if known is not None:
                return known
        foreign: dict[str, Scope] = {}

        def asked(author: str) -> Scope:
            return foreign.setdefault(author, may_write(author))

        found = superseded(connection, scope, asked, inside, self._claims)
        with self._lock:
            _keep(self._authors, place, frozenset(foreign))
            _keep(self._known, (*place, tuple(sorted(foreign.items(), key=lambda item: item[0]))), found)
        return found

    def narrow(
        self,
        connection: Connection,
        scope: Scope,
        filters: Filters,
        succession: Succession,
        inside: Inside | None = None,
    ) -> tuple[Filters, frozenset[int]]:
        """Give the filters that leave out what has been superseded, unless it is shown, and what has been."""
        ids = self.ids(connection, scope, succession.may_write, inside)
        return (filters if succession.shown or not ids else replace(filters, without=ids)), ids


def _keep(known: dict[_K, _V], key: _K, value: _V) -> None:
    while len(known) >= MAX_KNOWN:
        del known[next(iter(known))]
    known[key] = value


def mark(facts: Iterable[Fact], ids: frozenset[int]) -> list[Fact]:
    """Mark those of the facts that have been superseded."""
    return [replace(fact, superseded=True) if fact.id in ids else fact for fact in facts]


def superseded(
    connection: Connection,
    scope: Scope,
    may_write: WriteScope,
    inside: Inside | None = None,
    claims: Claims | None = None,
) -> frozenset[int]:
    """Find the facts that others have taken the place of, of those that who reads inside a scope may read."""
    if scope.is_nothing:
        return frozenset()
    inside = inside or partial(_inside, connection)
    claimed = (claims or Claims()).pairs(connection, scope, inside)
    if not claimed:
        return frozenset()
    foreign: dict[str, set[int]] = {}
    for new, old in claimed:
        if new.author != old.author:
            foreign.setdefault(new.author, set()).add(old.id)
    allowed = {author: inside(may_write(author), ids) for author, ids in foreign.items()}
    pairs: dict[int, set[int]] = {}
    places: dict[int, tuple[int, str, str]] = {}
    for new, old in claimed:
        if new.author == old.author or old.id in allowed[new.author]:
            pairs.setdefault(new.id, set()).add(old.id)
            for end in (new, old):
                places[end.id] = (end.ordered_at, end.author, end.rkey)
    found = gone(pairs, places)
    return frozenset(found if scope.is_everything else inside(scope, found))


def gone(supersedes: Mapping[int, Iterable[int]], places: Mapping[int, tuple[int, str, str]]) -> set[int]:
    """Find what does not stand: all that is superseded, but for the newest of every circle that nothing from
    outside supersedes. Everything that does not stand is led to from something that stands."""
    targets = {target for ids in supersedes.values() for target in ids}
    standing = set(supersedes) - targets
    # What nothing that stands leads to is in circles or behind them.
    for circle in _sources(targets - _reach(standing, supersedes), supersedes):
        standing.add(max(circle, key=lambda id_: places[id_]))
    return targets - standing


def _reach(start: set[int], supersedes: Mapping[int, Iterable[int]]) -> set[int]:
    reached: set[int] = set()
    waiting = list(start)
    while waiting:
        for target in supersedes.get(waiting.pop(), ()):
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


def _sources(nodes: set[int], supersedes: Mapping[int, Iterable[int]]) -> list[set[int]]:
    """List the circles among `nodes` that no other node leads into; each node is led to from one of them."""
    inside = {node: [target for target in supersedes.get(node, ()) if target in nodes] for node in nodes}
    backwards: dict[int, list[int]] = {node: [] for node in nodes}
    for node, targets in inside.items():
        for target in targets:
            backwards[target].append(node)
    sources: list[set[int]] = []
    covered: set[int] = set()
    # Whatever leads to a node, and is not led to from it, is finished after it (Kosaraju): so, from the last
    # finished to the first, a node that nothing before it has led to lies in such a circle.
    for node in reversed(_finished(inside)):
        if node not in covered:
            sources.append(_reach({node}, backwards) | {node})
            covered |= _reach({node}, inside) | {node}
    return sources


def _finished(inside: Mapping[int, Iterable[int]]) -> list[int]:
    """Walk everything in depth and list the nodes in the order in which they are left."""
    order: list[int] = []
    seen: set[int] = set()
    for root in sorted(inside):
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(inside[root]))]
        while stack:
            node, targets = stack[-1]
            target = next((target for target in targets if target not in seen), None)
            if target is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(target)
                stack.append((target, iter(inside[target])))
    return order


def _inside(connection: Connection, scope: Scope, fact_ids: set[int]) -> set[int]:
    if len(fact_ids) <= _FEW:
        described = describe(connection, fact_ids)
        return {each.id for each in described if scope.covers(each.path, each.attributes)}
    condition = render(scope)
    rows = connection.execute(
        "SELECT f.id FROM json_each(?) AS asked CROSS JOIN facts AS f ON f.id = asked.value"  # noqa: S608
        f" WHERE {LIVE}{condition.clause}",
        (json.dumps(sorted(fact_ids)), *condition.params),
    )
    return {row[0] for row in rows}
