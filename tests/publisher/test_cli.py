"""The command line against the official PDS: what it prints, how it exits."""

from __future__ import annotations

import asyncio
import io
import json
import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lexicons.data import to_json
from lexicons.syntax import Nsid
from publisher.cli import run
from publisher.reembedding import Reembedder
from tests.network.devnet import Devnet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from embedders.spec import FolderSpec
    from tests.network.devnet import Account


class Result:
    """An exit status and what was printed."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


@pytest.fixture
def engram(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Result]:
    """Run `engram-publisher`, with standard input where given."""
    for name in [name for name in os.environ if name.startswith("ENGRAM_") and "NETWORK" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ENGRAM_SESSION", str(tmp_path / "session.json"))
    monkeypatch.setenv("ENGRAM_CONFIG", str(tmp_path / "engram.toml"))
    (tmp_path / "engram.toml").touch()
    monkeypatch.setenv("ENGRAM_EMBEDDER", "hashing-64")

    def call(*arguments: str, stdin: bytes = b"") -> Result:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = run(list(arguments))
        out, err = capsys.readouterr()
        return Result(status, out, err)

    return call


@pytest.fixture
def account(devnet: Devnet) -> Account:
    return devnet.create_account()


@pytest.fixture
def signed_in(
    engram: Callable[..., Result], account: Account, devnet: Devnet, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run `engram-publisher` signed in as an account whose space has a model."""
    monkeypatch.setenv("ENGRAM_PLC_URL", devnet.plc_url)
    assert engram("login", account.did, "--password-stdin", stdin=account.password.encode()).status == 0
    assert engram("model", "--set").status == 0
    return engram


# --- without a network


def test_help_answers_at_once() -> None:
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "publisher.cli", "--help"], check=True, stdout=subprocess.DEVNULL
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Seconds of work, not of waiting for a busy machine.
    assert min(once() for _ in range(3)) < 0.3


def test_help_loads_neither_the_sdk_nor_a_model() -> None:
    script = (
        "import sys; from publisher.cli import run; run(['remember', '--help']);"
        "print([name for name in ('atproto', 'atproto_client', 'fastembed', 'httpx', 'numpy') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("remember",),
        ("remember", "text", "--stdin"),
        ("remember", "--jsonl", "/no/such/file"),
        ("remember", "--jsonl", "-", "--tag", "x"),
        ("remember", "x", "--max-wait", "soon"),
        ("remember", "x", "--embedder", "nonsense"),
        ("remember", "x", "--password", "secret"),
        ("login", "a.example.com", "--password", "secret"),
        ("login",),
        ("update", "key"),
        ("update", "key", "text", "--stdin"),
        ("update", "key", "--tag", "a", "--no-tags"),
        ("list", "--limit", "101"),
        ("list", "--limit", "0"),
        ("model", "--promote", "--document-prefix", "d"),
        ("model", "--next", "--force"),
    ],
)
def test_wrong_usage_exits_with_2(engram: Callable[..., Result], arguments: tuple[str, ...]) -> None:
    result = engram(*arguments)
    assert result.status == 2 and result.out == "" and result.err.startswith("error: ")
    result = engram(*arguments, "--json")
    assert (
        result.status == 2
        and result.out == ""
        and set(result.error) == {"code", "message", "hint", "retryable"}
    )


def test_not_signed_in_exits_with_3(engram: Callable[..., Result]) -> None:
    for command in (("whoami",), ("list",), ("remember", "x"), ("forget", "3n3j4yb7fdvmh"), ("logout",)):
        result = engram(*command, "--json")
        assert result.status == 3, command
        assert result.error["code"] == "NotSignedIn" and "login" in result.error["hint"]


def test_a_password_is_not_asked_for_without_a_terminal(engram: Callable[..., Result]) -> None:
    result = engram("login", "a.example.com")
    assert result.status == 3 and "ENGRAM_PASSWORD" in result.err


# --- on the official PDS


@pytest.mark.network
def test_login_whoami_logout(
    engram: Callable[..., Result],
    account: Account,
    devnet: Devnet,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("ENGRAM_PLC_URL", devnet.plc_url)
    monkeypatch.setenv("ENGRAM_PASSWORD", account.password)
    expected = {"did": account.did, "handle": account.handle, "pds": account.pds}
    assert engram("login", account.did, "--json").json == expected
    assert (tmp_path / "session.json").stat().st_mode & 0o777 == 0o600
    assert engram("whoami", "--json").json == expected
    assert account.handle in engram("whoami").out
    assert engram("logout", "--json").json == {**expected, "ended": True}
    assert engram("whoami").status == 3
    monkeypatch.setenv("ENGRAM_PASSWORD", "wrong")
    result = engram("login", account.handle, "--pds", account.pds)
    assert result.status == 3 and "app password" in result.err and "wrong" not in result.err


@pytest.mark.network
def test_a_revoked_app_password_exits_with_3(
    engram: Callable[..., Result],
    account: Account,
    devnet: Devnet,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("ENGRAM_PLC_URL", devnet.plc_url)
    made = devnet.call("com.atproto.server.createAppPassword", {"name": "agent"}, token=account.access_jwt)
    assert engram("login", account.did, "--password-stdin", stdin=made["password"].encode()).status == 0
    devnet.call("com.atproto.server.revokeAppPassword", {"name": "agent"}, token=account.access_jwt)
    # The access token lives on for two hours; take it away, as time would.
    kept = json.loads((tmp_path / "session.json").read_text())
    parts = kept["token"].split(":::")
    parts[2] = parts[3]
    (tmp_path / "session.json").write_text(json.dumps({**kept, "token": ":::".join(parts)}))
    result = engram("whoami", "--json")
    assert result.status == 3 and result.error["code"] == "NotSignedIn"
    assert "revoked" in result.error["message"] and "engram-publisher login" in result.error["hint"]


@pytest.mark.network
def test_a_memory_from_remember_to_forget(signed_in: Callable[..., Result], account: Account) -> None:
    made = signed_in(
        "remember", "Tomatoes want sun", "-t", "/garden", "-t", "kind=fact", "--source", "s", "--json"
    )
    assert made.status == 0 and set(made.json) == {"uri", "cid", "rev"}
    uri = made.json["uri"]
    rkey = uri.rsplit("/", 1)[1]
    assert uri == f"at://{account.did}/garden.engram.memory/{rkey}"
    got = signed_in("get", uri, "--json").json
    assert got == signed_in("get", rkey, "--json").json
    assert (got["text"], got["tags"], got["source"], got["cid"]) == (
        "Tomatoes want sun",
        ["/garden", "kind=fact"],
        "s",
        made.json["cid"],
    )
    assert got["model"] == {"model": "hashing-64", "modelDigest": "sha256:hashing", "dims": 64}
    changed = signed_in("update", uri, "--stdin", "--json", stdin="naïve \x1b[31mred\n".encode())
    assert changed.json["rev"] > made.json["rev"] and changed.json["cid"] != made.json["cid"]
    shown = signed_in("get", uri).out
    assert "| naïve \\u001b[31mred" in shown and "\x1b" not in shown and "tags: /garden, kind=fact" in shown
    assert signed_in("get", uri, "--json").json["text"] == "naïve \x1b[31mred"
    listed = signed_in("list", "--limit", "1", "--json").json
    assert [memory["uri"] for memory in listed["memories"]] == [uri]
    assert signed_in("list", "--cursor", listed["cursor"], "--json").json == {"memories": []}
    assert signed_in("forget", rkey, "--json").json["uri"] == uri
    assert [signed_in(command, uri).status for command in ("get", "forget")] == [4, 4]
    assert signed_in("update", uri, "new").status == 4
    assert signed_in("list").out == "no memories\n"


@pytest.mark.network
def test_limits_and_models_are_told_by_the_exit_status(signed_in: Callable[..., Result]) -> None:
    too_long = signed_in("remember", "x" * 30_001, "--json")
    assert too_long.status == 1 and "30001 bytes, at most 30000" in too_long.error["message"]
    owner = signed_in("remember", "x", "-t", "owner=me", "--json")
    assert owner.status == 1 and owner.error["code"] == "Refused" and not owner.error["retryable"]
    wrong = signed_in("remember", "x", "--embedder", "hashing-32", "--json")
    assert wrong.status == 5 and wrong.error["code"] == "ModelTrouble"
    missing = signed_in("remember", "x", "--embedder", "fastembed:/no/such/folder", "--json")
    assert missing.status == 5 and "no folder" in missing.error["message"]
    away = signed_in("remember", "x", "--embedder", "openai:http://localhost:9/v1#m;digest=d", "--json")
    assert away.status == 6 and away.error["retryable"] is True
    assert signed_in("list", "--json").json == {"memories": []}


@pytest.mark.network
def test_several_memories_have_one_outcome_each(signed_in: Callable[..., Result], tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"memory {index} " + "長" * 800, "tags": ["n"]}) for index in range(230)]
    lines[100] = "not json"
    lines[7] = ""
    (tmp_path / "memories.jsonl").write_text("\n".join(lines))
    result = signed_in("remember", "--jsonl", str(tmp_path / "memories.jsonl"), "--json")
    assert result.status == 7 and result.error["code"] == "PartlyDone"
    document = result.json
    assert (document["published"], document["failed"]) == (228, 1)
    assert [outcome["line"] for outcome in document["outcomes"]] == [n for n in range(1, 231) if n != 8]
    [failed] = [outcome for outcome in document["outcomes"] if "error" in outcome]
    assert failed["line"] == 101 and failed["error"]["code"] == "Refused"
    stored: set[str] = set()
    cursor: tuple[str, ...] = ()
    while True:
        page = signed_in("list", "--limit", "100", *cursor, "--json").json
        stored |= {memory["uri"] for memory in page["memories"]}
        if "cursor" not in page:
            break
        cursor = ("--cursor", page["cursor"])
    assert stored == {outcome["uri"] for outcome in document["outcomes"] if "uri" in outcome}


@pytest.mark.network
def test_lines_with_keys_can_be_published_again(signed_in: Callable[..., Result]) -> None:
    line = {"text": "once", "rkey": "3n3j4yb7fdvmh", "createdAt": "2026-11-30T09:15:00.000Z"}
    content = "\n".join([json.dumps(line), json.dumps({"text": "another"})]).encode()
    for _ in range(2):
        assert signed_in("remember", "--jsonl", "-", stdin=content).status == 0
    texts = [memory["text"] for memory in signed_in("list", "--json").json["memories"]]
    assert sorted(texts) == ["another", "another", "once"]
    other = json.dumps({**line, "text": "different"}).encode()
    result = signed_in("remember", "--jsonl", "-", "--json", stdin=other)
    assert result.status == 1 and result.error["code"] == "Conflict"


@pytest.mark.network
def test_a_member_writes_for_a_space_that_another_governs(
    signed_in: Callable[..., Result], account: Account, devnet: Devnet, tmp_path: Path
) -> None:
    member = devnet.create_account()
    where = ("--session", str(tmp_path / "member.json"), "--space", account.handle)
    assert (
        signed_in("login", member.did, "--password-stdin", *where, stdin=member.password.encode()).status == 0
    )
    done = signed_in("remember", "by a member", "--only-space", *where, "--json")
    assert done.json["uri"].startswith(f"at://{member.did}/")
    assert signed_in("get", done.json["uri"], "--json").json["tags"] == [f"space={account.did}"]
    for change in ("--set", "--next", "--promote", "--cancel"):
        refused = signed_in("model", change, *where, "--json")
        assert refused.status == 3 and refused.error["code"] == "NotAllowed"
    assert signed_in("forget", done.json["uri"]).status == 3, "the authority does not change a member's repo"
    shown = signed_in("model", *where, "--json").json
    assert shown["space"] == f"at://{account.did}/garden.engram.config/self" and shown["dims"] == 64


@pytest.mark.network
def test_a_model_changes_without_a_gap(signed_in: Callable[..., Result]) -> None:
    assert "next" not in signed_in("model", "--json").json
    both = ("--next-embedder", "hashing-32")
    old = signed_in("remember", "before", "-t", "/old", "--json").json["uri"]
    same = signed_in("model", "--next", "--json")
    assert same.status == 1 and "--next-embedder" in same.error["hint"]
    announced = signed_in("model", "--next", *both, "--json").json
    assert announced["next"]["model"] == "hashing-32" and announced["cid"]
    assert announced["own"] == {"memories": 1, "lacking": 1}
    told = signed_in("model", "--next", *both).out
    assert "1 of this account's 1 memories have none now" in told and "engram-publisher reembed" in told
    during = signed_in("get", signed_in("remember", "during", *both, "--json").json["uri"], "--json").json
    assert (during["model"]["dims"], during["nextModel"]["dims"]) == (64, 32)
    assert signed_in("model", "--set", "--embedder", "hashing-8").status == 1
    assert signed_in("reembed", "--json").status == 5, "the next model is not configured"
    lost = signed_in("model", "--promote", "--json")
    assert lost.status == 1 and "1 of this account's 2 memories" in lost.error["message"]
    assert signed_in("model", "--json").json["model"] == "hashing-64"
    done = signed_in("reembed", *both, "--json")
    assert done.status == 0 and (done.json["done"], done.json["already"], done.json["failed"]) == (1, 1, 0)
    assert done.json["outcomes"][1]["uri"] == old and done.json["outcomes"][0]["state"] == "already"
    got = signed_in("get", old, "--json").json
    assert (got["text"], got["tags"], got["cid"]) == ("before", ["/old"], done.json["outcomes"][1]["cid"])
    assert (got["model"]["dims"], got["nextModel"]["dims"]) == (64, 32)
    again = signed_in("reembed", *both)
    assert again.status == 0 and again.out == "0 re-embedded, 2 had every vector, 0 failed\n"
    promoted = signed_in("model", "--promote", "--json").json
    assert promoted["model"] == "hashing-32" and promoted["own"] == {"memories": 2, "lacking": 0}
    assert signed_in("remember", "after", *both).status == 0
    assert signed_in("remember", "after").status == 5
    assert signed_in("model", "--cancel").status == 1
    replaced = signed_in("model", "--set", "--replace", "--document-prefix", "d: ", "--json").json
    assert (replaced["model"], replaced["documentPrefix"]) == ("hashing-64", "d: ")


@pytest.mark.network
def test_reembedding_goes_past_a_change_made_meanwhile_and_says_what_is_left(
    signed_in: Callable[..., Result], account: Account, devnet: Devnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official PDS holds a batch to the commit that its records were read at."""
    lines = "\n".join(json.dumps({"text": f"memory {index}"}) for index in range(130))
    made = signed_in("remember", "--jsonl", "-", "--json", stdin=lines.encode()).json["outcomes"]
    both = ("--next-embedder", "hashing-32")
    assert signed_in("model", "--next", *both).status == 0
    changed = made[-1]["uri"]  # the newest, on the first page
    values = Reembedder._values

    async def meanwhile(self: Reembedder, *arguments: Any) -> Any:
        monkeypatch.setattr(Reembedder, "_values", values)
        place = {"repo": account.did, "collection": "garden.engram.memory", "rkey": changed.rsplit("/", 1)[1]}
        record = (await self._repo.get(Nsid(place["collection"]), place["rkey"])).value  # type: ignore[union-attr]
        body = {**place, "record": to_json({**record, "text": "changed meanwhile"})}
        await asyncio.to_thread(devnet.call, "com.atproto.repo.putRecord", body, token=account.access_jwt)
        return await values(self, *arguments)

    monkeypatch.setattr(Reembedder, "_values", meanwhile)
    partly = signed_in("reembed", *both, "--json")
    assert partly.status == 7 and partly.error["code"] == "PartlyDone"
    assert (partly.json["done"], partly.json["failed"]) == (129, 1)
    [failed] = [outcome for outcome in partly.json["outcomes"] if outcome["state"] == "failed"]
    assert failed["uri"] == changed and failed["error"]["code"] == "Conflict"
    assert signed_in("get", changed, "--json").json["text"] == "changed meanwhile"
    rest = signed_in("reembed", *both)
    assert rest.status == 0 and rest.out == "1 re-embedded, 129 had every vector, 0 failed\n"
    assert rest.err == "100 memories seen, 1 re-embedded\n"
    assert signed_in("model", "--promote").status == 0


@pytest.mark.network
def test_status_tells_whether_a_memory_could_be_published(signed_in: Callable[..., Result]) -> None:
    ready = signed_in("status", "--json")
    assert ready.status == 0 and ready.json["ready"] is True and ready.json["model"]["dims"] == 64
    assert signed_in("status").out.startswith("ready: yes")
    wrong = signed_in("status", "--embedder", "hashing-8", "--json")
    assert wrong.status == 5 and wrong.json["ready"] is False
    assert wrong.json["problem"] == wrong.error
    nowhere = signed_in("status", "--space", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "--json")
    assert nowhere.status == 4 and "account" in nowhere.json


@pytest.mark.network
def test_a_real_model_publishes_to_a_real_pds(signed_in: Callable[..., Result], minilm: FolderSpec) -> None:
    from embedders.packaged import MODEL_SHA256, spec_text

    model = ("--embedder", spec_text(minilm.folder))
    declared = signed_in("model", "--set", "--replace", *model, "--json").json
    assert declared["modelDigest"] == f"sha256:{MODEL_SHA256}" and str(minilm.folder) not in str(declared)
    done = signed_in("remember", "The greenhouse door sticks when it rains.", *model, "--json")
    assert done.status == 0
    assert signed_in("get", done.json["uri"], "--json").json["model"]["dims"] == 384
    assert signed_in("status", *model, "--json").json["ready"] is True


@pytest.mark.network
def test_an_authority_may_live_on_another_pds(
    engram: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Devnet(pds=2) as network:
        monkeypatch.setenv("ENGRAM_PLC_URL", network.plc_url)
        authority, member = network.create_account(pds=0), network.create_account(pds=1)
        for account in (authority, member):
            session = ("--session", str(tmp_path / account.handle))
            stdin = account.password.encode()
            assert engram("login", account.did, "--password-stdin", *session, stdin=stdin).status == 0
        assert engram("model", "--set", "--session", str(tmp_path / authority.handle)).status == 0
        space = ("--session", str(tmp_path / member.handle), "--space", authority.did)
        done = engram("remember", "across", *space, "--json")
        assert done.json["uri"].startswith(f"at://{member.did}/")
        there = engram("get", done.json["uri"], "--session", str(tmp_path / authority.handle), "--json")
        assert there.json["text"] == "across"


@pytest.mark.network
def test_an_interrupt_ends_at_once_and_tells_what_was_published(signed_in: Callable[..., Result]) -> None:
    command = [sys.executable, "-m", "publisher.cli", "remember", "--jsonl", "-"]
    lines = [json.dumps({"text": f"memory {index}"}).encode() + b"\n" for index in range(201)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.writelines(lines)
        process.stdin.flush()  # and no end: the next group waits for more
        told = [process.stdout.readline() for _ in range(200)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert told[-1].startswith(b"line 200: at://") and out == b"200 published, 0 not\n"
    assert process.returncode == 130 and err.strip() == b"error: interrupted"
