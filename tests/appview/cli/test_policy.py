"""The rules from the command line: all or none, and explained."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from appview.memory.pool import SpacePool
from appview.memory.scope import EVERYTHING
from appview.memory.values import Put, RepoUpdate
from appview.search.analysis import ANALYSIS
from lexicons.configs import Config
from lexicons.embeddings import Embedding
from lexicons.hashing import embed, model_key
from lexicons.memories import Memory
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Tid

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appview.cli.conftest import CommandLine

ALICE, BOB = Did("did:plc:" + "a" * 24), Did("did:web:bob.example")
SPACE = SpaceUri.public(ALICE)
SECRET = "p, role:everyone, *, path:/secret/*, read, deny"
READS = "p, role:everyone, *, path:/*, read, allow"
DEFAULT = "p, role:member, *, path:/*, delete, allow"
COMMA = 'p, token:ci, *, "tag:kind=a,b", write, allow'


async def remember(data: Path, *tags: str) -> str:
    """Index a memory of Bob's, with a protected tag on /a."""
    config = Config.declare(model_key(8), created_at="2026-01-01T00:00:00Z")
    memory = Memory("x", config.created_at, Embedding.of(config.model, embed("x", 8)), tags=tags)
    with ThreadPoolExecutor(1) as executor:
        pool = SpacePool(data / "spaces", executor, lambda: 1, analyser=ANALYSIS)
        async with pool.use(SPACE) as store:
            await store.configure(config)
            await store.set_path_tag("/a", "kind", "path", protected=True)
            await store.apply([RepoUpdate(BOB, str(Tid.from_micros(2)), (Put("x", "bafyx", memory),))])
            (fact,) = await store.list(EVERYTHING, limit=2)
        await pool.close()
    return fact.uri


@pytest.fixture
def rules(engram: CommandLine) -> CommandLine:
    """An appview with two rules more than the default."""
    assert engram("policy", "add", READS, SECRET).code == 0
    return engram


class TestChanges:
    def test_added_rules_are_shown_and_counted(self, rules: CommandLine) -> None:
        answer = rules("policy", "add", COMMA, SECRET, "--json")
        assert answer.json == {"changed": True, "added": [COMMA], "removed": [], "policyVersion": 3}
        assert rules("policy", "add", COMMA).out == "nothing changed\n"

    @pytest.mark.parametrize(
        ("bad", "code", "says"),
        [
            ("p, role:everyone, *, path:/x/*, read, denny", 2, "unknown effect 'denny'"),
            ("g, role:a, role:b, *", 1, "circle"),
        ],
    )
    def test_one_bad_rule_refuses_all(self, rules: CommandLine, bad: str, code: int, says: str) -> None:
        rules("policy", "add", "g, role:b, role:a, *")
        before = rules("policy", "export").out
        answer = rules("policy", "add", COMMA, bad)
        assert answer.code == code
        assert says in answer.err
        assert answer.out == ""
        assert rules("policy", "export").out == before

    def test_removing_a_rule_that_is_not_there_removes_none(self, rules: CommandLine) -> None:
        answer = rules("policy", "remove", SECRET, COMMA, "--json")
        assert answer.code == 4
        assert COMMA in answer.error["message"]
        assert rules("policy", "remove", SECRET, "--json").json["removed"] == [SECRET]

    def test_list_can_be_narrowed(self, rules: CommandLine) -> None:
        rules("member", "add", ALICE, BOB)
        grant = f"g, {BOB}, role:member, {SPACE}"
        assert rules("policy", "list", "--subject", BOB).out == grant + "\n"
        assert rules("policy", "list", "--space", SPACE, "--json").json == {"rules": [grant]}
        assert rules("policy", "list", "--subject", "role:everyone").out == f"{READS}\n{SECRET}\n"

    def test_log_tells_when_who_before_and_after(self, rules: CommandLine) -> None:
        rules("policy", "remove", SECRET)
        newest, oldest = rules("policy", "log", "--json").json["changes"]
        assert (newest["actor"], newest["action"]) == ("operator", "policy remove")
        assert (newest["removed"], newest["added"]) == ([SECRET], [])
        assert (oldest["removed"], oldest["added"]) == ([], [READS, SECRET])
        assert newest["at"] >= oldest["at"] > "2026"
        assert len(rules("policy", "log", "--limit", "1", "--json").json["changes"]) == 1


class TestFiles:
    def test_export_can_be_imported_elsewhere(
        self, rules: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rules("policy", "add", COMMA)
        rules("policy", "remove", DEFAULT)
        exported = rules("policy", "export").out
        (tmp_path / "rules.csv").write_text("# ours\n" + exported)
        monkeypatch.setenv("ENGRAM_DATA", str(tmp_path / "elsewhere"))
        answer = rules("policy", "import", "--replace", tmp_path / "rules.csv", "--json")
        assert answer.json["removed"] == [DEFAULT]
        assert set(answer.json["added"]) == {READS, SECRET, COMMA}
        assert rules("policy", "import", "--replace", tmp_path / "rules.csv").out == "nothing changed\n"
        assert sorted(rules("policy", "export").out.splitlines()) == sorted(exported.splitlines())

    def test_without_replace_the_others_stay(self, rules: CommandLine, tmp_path: Path) -> None:
        (tmp_path / "rules.csv").write_text(COMMA)
        assert rules("policy", "import", tmp_path / "rules.csv", "--json").json["removed"] == []
        assert SECRET in rules("policy", "export").out

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (f"{COMMA}\n\np, x".encode(), "line 3"),
            (b"\xff\xfe", "UTF-8"),
            (f'{COMMA}\np, "x'.encode(), "line 2"),
        ],
    )
    def test_bad_file_changes_nothing(
        self, rules: CommandLine, tmp_path: Path, content: bytes, says: str
    ) -> None:
        (tmp_path / "rules.csv").write_bytes(content)
        answer = rules("policy", "import", "--replace", tmp_path / "rules.csv")
        assert answer.code == 2
        assert says in answer.err
        assert COMMA not in rules("policy", "export").out

    def test_file_that_is_not_there_is_a_usage_error(self, rules: CommandLine, tmp_path: Path) -> None:
        assert rules("policy", "import", tmp_path / "absent").code == 2

    def test_expectations_are_checked(self, rules: CommandLine, tmp_path: Path) -> None:
        met = f"anonymous, {SPACE}, /secret/x, read, deny\n{BOB}, {SPACE}, /x, read, allow, kind=z\n"
        (tmp_path / "met").write_text("# ours\n" + met)
        answer = rules("policy", "test", tmp_path / "met")
        assert (answer.code, answer.out) == (0, "2 of 2 expectations are met\n")
        (tmp_path / "unmet").write_text(met + f"token:ci, {SPACE}, /x, write, allow\n")
        answer = rules("policy", "test", tmp_path / "unmet", "--json")
        assert answer.code == 1
        assert answer.json["expectations"] == 3
        assert answer.json["failed"] == [
            {"line": 3, "case": f"token:ci, {SPACE}, /x, write", "expected": "allow", "got": "deny"}
        ]

    @pytest.mark.parametrize(
        "line",
        [
            "anonymous, *, /x, read, deny",
            f"anonymous, {SPACE}, x, read, deny",
            f"anonymous, {SPACE}, /x, reed, deny",
            f"anonymous, {SPACE}, /x, read",
            f"role:member, {SPACE}, /x, read, allow",
            f"anonymous, {SPACE}, /x, read, allow, kind",
        ],
    )
    def test_expectation_that_cannot_be_read_is_an_error(
        self, rules: CommandLine, tmp_path: Path, line: str
    ) -> None:
        (tmp_path / "file").write_text(line)
        answer = rules("policy", "test", tmp_path / "file")
        assert answer.code == 2
        assert answer.out == ""


class TestExplain:
    def test_shows_the_deciding_rules(self, rules: CommandLine) -> None:
        assert rules("policy", "explain", "anonymous", ALICE, "/x", "read").out == f"allowed by\n  {READS}\n"
        answer = rules("policy", "explain", BOB, SPACE, "/secret/x", "read", "--json")
        assert answer.json == {"allowed": False, "rules": [SECRET], "path": "/secret/x", "attributes": {}}
        assert "no rule allows it" in rules("policy", "explain", BOB, SPACE, "/x", "write").out

    def test_takes_attributes(self, rules: CommandLine) -> None:
        rules("policy", "add", COMMA)
        asked = ("policy", "explain", "token:ci", ALICE, "/x", "write", "--json")
        assert rules(*asked).json["allowed"] is False
        answer = rules(*asked, "--tag", "kind=a,b").json
        assert (answer["allowed"], answer["rules"]) == (True, [COMMA])

    def test_takes_the_uri_of_a_memory(self, rules: CommandLine, tmp_path: Path) -> None:
        uri = asyncio.run(remember(rules.data, "/a/b", "kind=own"))
        rules("policy", "add", "p, anonymous, *, tag:kind=path, read, deny")
        asked = ("policy", "explain", "anonymous", SPACE, uri, "read")
        assert rules(*asked).out == (
            f"at /a/b, kind=path, owner={BOB}\ndenied by\n  p, anonymous, *, tag:kind=path, read, deny\n"
        )
        assert rules(*asked, "--json").json["attributes"] == {"kind": "path", "owner": BOB}
        assert rules(*asked, "--tag", "kind=x").code == 2

    @pytest.mark.parametrize("uri", ["at://did:web:bob.example/garden.engram.memory/3m6f72q6k2322", "at://x"])
    def test_a_memory_that_is_not_there_is_not_found(self, rules: CommandLine, uri: str) -> None:
        for space in (SPACE, SpaceUri.public(BOB)):
            answer = rules("policy", "explain", "anonymous", space, uri, "read")
            assert answer.code in (2, 4)
            assert answer.out == ""

    @pytest.mark.parametrize(
        "arguments",
        [
            ("role:member", ALICE, "/x", "read"),
            ("nobody", ALICE, "/x", "read"),
            ("anonymous", ALICE, "x", "read"),
            ("anonymous", ALICE, "/x", "govern"),
            ("anonymous", ALICE, "/x", "read", "--tag", "kind"),
        ],
    )
    def test_question_that_makes_no_sense_is_refused(
        self, rules: CommandLine, arguments: tuple[str, ...]
    ) -> None:
        assert rules("policy", "explain", *arguments).code == 2
