"""Rules, roles, a tree with tags and memories in a real file: the rows that SQL selects, what Casbin enforces
and what a plain reading of the rules says are the same, for every subject, memory and action."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from appview.access.enforcer import Enforcer
from appview.access.errors import InvalidPolicy
from appview.access.policy import Policy
from appview.access.subjects import Action
from appview.memory.search_reads import SearchReads
from appview.memory.store import SpaceStore
from appview.memory.values import RepoUpdate
from lexicons.syntax import Did
from tests.appview.access.test_agreement import DIDS, SPACES, SUBJECTS, oracle, rule_sets
from tests.appview.memory.support import CONFIG, memory, put, rev

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from appview.control_rules import Rule

SPACE = SPACES[0]
PATHS = ["/", "/a", "/a/b", "/ab", "/A", "/\u00e9", "/a b", "/b/a"]
OWN = ["kind=x", "kind=y", "trust=x", f"owner={DIDS[0]}", "label"]
REVS = count(1)

facts = st.lists(
    st.tuples(
        st.sampled_from(DIDS), st.sampled_from(PATHS), st.lists(st.sampled_from(OWN), max_size=2, unique=True)
    ),
    min_size=1,
    max_size=6,
)
path_tags = st.dictionaries(
    st.tuples(st.sampled_from(PATHS), st.sampled_from(["kind", "trust"])),
    st.tuples(st.sampled_from(["x", "y"]), st.booleans()),
    max_size=3,
)
Facts = list[tuple[Did, str, list[str]]]
PathTags = dict[tuple[str, str], tuple[str, bool]]


@pytest.fixture
async def store(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[SpaceStore]:
    from appview.search.analysis import ANALYSIS

    opened = await SpaceStore.open(tmp_path / "space.db", SPACE, executor, lambda: 1, analyser=ANALYSIS)
    await opened.configure(CONFIG)
    yield opened
    await opened.close()


def effective(author: Did, path: str, tags: list[str], given_tags: PathTags) -> dict[str, str]:
    """Work out a memory's attributes by the words of the documentation."""
    attributes = {"owner": str(author)}
    for key in ("kind", "trust"):
        segments = [segment for segment in path.split("/") if segment]
        steps = ["/" + "/".join(segments[:end]) for end in range(len(segments), -1, -1)]
        inherited = [given_tags[step, key] for step in steps if (step, key) in given_tags]
        own = [tag.partition("=")[2] for tag in tags if tag.startswith(f"{key}=") and key != "trust"]
        if own and not any(protected for _, protected in inherited):
            attributes[key] = own[-1]
        elif inherited:
            attributes[key] = inherited[0][0]
    return attributes


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(rules=rule_sets, made=facts, given_tags=path_tags)
async def test_sql_casbin_and_oracle_agree(
    store: SpaceStore, rules: list[Rule], made: Facts, given_tags: PathTags
) -> None:
    try:
        policy = Policy(rules)
    except InvalidPolicy:
        assume(False)
    for (path, key), (value, protected) in given_tags.items():
        await store.set_path_tag(path, key, value, protected)
    updates = [
        RepoUpdate(author, rev(next(REVS)), (put(str(number), memory(f"m{number}", path, *tags)),))
        for number, (author, path, tags) in enumerate(made)
    ]
    await store.apply(updates)
    enforcer = Enforcer(policy)
    for subject in SUBJECTS:
        for action in get_args(Action):
            scope = policy.scope(subject, SPACE, action)
            listed = {fact.rkey for fact in await store.list(scope, limit=100)}
            searched = await store.database.read(lambda c, scope=scope: len(SearchReads(c).ids(scope)))
            expected = set()
            for number, (author, path, tags) in enumerate(made):
                attributes = effective(author, path, tags, given_tags)
                allowed = oracle(rules, str(subject), str(SPACE), action, path, attributes)
                assert enforcer.enforce(subject, SPACE, action, path, attributes) == allowed
                if allowed:
                    expected.add(str(number))
            assert listed == expected
            assert searched == len(expected)
            assert (await store.status(scope)).memories == len(expected)
    for did in DIDS:
        await store.remove_author(did)
    for path, key in given_tags:
        await store.remove_path_tag(path, key)
