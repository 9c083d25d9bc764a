"""The rules from the command line: all or none, and explained."""

from __future__ import annotations

import asyncio
import os
import pwd
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from appview.control import Control, SpaceRow
from appview.memory.pool import SpacePool
from appview.memory.scope import EVERYTHING
from appview.memory.values import Put, RepoUpdate, Visibility
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
USER = pwd.getpwuid(os.getuid()).pw_name
COMMA = f'p, {BOB}, *, "tag:kind=a,b", write, allow'


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


async def hide(data: Path) -> None:
    """Do what follows from Bob's account not being active."""
    with ThreadPoolExecutor(1) as executor:
        pool = SpacePool(data / "spaces", executor, lambda: 1, analyser=ANALYSIS)
        async with pool.use(SPACE) as store:
            await store.apply([Visibility(BOB, hidden=True)])
        await pool.close()


async def declare(data: Path) -> None:
    """Make Alice's and Bob's spaces known, with no rules of their own."""
    config = Config.declare(model_key(8), created_at="2026-01-01T00:00:00Z")
    with ThreadPoolExecutor(1) as executor:
        control = await Control.open(data / "control.db", executor)
        for did in (ALICE, BOB):
            uri = SpaceUri.public(did)
            await control.put_space(SpaceRow(uri, did, uri.space_kind, config, None, None, 1))
        await control.close()


@pytest.fixture
def rules(engram: CommandLine) -> CommandLine:
    """An appview with two spaces, and with two rules more than the default."""
    engram.data.mkdir()
    asyncio.run(declare(engram.data))
    assert engram("policy", "add", READS, SECRET).code == 0
    return engram


class TestChanges:
    def test_added_rules_are_shown_and_counted(self, rules: CommandLine) -> None:
        answer = rules("policy", "add", COMMA, SECRET, "--json")
        assert answer.json == {
            "changed": True,
            "added": [COMMA],
            "removed": [],
            "policyVersion": 3,
            "warnings": [],
        }
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
        newest, oldest, first = rules("policy", "log", "--json").json["changes"]
        assert newest["action"] == "policy remove"
        assert DEFAULT in first["added"]
        assert (newest["removed"], newest["added"]) == ([SECRET], [])
        assert (oldest["removed"], oldest["added"]) == ([], [READS, SECRET])
        assert newest["at"] >= oldest["at"] > "2026"
        assert len(rules("policy", "log", "--limit", "1", "--json").json["changes"]) == 1

    @pytest.mark.parametrize(
        ("sudo", "who"),
        [("", USER), ("maria", "maria"), ("x" * 33, USER), ("a b", USER), ("role:operator)", USER)],
    )
    def test_log_tells_which_operator(
        self, engram: CommandLine, monkeypatch: pytest.MonkeyPatch, sudo: str, who: str
    ) -> None:
        monkeypatch.setenv("SUDO_USER", sudo)
        engram("policy", "add", READS)
        engram("policy", "remove", READS)
        engram("member", "add", SPACE, BOB)
        engram("member", "remove", SPACE, BOB)
        engram("space", "add", SPACE)
        engram("space", "remove", SPACE)
        engram("token", "add", "ci")
        engram("token", "revoke", "ci")
        *changes, _first = engram("policy", "log", "--json").json["changes"]
        assert [change["actor"] for change in changes] == [f"operator ({who})"] * 8

    def test_log_tells_a_user_without_a_name_by_number(
        self, engram: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SUDO_USER", raising=False)
        monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
        engram("policy", "add", READS)
        assert "  operator (uid 3999999999): policy add\n" in engram("policy", "log").out


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
        assert str(tmp_path / "rules.csv") in answer.err
        assert COMMA not in rules("policy", "export").out

    def test_file_that_is_not_there_is_a_usage_error(self, rules: CommandLine, tmp_path: Path) -> None:
        assert rules("policy", "import", tmp_path / "absent").code == 2

    def test_expectations_are_checked(self, rules: CommandLine, tmp_path: Path) -> None:
        met = f"anonymous, {SPACE}, /secret/x, read, deny\n{BOB}, {SPACE}, /x, read, allow, kind=z\n"
        case = f"{BOB}, {SPACE}, /x, write"
        (tmp_path / "met").write_text("# ours\n" + met)
        answer = rules("policy", "test", tmp_path / "met")
        assert (answer.code, answer.out) == (0, "2 of 2 expectations are met\n")
        (tmp_path / "unmet").write_text(met + f"{case}, allow\n")
        answer = rules("policy", "test", tmp_path / "unmet", "--json")
        assert answer.code == 1
        assert answer.json["expectations"] == 3
        (failed,) = answer.json["failed"]
        asked = {"line": 3, "case": case, "expected": "allow", "got": "deny"}
        assert failed.items() >= asked.items()
        assert (failed["rules"], failed["attributes"]) == ([], {"owner": BOB})
        text = rules("policy", "test", tmp_path / "unmet").out
        head = f"{tmp_path / 'unmet'}:3: expected allow, got deny: {case}"
        assert text.startswith(f"{head}\n  at /x, owner={BOB}\n")

    def test_expectations_are_answered_with_the_tags_that_paths_give(
        self, rules: CommandLine, tmp_path: Path
    ) -> None:
        asyncio.run(remember(rules.data, "/a/b"))
        rules("policy", "add", "p, role:everyone, *, tag:kind=path, read, deny")
        cases = {
            f"anonymous, {SPACE}, /a/b, read": "deny",
            f"anonymous, {SPACE}, /ab, read": "allow",
            f"anonymous, {SpaceUri.public(BOB)}, /a/b, read": "allow",
        }
        met = [*(f"{case}, {expected}" for case, expected in cases.items())]
        met.append(f"anonymous, {SPACE}, /a, read, deny, kind=own")  # the path protects the key
        (tmp_path / "file").write_text("\n".join(met))
        answer = rules("policy", "test", tmp_path / "file")
        assert (answer.code, answer.out) == (0, "4 of 4 expectations are met\n")

    @pytest.mark.parametrize("content", ["", "\n\n", "# nothing but this\n"])
    def test_a_file_without_an_expectation_meets_none(
        self, rules: CommandLine, tmp_path: Path, content: str
    ) -> None:
        (tmp_path / "file").write_text(content)
        answer = rules("policy", "test", tmp_path / "file")
        assert (answer.code, answer.out) == (2, "")
        assert f"{tmp_path / 'file'} holds no expectation" in answer.err

    @pytest.mark.parametrize(
        "line",
        [
            "anonymous, *, /x, read, deny",
            f"anonymous, {SPACE}, x, read, deny",
            f"anonymous, {SPACE}, /x, reed, deny",
            f"anonymous, {SPACE}, /x, read",
            f"role:member, {SPACE}, /x, read, allow",
            f"anonymous, {SPACE}, /x, read, allow, kind",
            f"anonymous, {SPACE}, /x, read, allow, owner=bob",
            f'anonymous, "{SPACE}, /x, read, allow',
            f"nobody, {SPACE}, /x, read, allow",
            "\x00",
        ],
    )
    def test_expectation_that_cannot_be_read_is_an_error(
        self, rules: CommandLine, tmp_path: Path, line: str
    ) -> None:
        (tmp_path / "file").write_text(f"# first\nanonymous, {SPACE}, /x, read, allow\n{line}\n")
        answer = rules("policy", "test", tmp_path / "file")
        assert answer.code == 2
        assert answer.out == ""
        assert f"{tmp_path / 'file'}:3: " in answer.err

    def test_a_file_that_is_no_text_is_named(self, rules: CommandLine, tmp_path: Path) -> None:
        for command in ("test", "import"):
            (tmp_path / "file").write_bytes(b"# text\n\xff\xfe")
            answer = rules("policy", command, tmp_path / "file")
            assert answer.code == 2
            assert str(tmp_path / "file") in answer.err


class TestWarnings:
    @pytest.mark.parametrize(
        ("rule", "says"),
        [
            ("p, role:member, *, path:/a, delete, deny", "no method asks for delete"),
            ("p, anonymous, *, path:/*, write, allow", "never counts: what is indexed"),
            ("p, anonymous, *, path:/*, admin, allow", "never counts: only a known caller"),
            ("p, token:ci, *, path:/*, write, allow", "the holder of a token has none"),
            ("p, role:everyone, *, path:/*, write, allow", "an account that no rule names is followed"),
            (f"p, {BOB}, *, tag:owner={ALICE}, write, allow", "never counts: an account writes"),
            ("p, role:x, *, tag:k=v, admin, allow", "never counts: who governs has a path and all below"),
            ("p, role:x, *, path:/a, admin, allow", "never counts: who governs"),
            ("p, role:x, *, tag:k=v, admin, deny", "keeps from governing anything"),
            ("p, role:everyone, *, path:/*, admin, allow", "lets every account"),
        ],
    )
    def test_a_rule_that_does_not_do_what_it_says_is_added_with_a_warning(
        self, rules: CommandLine, tmp_path: Path, rule: str, says: str
    ) -> None:
        answer = rules("policy", "add", SECRET, rule)
        assert (answer.code, answer.out) == (0, f"+ {rule}\n")
        assert answer.err.startswith(f"warning: {rule}: ")
        assert says in answer.err
        rules("policy", "remove", rule)
        (tmp_path / "rules").write_text(rule)
        (warning,) = rules("policy", "import", tmp_path / "rules", "--json").json["warnings"]
        assert warning["rule"] == rule
        assert says in warning["reason"]
        assert rules("policy", "import", tmp_path / "rules").err == ""  # it is there already

    @pytest.mark.parametrize(
        "rule",
        [
            "p, anonymous, *, path:/a, read, deny",
            "p, token:ci, *, path:/a/*, admin, allow",
            "p, role:everyone, *, path:/a/*, write, deny",
            "p, role:everyone, *, path:/a/*, admin, deny",
            "p, role:x, *, path:/a, admin, deny",
            f"p, {BOB}, *, tag:owner={BOB}, write, allow",
            f"p, role:x, *, tag:owner={BOB}, write, allow",
            "g, anonymous, role:x, *",
        ],
    )
    def test_a_rule_that_does_what_it_says_is_added_without(self, rules: CommandLine, rule: str) -> None:
        assert rules("policy", "add", rule).err == ""


class TestExplain:
    def test_shows_the_deciding_rules(self, rules: CommandLine) -> None:
        assert rules("policy", "explain", "anonymous", ALICE, "/x", "read").out == f"allowed by\n  {READS}\n"
        answer = rules("policy", "explain", BOB, SPACE, "/secret/x", "read", "--json")
        assert answer.json == {
            "allowed": False,
            "rules": [SECRET],
            "path": "/secret/x",
            "attributes": {},
            "inherited": {},
            "notes": [],
        }
        assert "no rule allows it" in rules("policy", "explain", BOB, SPACE, "/x", "write").out

    def test_takes_attributes(self, rules: CommandLine) -> None:
        rules("policy", "add", COMMA)
        asked = ("policy", "explain", BOB, ALICE, "/x", "write", "--json")
        assert rules(*asked).json["allowed"] is False
        answer = rules(*asked, "--tag", "kind=a,b").json
        assert (answer["allowed"], answer["rules"]) == (True, [COMMA])

    def test_a_path_has_the_tags_that_the_service_would_look_at(self, rules: CommandLine) -> None:
        asyncio.run(remember(rules.data, "/a/b"))
        deny = "p, role:everyone, *, tag:kind=path, read, deny"
        rules("policy", "add", deny)
        for path in ("/a", "/a/b", "/a/new"):
            asked = ("policy", "explain", "anonymous", SPACE, path, "read")
            assert rules(*asked).out == f"at {path}, kind=path (from /a, protected)\ndenied by\n  {deny}\n"
            answer = rules(*asked, "--tag", "kind=own", "--json").json
            assert (answer["allowed"], answer["rules"]) == (False, [deny])
            assert answer["inherited"] == {"kind": {"path": "/a", "protected": True}}
            assert answer["notes"] == ["kind=own is not looked at: /a protects kind"]
        assert rules("policy", "explain", "anonymous", SPACE, "/ab", "read").out.startswith("allowed by")

    def test_what_a_record_cannot_say_is_not_looked_at(self, rules: CommandLine) -> None:
        rules("policy", "add", "p, role:everyone, *, tag:trust=high, read, deny")
        answer = rules("policy", "explain", "anonymous", SPACE, "/x", "read", "--tag", "trust=high", "--json")
        assert (answer.json["allowed"], answer.json["attributes"]) == (True, {})
        assert answer.json["notes"] == ["trust=high is not looked at: a record cannot set it"]

    def test_who_writes_is_the_owner(self, rules: CommandLine) -> None:
        allow = f"p, role:everyone, *, tag:owner={BOB}, write, allow"
        rules("policy", "add", allow)
        asked = ("policy", "explain", BOB, SPACE, "/x", "write", "--json")
        assert rules(*asked).json["rules"] == [allow]
        assert rules(*asked, "--tag", f"owner={BOB}").json["allowed"] is True
        rules("policy", "add", f"p, role:everyone, *, tag:owner={ALICE}, write, allow")
        assert rules(*asked, "--tag", f"owner={ALICE}").json["allowed"] is False
        assert "owner=DID" in rules("policy", "explain", "anonymous", SPACE, "/x", "write").out

    def test_what_no_rule_can_give_is_denied_and_why_is_told(self, rules: CommandLine) -> None:
        rules("policy", "add", "p, role:everyone, *, path:/*, write, allow")
        rules("policy", "add", "p, role:everyone, *, path:/*, admin, allow")
        rules("policy", "add", "p, role:everyone, *, path:/a/b, admin, deny")
        rules("token", "add", "ci")
        for who, action, path, allowed in (
            ("anonymous", "write", "/x", False),
            ("anonymous", "admin", "/x", False),
            ("token:ci", "write", "/x", False),
            ("token:ci", "admin", "/x", True),
            ("token:ci", "admin", "/a", False),  # for who governs /a has /a/b too
            (BOB, "write", "/x", True),
        ):
            answer = rules("policy", "explain", who, SPACE, path, action, "--json").json
            assert answer["allowed"] is allowed, (who, action, path)
            assert bool(answer["notes"]) is not allowed
            assert bool(answer["rules"]) is allowed

    def test_that_nothing_asks_for_delete_is_told(self, rules: CommandLine) -> None:
        rules("member", "add", SPACE, BOB)
        answer = rules("policy", "explain", BOB, SPACE, "/x", "delete")
        assert answer.out.startswith(f"at /x, owner={BOB}\nallowed by\n")
        assert "note: no method asks for delete" in answer.out

    def test_takes_the_uri_of_a_memory(self, rules: CommandLine, tmp_path: Path) -> None:
        uri = asyncio.run(remember(rules.data, "/a/b", "kind=own", "level=own"))
        rules("member", "add", SPACE, BOB)
        rules("policy", "add", "p, anonymous, *, tag:kind=path, read, deny")
        asked = ("policy", "explain", "anonymous", SPACE, uri, "read")
        assert rules(*asked).out == (
            f"at /a/b, kind=path (from /a, protected), level=own, owner={BOB}\n"
            "denied by\n  p, anonymous, *, tag:kind=path, read, deny\n"
        )
        answer = rules(*asked, "--json").json
        assert answer["attributes"] == {"kind": "path", "level": "own", "owner": BOB}
        assert rules(*asked, "--tag", "kind=x").code == 2
        assert rules("policy", "explain", BOB, SPACE, uri, "read", "--json").json["allowed"] is True
        asyncio.run(hide(rules.data))
        hidden = rules("policy", "explain", BOB, SPACE, uri, "read").out
        assert "denied\nnote: denied whatever the rules say: nothing of its author is shown" in hidden

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
