"""`policy explain` and `policy test` beside a running service: they say what it answers, and what decides."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession

from appview.access.access import Access
from appview.access.callers import Callers
from appview.access.rules import Grant, Permission
from appview.access.subjects import EVERYONE, MEMBER, Account, Token
from appview.access.tokens import make_token
from appview.control import Control, RepoRow
from appview.memory.pool import SpacePool
from appview.memory.scope import Subtree
from appview.memory.values import Visibility
from appview.search.analysis import ANALYSIS
from appview.settings import Settings
from appview.xrpc.app import make_app
from appview.xrpc.context import Context
from appview.xrpc.server import listening
from lexicons.ids import GET_MEMORY
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.xrpc.conftest import clock
from tests.appview.xrpc.garden import ALICE, BOB, SPACE, Client, Garden
from tests.appview.xrpc.test_callers import Directory, bearer, token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.appview.cli.conftest import CommandLine

NEVER_DECLARED = SpaceUri.public(Did("did:web:nowhere.example"))


@dataclass(frozen=True)
class Asked:
    """One situation: what has happened, who asks what of which space, and what is to be told."""

    happened: Callable[[Garden], Awaitable[object]]
    status: int
    says: str
    who: str = "anonymous"
    space: SpaceUri = SPACE


async def nothing(_garden: Garden) -> None:
    """Leave all as it is."""


async def member_removed(garden: Garden) -> None:
    await garden.access.remove_member(SPACE, ALICE, "operator")


async def member_forgotten(garden: Garden) -> None:
    """The index has followed."""
    await member_removed(garden)
    await garden.control.delete_membership(SPACE, ALICE)


async def space_removed(garden: Garden) -> None:
    await garden.control.remove_space(SPACE, 1, actor="operator")


async def author_gone(garden: Garden) -> None:
    await garden.control.put_repos([RepoRow(ALICE, 1, status="takendown")])
    async with garden.pool.use(SPACE) as store:
        await store.apply([Visibility(ALICE, hidden=True)])


async def author_hidden(garden: Garden) -> None:
    async with garden.pool.use(SPACE) as store:
        await store.apply([Visibility(ALICE, hidden=True)])


async def reader_gone(garden: Garden) -> None:
    await garden.control.put_repos([RepoRow(BOB, 1, status="deactivated")])


async def denied(garden: Garden) -> None:
    await garden.hide(Permission(EVERYONE, SPACE, Subtree("/x"), "read", allow=False))


async def revoked(garden: Garden) -> None:
    await garden.control.tokens.revoke("reader", actor="operator", now=1)


CASES = {
    "allowed": Asked(nothing, 200, "allowed by"),
    "allowed to a token": Asked(nothing, 200, "allowed by", who="token:reader"),
    "allowed to an account": Asked(nothing, 200, "allowed by", who=str(BOB)),
    "denied": Asked(denied, 404, "denied by"),
    "a former member": Asked(member_removed, 404, "nothing of its author is shown"),
    "a space that was removed": Asked(space_removed, 400, "the operator has removed it (UnknownSpace)"),
    "a space never declared": Asked(nothing, 400, "no config record has declared it", space=NEVER_DECLARED),
    "an author taken down": Asked(author_gone, 404, "nothing of its author is shown: the account is takend"),
    "a hidden author": Asked(author_hidden, 404, "nothing of its author is shown"),
    "a deactivated reader": Asked(reader_gone, 401, "the account is deactivated", who=str(BOB)),
    "a revoked token": Asked(revoked, 401, "there is no token reader", who="token:reader"),
    "an expired token": Asked(nothing, 401, "the token old has expired", who="token:old"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_says_what_the_service_answers(engram: CommandLine, tmp_path: Path, case: Asked) -> None:
    status, uri = asyncio.run(served(engram.data, case))
    assert status == case.status
    question = (case.who, case.space)
    by_path = engram("policy", "explain", *question, "/x", "read", "--tag", f"owner={ALICE}")
    told = [by_path]
    if case.space == SPACE:
        told.append(engram("policy", "explain", *question, uri, "read"))
    for answer in told:
        assert answer.code == 0
        assert ("allowed by" in answer.out) is (status == 200)
        assert case.says in answer.out
    for expected, code in (("allow", 0 if status == 200 else 1), ("deny", 1 if status == 200 else 0)):
        (tmp_path / "file").write_text(f"{case.who}, {case.space}, /x, read, {expected}, owner={ALICE}\n")
        assert engram("policy", "test", tmp_path / "file").code == code


def test_what_its_author_may_not_write_at_a_path_is_read_by_nobody(engram: CommandLine) -> None:
    """After the index has followed there is nothing to take an author from."""
    asyncio.run(served(engram.data, Asked(member_forgotten, 404, "")))
    asked = ("policy", "explain", "anonymous", SPACE, "/x", "read")
    answer = engram(*asked, "--tag", f"owner={ALICE}")
    assert "allowed" not in answer.out
    assert f"{ALICE} may not write this here" in answer.out
    assert engram(*asked).out.startswith("allowed by")  # of an author who may


def test_a_space_that_only_has_room_made_for_it_is_not_there_yet(engram: CommandLine) -> None:
    engram("space", "add", SPACE)
    engram("policy", "add", "p, role:everyone, *, path:/*, read, allow")
    answer = engram("policy", "explain", "anonymous", SPACE, "/x", "read")
    assert answer.out.startswith("denied\n")
    assert "there is no such space yet" in answer.out


async def served(data: Path, case: Asked) -> tuple[int, str]:
    """Fill a data folder, let happen what happens, and ask the service for a memory of Alice's."""
    settings = Settings(data=data, public_url="https://memory.example.org", registration="closed")
    data.mkdir()
    with ThreadPoolExecutor(4) as executor:
        control = await Control.open(settings.control_file, executor)
        pool = SpacePool(settings.spaces_folder, executor, clock, analyser=ANALYSIS)
        try:
            garden = Garden(control, await Access.open(control, clock), pool)
            await garden.declare()
            await garden.access.change([Grant(Account(ALICE), MEMBER, SPACE)], actor="test", action="test")
            everyone = Permission(EVERYONE, None, Subtree("/"), "read")
            await garden.access.change([everyone], actor="test", action="test")
            uri = await garden.remember("slugs", tags=["/x"])
            await control.put_membership(SPACE, ALICE, "synced")
            headers = await credentials(garden, settings)
            await case.happened(garden)
            callers = Callers(settings.service_did, Directory(), control, clock)
            context = Context.of(settings, control, garden.access, pool, clock=clock, callers=callers)
            async with listening(make_app(context), "127.0.0.1", 0) as port, ClientSession() as session:
                answer = await Client(session, f"http://127.0.0.1:{port}").send(
                    "GET",
                    f"/xrpc/{GET_MEMORY}",
                    params={"space": case.space, "uri": uri},
                    headers=headers[case.who],
                )
            return answer.status, uri
        finally:
            await pool.close()
            await control.close()


async def credentials(garden: Garden, settings: Settings) -> dict[str, dict[str, str]]:
    """Make what each subject of the cases shows."""
    headers = {"anonymous": {}, str(BOB): bearer(token(settings, BOB, GET_MEMORY))}
    for name, expires_at in (("reader", None), ("old", 1)):
        secret, row = make_token(Token(name), clock(), None, secrets.token_bytes)
        await garden.control.tokens.add(replace(row, expires_at=expires_at), actor="operator")
        headers[f"token:{name}"] = bearer(secret)
    return headers
