"""Who asks: from the headers of a request to a subject, with a directory, a clock and a database."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from appview.access import callers
from appview.access.callers import (
    BELIEVED_SECONDS,
    INACTIVE,
    KEY_SECONDS,
    LAST_USED_STEP,
    Callers,
    NoAccounts,
)
from appview.access.errors import CannotVerify, CredentialRefused
from appview.access.replays import Replays
from appview.access.subjects import Account, Anonymous, Subject, Token
from appview.access.tokens import make_token
from appview.control import Control, RepoRow
from appview.http.client import HttpClient
from appview.identity.resolver import FAILURE_AGE, FORCE_INTERVAL, Resolver
from lexicons.syntax import Did, Nsid
from tests.appview.access.minting import METHOD, SERVICE, mint
from tests.network.synthetic import K256, P256, Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Executor
    from pathlib import Path

    from appview.identity.documents import Identity
    from tests.network.synthetic import Account as Somebody
    from tests.network.synthetic import SigningKey

SECOND = 1_000_000


class World:
    """A directory with accounts, and a service that proves them."""

    def __init__(self, network: Network, client: HttpClient, control: Control) -> None:
        self.network = network
        self.control = control
        self.micros = 1_764_000_000_000_000
        self.resolver = Resolver(client, network.plc.url, self.clock)
        self.callers = Callers(SERVICE, self.resolver, control, self.clock)

    def clock(self) -> int:
        return self.micros

    def token(self, somebody: Somebody, key: SigningKey | None = None, **options: Any) -> str:
        now = self.micros // SECOND
        return mint(key or somebody.key, issuer=somebody.did, now=now, **options)

    async def who(self, *credentials: str, method: Nsid = METHOD) -> Subject:
        return await self.callers.resolve([f"Bearer {credential}" for credential in credentials], method)

    async def fault(self, *credentials: str, method: Nsid = METHOD) -> str:
        with pytest.raises(CredentialRefused) as caught:
            await self.who(*credentials, method=method)
        return caught.value.fault

    async def give(self, name: str, lifetime: int | None = None) -> str:
        text, row = make_token(Token(name), self.micros, lifetime, secrets.token_bytes)
        assert await self.control.tokens.add(row, actor="operator")
        return text

    def asked(self, somebody: Somebody) -> int:
        return self.network.plc.requests[somebody.did]


@pytest.fixture
async def world(tmp_path: Path, executor: Executor) -> AsyncIterator[World]:
    control = await Control.open(tmp_path / "control.db", executor)
    try:
        async with Network() as network, HttpClient(allow_loopback=True) as client:
            yield World(network, client, control)
    finally:
        await control.close()


async def test_without_a_credential_the_caller_is_nobody(world: World) -> None:
    assert await world.callers.resolve([], METHOD) == Anonymous()


@pytest.mark.parametrize("key", [K256, P256])
async def test_an_account_is_known_by_its_key(world: World, key: Any) -> None:
    alice = world.network.account(key=key())
    assert await world.who(world.token(alice)) == Account(Did(alice.did))


async def test_a_token_is_good_for_one_account_one_method_and_one_use(world: World) -> None:
    alice, bob = world.network.account(), world.network.account()
    token = world.token(alice)
    assert await world.fault(token, method=Nsid("garden.engram.getMemory")) == "BadJwtLexiconMethod"
    assert await world.who(token) == Account(Did(alice.did))
    assert await world.fault(token) == "BadJwt"
    assert await world.fault(world.token(bob, alice.key)) == "BadJwtSignature"


async def test_of_two_requests_with_one_token_one_is_answered(world: World) -> None:
    token = world.token(world.network.account())
    outcomes = await asyncio.gather(*(world.who(token) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(outcome, Account) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, CredentialRefused) for outcome in outcomes) == 7


async def test_a_forged_token_does_not_use_up_the_real_one(world: World) -> None:
    alice = world.network.account()
    claims = {"jti": "the-same"}
    assert await world.fault(world.token(alice, K256(), claims=claims)) == "BadJwtSignature"
    assert await world.who(world.token(alice, claims=claims)) == Account(Did(alice.did))


async def test_nothing_is_asked_of_the_network_for_a_token_that_could_not_be_taken(world: World) -> None:
    alice = world.network.account()
    for options in (
        {"claims": {"aud": "did:web:other.example"}},
        {"claims": {"lxm": "garden.engram.getMemory"}},
        {"claims": {"exp": 1}},
        {"header": {"alg": "none"}},
    ):
        await world.fault(world.token(alice, **options))
    assert world.asked(alice) == 0


async def test_a_rotated_key_is_taken_at_once_and_the_old_one_no_more(world: World) -> None:
    alice = world.network.account()
    await world.who(world.token(alice))
    old = alice.key
    world.network.rotate_key(alice, K256())
    assert await world.who(world.token(alice)) == Account(Did(alice.did))
    assert await world.fault(world.token(alice, old)) == "BadJwtSignature"
    assert world.asked(alice) == 2


async def test_a_key_of_the_other_curve_is_taken_too(world: World) -> None:
    alice = world.network.account(key=K256())
    await world.who(world.token(alice))
    world.network.rotate_key(alice, P256())
    assert await world.who(world.token(alice)) == Account(Did(alice.did))


async def test_bad_signatures_ask_for_the_key_once_a_minute(world: World) -> None:
    alice = world.network.account()
    await world.who(world.token(alice))
    for _ in range(20):
        assert await world.fault(world.token(alice, K256())) == "BadJwtSignature"
    assert world.asked(alice) == 2
    world.micros += FORCE_INTERVAL
    assert await world.fault(world.token(alice, K256())) == "BadJwtSignature"
    assert world.asked(alice) == 3


async def test_a_key_of_before_is_taken_for_minutes_and_no_longer(world: World) -> None:
    alice = world.network.account()
    await world.who(world.token(alice))
    stolen = alice.key
    world.network.rotate_key(alice, K256())
    world.micros += KEY_SECONDS * SECOND - 1
    assert await world.who(world.token(alice, stolen)) == Account(Did(alice.did))
    world.micros += 1
    assert await world.fault(world.token(alice, stolen)) == "BadJwtSignature"
    assert await world.who(world.token(alice)) == Account(Did(alice.did))


async def test_how_old_a_key_may_be_is_a_setting(world: World) -> None:
    world.callers = Callers(SERVICE, world.resolver, world.control, world.clock, key_seconds=60)
    alice = world.network.account()
    for asked in (1, 2):
        await world.who(world.token(alice))
        world.micros += 59 * SECOND
        await world.who(world.token(alice))
        assert world.asked(alice) == asked
        world.micros += SECOND


async def test_a_key_is_not_taken_once_its_account_has_said_that_it_changed(world: World) -> None:
    alice = world.network.account()
    await world.who(world.token(alice))
    stolen = alice.key
    world.network.rotate_key(alice, K256())
    world.resolver.forget(Did(alice.did))  # what an `#identity` event leads to
    assert await world.fault(world.token(alice, stolen)) == "BadJwtSignature"


async def test_a_flood_of_tokens_for_one_account_is_none_for_the_directory(world: World) -> None:
    alice = world.network.account()
    for fail_with in (None, 503):
        world.network.plc.fail_with = fail_with
        before = world.asked(alice)
        for _ in range(20):  # a quarter of a minute each
            for key in (K256(), alice.key, K256()):
                with suppress(CredentialRefused, CannotVerify):
                    await world.who(world.token(alice, key))
            world.micros += 15 * SECOND
        assert world.asked(alice) - before <= 2 * 5


async def test_while_the_directory_is_away_a_key_is_believed_for_an_hour_and_no_longer(world: World) -> None:
    alice = world.network.account()
    await world.who(world.token(alice))
    world.network.plc.fail_with = 503
    world.micros += KEY_SECONDS * SECOND
    for _ in range(3):
        assert await world.who(world.token(alice)) == Account(Did(alice.did))
    assert world.asked(alice) == 2
    world.micros += (BELIEVED_SECONDS - KEY_SECONDS) * SECOND - 1
    assert await world.who(world.token(alice)) == Account(Did(alice.did))
    world.micros += 1
    with pytest.raises(CannotVerify):
        await world.who(world.token(alice))
    # For a commit it still is what was said last.
    assert (await world.resolver.resolve(Did(alice.did))).did == alice.did
    world.network.plc.fail_with = None
    world.micros += FAILURE_AGE
    assert await world.who(world.token(alice)) == Account(Did(alice.did))


async def test_a_directory_that_does_not_answer_in_time_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = world.network.account(), world.network.account()
    await world.who(world.token(alice))
    monkeypatch.setattr(callers, "LOOK_UP_SECONDS", 0.05)

    async def never(did: Did) -> Identity:
        await asyncio.Event().wait()
        raise AssertionError(did)

    monkeypatch.setattr(world.resolver, "_fetch", never)
    world.micros += KEY_SECONDS * SECOND
    assert await world.who(world.token(alice)) == Account(Did(alice.did))
    with pytest.raises(CannotVerify):
        await world.who(world.token(bob))
    world.micros += BELIEVED_SECONDS * SECOND
    with pytest.raises(CannotVerify):
        await world.who(world.token(alice))
    running = list(world.resolver._running.values())
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_a_signature_that_no_key_can_make_good_asks_for_none(world: World) -> None:
    alice = world.network.account()
    await world.who(world.token(alice))
    assert await world.fault(world.token(alice, sign=alice.key.sign_high_s)) == "BadJwtSignature"
    assert world.asked(alice) == 1


async def test_an_account_that_is_not_registered_proves_nothing(world: World) -> None:
    stranger = world.network.pds[0].account()
    assert await world.fault(world.token(stranger)) == "BadJwtIss"
    gone = world.network.account()
    world.network.plc.gone.add(gone.did)
    assert await world.fault(world.token(gone)) == "BadJwtIss"


async def test_a_hostile_document_proves_nothing_and_its_text_is_not_repeated(world: World) -> None:
    alice = world.network.account()
    world.network.plc.override[alice.did] = {"id": alice.did, "verificationMethod": "SECRET"}
    with pytest.raises(CredentialRefused) as caught:
        await world.who(world.token(alice))
    assert (caught.value.fault, "SECRET" in str(caught.value)) == ("BadJwtIss", False)


@pytest.mark.parametrize("did", ["did:web:10.0.0.1", "did:web:localhost%3A1", "did:key:zQ3sh", "did:web:x"])
async def test_an_issuer_does_not_lead_the_service_elsewhere(world: World, did: str) -> None:
    token = mint(K256(), issuer=did, now=world.micros // SECOND)
    with pytest.raises((CredentialRefused, CannotVerify)) as caught:
        await world.who(token)
    assert "10.0.0" not in str(caught.value)


async def test_a_directory_that_is_away_is_no_fault_of_the_caller(world: World) -> None:
    alice, bob = world.network.account(), world.network.account()
    await world.who(world.token(alice))
    world.network.plc.fail_with = 503
    assert await world.who(world.token(alice)) == Account(Did(alice.did))
    assert await world.fault(world.token(alice, K256())) == "BadJwtSignature"
    with pytest.raises(CannotVerify):
        await world.who(world.token(bob))


@pytest.mark.parametrize("status", ["active", "desynchronized", "throttled", *sorted(INACTIVE)])
async def test_an_account_that_is_not_active_cannot_act(world: World, status: str) -> None:
    alice = world.network.account()
    row = RepoRow(Did(alice.did), world.micros, status=status)
    await world.control.put_repos([row])
    token = world.token(alice)
    if status not in INACTIVE:
        assert await world.who(token) == Account(Did(alice.did))
        return
    assert await world.fault(token) == "AuthenticationRequired"
    await world.control.put_repos([replace(row, status="active")])
    assert await world.who(token) == Account(Did(alice.did))


async def test_a_token_of_the_appview_is_its_name(world: World) -> None:
    token = await world.give("bot")
    for _ in range(3):
        assert await world.who(token) == Token("bot")
    assert await world.who(token, method=Nsid("garden.engram.getMemory")) == Token("bot")


async def test_a_token_that_is_not_known_is_refused_whatever_is_wrong_with_it(world: World) -> None:
    token, other = await world.give("bot"), await world.give("other")
    crossed = token[:24] + other[24:]
    unknown = make_token(Token("bot"), 0, None, secrets.token_bytes)[0]
    messages = set()
    for credential in (crossed, unknown):
        with pytest.raises(CredentialRefused) as caught:
            await world.who(credential)
        assert caught.value.fault == "AuthenticationRequired"
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert await world.fault(token + "x") == "BadJwt"


async def test_a_revoked_token_is_out_with_the_next_request(
    world: World, tmp_path: Path, executor: Executor
) -> None:
    token = await world.give("bot")
    assert await world.who(token) == Token("bot")
    elsewhere = await Control.open(tmp_path / "control.db", executor)  # the command line
    await elsewhere.tokens.revoke("bot", actor="operator", now=world.micros)
    assert await world.fault(token) == "AuthenticationRequired"
    text, row = make_token(Token("bot"), world.micros, None, secrets.token_bytes)
    await elsewhere.tokens.add(row, actor="operator")
    await elsewhere.close()
    assert await world.who(text) == Token("bot")
    assert await world.fault(token) == "AuthenticationRequired"


async def test_a_token_ends_with_its_time(world: World) -> None:
    token = await world.give("bot", lifetime=60 * SECOND)
    world.micros += 60 * SECOND - 1
    assert await world.who(token) == Token("bot")
    world.micros += 1
    assert await world.fault(token) == "AuthenticationRequired"


async def test_no_credential_is_a_role_or_another_kind_of_subject(world: World) -> None:
    for issuer in ("role:operator", "token:bot", "anonymous"):
        assert await world.fault(mint(K256(), issuer=issuer, now=world.micros // SECOND)) == "BadJwtIss"


async def test_two_credentials_are_none(world: World) -> None:
    alice = world.network.account()
    assert await world.fault(world.token(alice), world.token(alice)) == "BadJwt"
    assert await world.fault(await world.give("bot"), world.token(alice)) == "BadJwt"


async def test_last_use_is_written_in_batches_and_to_the_minute(world: World) -> None:
    token = await world.give("bot")
    made = world.micros

    async def last_used() -> int | None:
        return (await world.control.tokens.rows())[0].last_used_at

    await world.who(token)
    assert await last_used() is None
    await world.callers.save()
    assert await last_used() == made
    world.micros += LAST_USED_STEP - 1
    await world.who(token)
    await world.callers.save()
    assert await last_used() == made
    world.micros += 1
    await world.who(token)
    await world.callers.save()
    assert await last_used() == made + LAST_USED_STEP


async def test_a_restart_does_not_let_a_token_be_used_again(world: World) -> None:
    alice = world.network.account()
    ticks: asyncio.Queue[None] = asyncio.Queue()

    async def sleep(_: float) -> None:
        await ticks.get()

    token, killed = world.token(alice), world.token(alice)
    parts = (SERVICE, world.resolver, world.control, world.clock)
    async with Callers.opened(*parts, sleep=sleep) as world.callers:
        await world.who(token)
        ticks.put_nowait(None)
        async with asyncio.timeout(5):
            while not await world.control.tokens.spent():  # noqa: ASYNC110 - another process would see no event
                await asyncio.sleep(0.01)
        world.callers = Callers(*parts)  # what a killed process leaves
        async with Callers.opened(*parts, sleep=sleep) as world.callers:
            assert await world.fault(token) == "BadJwt"
            await world.who(killed)
    async with Callers.opened(*parts, sleep=sleep) as world.callers:
        assert await world.fault(killed) == "BadJwt"


async def test_a_restart_does_not_forget_who_is_refused_by_expiry(world: World) -> None:
    alice, bob = world.network.account(), world.network.account()
    parts = (SERVICE, world.resolver, world.control, world.clock)
    async with Callers.opened(*parts) as world.callers:
        world.callers._replays = Replays(limit=2)
        used = [world.token(alice) for _ in range(2)]
        for token in used:
            await world.who(token)
        await world.who(world.token(bob))
    assert len(await world.control.tokens.spent()) == 1
    assert [issuer for issuer, _ in await world.control.tokens.floors()] == [alice.did]
    async with Callers.opened(*parts) as world.callers:
        for token in (*used, world.token(alice)):
            with pytest.raises(CannotVerify):
                await world.who(token)
        world.micros += SECOND
        assert await world.who(world.token(alice)) == Account(Did(alice.did))
        world.micros += 61 * SECOND
        await world.who(world.token(alice))
    assert await world.control.tokens.floors() == []


async def test_what_cannot_be_written_down_is_kept_for_the_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await world.give("bot")
    await world.who(token)
    await world.who(world.token(world.network.account()))
    with monkeypatch.context() as patch:
        patch.setattr(type(world.control.tokens), "save", _fail)
        with pytest.raises(OSError, match="disk full"):
            await world.callers.save()
    await world.callers.save()
    assert (await world.control.tokens.rows())[0].last_used_at == world.micros
    assert len(await world.control.tokens.spent()) == 1


async def _fail(*_: object) -> None:
    raise OSError("disk full")


async def test_without_a_source_of_keys_no_account_proves_itself(world: World) -> None:
    world.callers = Callers(SERVICE, NoAccounts(), world.control, world.clock)
    assert await world.fault(world.token(world.network.account())) == "BadJwtIss"
    assert await world.who(await world.give("bot")) == Token("bot")
