"""Handles are given out only where document and domain agree."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from appview.http.client import HttpClient
from appview.http.lanes import Standing
from appview.identity.documents import Identity
from appview.identity.handles import FAILURE_AGE, MAX_AGE, Handles
from appview.identity.keys import PublicKey
from lexicons.syntax import Did, Handle
from tests.network.synthetic import K256, Network
from tests.network.synthetic.serving import Serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

ALICE, BOB = Did("did:plc:" + "a" * 24), Did("did:plc:" + "b" * 24)
HANDLE = Handle("alice.garden.org")


class Domain(Serving):
    """A domain that says whose it is, in both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.txt: list[str] = []
        self.document: str | None = None
        self.asked: list[str] = []
        self.now = 1_700_000_000_000_000

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/.well-known/atproto-did", self._answer)]

    async def _answer(self, _request: web.Request) -> web.Response:
        self.asked.append("document")
        if self.document is None:
            return web.Response(status=404)
        return web.Response(text=self.document)

    async def look_up(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        return self.txt


def identity(handle: Handle | None = HANDLE, did: Did = ALICE, pds: str | None = None) -> Identity:
    return Identity(did, handle, pds, PublicKey.from_multikey(K256().multibase))


@asynccontextmanager
async def domain(*, development: bool = False) -> AsyncIterator[tuple[Domain, Handles]]:
    async with Domain() as served, HttpClient(allow_loopback=True) as client:
        yield (
            served,
            Handles(
                client,
                lambda: served.now,
                development=development,
                txt=served.look_up,
                document=lambda _handle: f"{served.url}/.well-known/atproto-did",
            ),
        )


async def test_a_text_record_names_the_account() -> None:
    async with domain() as (served, handles):
        served.txt = ["v=spf1 -all", f"did={ALICE}"]
        assert await handles.verified(identity()) == HANDLE
        assert served.asked == [f"_atproto.{HANDLE}"]


async def test_a_document_names_it_where_no_text_record_does() -> None:
    async with domain() as (served, handles):
        served.document = f"{ALICE}\n"
        assert await handles.verified(identity()) == HANDLE


@pytest.mark.parametrize("txt", [[f"did={BOB}"], ["did=nonsense"]])
async def test_a_text_record_that_disagrees_is_the_last_word(txt: list[str]) -> None:
    async with domain() as (served, handles):
        served.txt, served.document = txt, str(ALICE)
        assert await handles.verified(identity()) is None
        assert "document" not in served.asked


async def test_text_records_that_name_two_accounts_name_neither() -> None:
    async with domain() as (served, handles):
        served.txt, served.document = [f"did={ALICE}", f"did={BOB}"], str(ALICE)
        for did in (ALICE, BOB):  # whichever of them a choice would fall on
            assert await handles.verified(identity(did=did)) is None
        assert "document" not in served.asked


async def test_text_records_that_name_an_account_twice_name_it() -> None:
    async with domain() as (served, handles):
        served.txt = [f"did={ALICE}"] * 2
        assert await handles.verified(identity()) == HANDLE


@pytest.mark.parametrize("document", [None, str(BOB), "", "nonsense", "x" * 3_000])
async def test_a_document_that_disagrees_verifies_nothing(document: str | None) -> None:
    async with domain() as (served, handles):
        served.document = document
        assert await handles.verified(identity()) is None


async def test_a_domain_cannot_make_a_handle_that_no_document_claims() -> None:
    async with domain() as (served, handles):
        served.txt = [f"did={ALICE}"]
        assert await handles.verified(identity(None)) is None
        assert await handles.verified(identity(did=BOB)) is None


@pytest.mark.parametrize(
    "name", ["alice.test", "alice.local", "alice.example", "alice.onion", "alice.internal"]
)
async def test_reserved_domains_are_nobodys(name: str) -> None:
    async with domain() as (served, handles):
        served.txt = [f"did={ALICE}"]
        assert await handles.verified(identity(Handle(name))) is None
        assert served.asked == []


@pytest.mark.parametrize("development", [True, False])
async def test_on_a_development_network_the_pds_answers_for_test_handles(development: bool) -> None:
    async with Network() as network, domain(development=development) as (_, handles):
        account = network.account()
        claimed = identity(Handle(account.handle), Did(account.did), account.pds)
        assert await handles.verified(claimed) == (Handle(account.handle) if development else None)
        stranger = identity(Handle(account.handle), BOB, account.pds)
        assert await handles.verified(stranger) is None


async def test_only_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appview.identity.handles.MAX_ENTRIES", 3)
    names = [Handle(f"{name}.garden.org") for name in ("a", "b", "c", "d")]
    async with domain() as (served, handles):
        served.txt = [f"did={ALICE}"]
        for name in (*names, *names[1:]):
            assert await handles.verified(identity(name)) == name
        served.txt = []
        assert await handles.verified(identity(names[-1])) == names[-1]
        assert await handles.verified(identity(names[0])) is None


async def test_an_answer_is_kept_for_a_while_and_a_failure_for_less() -> None:
    async with domain() as (served, handles):
        assert await handles.verified(identity()) is None
        served.txt = [f"did={ALICE}"]
        assert await handles.verified(identity()) is None
        served.now += FAILURE_AGE
        assert await handles.verified(identity()) == HANDLE
        served.txt = []
        served.now += MAX_AGE - 1
        assert await handles.verified(identity()) == HANDLE
        served.now += 1
        assert await handles.verified(identity()) is None
        served.txt = [f"did={ALICE}"]
        assert await handles.verified(identity(), fresh=True) == HANDLE


async def test_domains_that_do_not_answer_hold_up_nobody_elses_handle() -> None:
    silent = asyncio.Event()

    async def look_up(name: str) -> Sequence[str]:
        if name != f"_atproto.{HANDLE}":
            await silent.wait()
        return [f"did={ALICE}"]

    def standing(did: Did) -> Standing:
        return Standing.MEMBER if did == ALICE else Standing.STRANGER

    async with HttpClient() as client:
        handles = Handles(client, lambda: 1, txt=look_up, standing=standing)
        asked = [
            asyncio.create_task(handles.verified(identity(Handle(f"bob.domain{number}.org"), BOB)))
            for number in range(300)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert await handles.verified(identity()) == HANDLE
        assert not any(task.done() for task in asked)
        silent.set()
        async with asyncio.timeout(20):
            assert set(await asyncio.gather(*asked)) == {None}
