"""Who asks: a request's credential -> a subject. The subject comes from the credential and nothing else.

No header is `Anonymous`; a token of this appview is `Token`; a service-auth JWT is `Account`. Whatever else
comes along, and whatever does not hold, is `CredentialRefused`. A token that is revoked and an account that
is taken down are out with the next request, a key that was changed after `KEY_SECONDS` at the latest.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from appview.access.credentials import read_credential
from appview.access.errors import CannotVerify, CredentialRefused
from appview.access.replays import Replays
from appview.access.service_auth import WrongKey, check_signature, read_token
from appview.access.subjects import Account, Anonymous, Subject, Token
from appview.access.tokens import is_proof, token_id
from appview.errors import AppviewError
from appview.http.errors import FetchError
from appview.identity.errors import IdentityError
from appview.identity.resolver import ANY_KEPT, Freshness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from appview.access.service_auth import ServiceToken
    from appview.clock import Clock
    from appview.control import Control
    from appview.control_tokens import SpentToken
    from appview.identity.documents import Identity
    from appview.identity.keys import PublicKey
    from lexicons.syntax import Did, Nsid

LOOK_UP_SECONDS: Final = 5.0  # ours: how long a caller waits for its own key to be found
KEY_SECONDS: Final = 300  # ours: so long the key of before a change can still be used
BELIEVED_SECONDS: Final = 3_600  # ours: so long a key is believed while the directory is away
SAVE_SECONDS: Final = 1.0  # ours: what was used is on disk after this long, so a crash forgets that much
LAST_USED_STEP: Final = 60_000_000  # microseconds: how fine `last used` is, so that use costs no writes
# `status` of an account (sync spec, `#account`) with which it cannot act. The others are about its host.
INACTIVE: Final = frozenset({"deactivated", "deleted", "suspended", "takendown"})

_log = structlog.get_logger(__name__)


class KeySource(Protocol):
    """What finds an account's key."""

    async def resolve(
        self, did: Did, *, fresh: bool = False, patient: bool = True, freshness: Freshness = ANY_KEPT
    ) -> Identity:
        """Answer from a cache, or with `fresh` from the network, once a minute at most; not in a long line
        unless `patient`."""
        ...

    def believed(self, did: Did, freshness: Freshness) -> Identity | None:
        """Give what was last learned, where that may be believed while nobody answers."""
        ...


class NoAccounts:
    """Finds no account's key."""

    async def resolve(
        self, did: Did, *, fresh: bool = False, patient: bool = True, freshness: Freshness = ANY_KEPT
    ) -> Identity:
        """Raise `IdentityError`."""
        raise IdentityError(f"{did} is not looked for")

    def believed(self, did: Did, freshness: Freshness) -> Identity | None:
        """Know nothing."""
        return None


class Callers:
    """Proves callers. One a service; make it with `Callers.opened`."""

    def __init__(
        self,
        service: Did,
        keys: KeySource,
        control: Control,
        clock: Clock,
        *,
        key_seconds: int = KEY_SECONDS,
    ) -> None:
        self._freshness = Freshness(key_seconds * 1_000_000, max(key_seconds, BELIEVED_SECONDS) * 1_000_000)
        self._service = service
        self._keys = keys
        self._control = control
        self._clock = clock
        self._replays = Replays()
        self._used: dict[str, int] = {}
        self._used_saved: dict[str, int] = {}
        self._spent: list[SpentToken] = []
        self._floors: dict[Did, int] = {}

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        service: Did,
        keys: KeySource,
        control: Control,
        clock: Clock,
        *,
        key_seconds: int = KEY_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> AsyncIterator[Callers]:
        """Prove callers for the time of the block, remembering what was used before. A key is asked for anew
        after `key_seconds`."""
        callers = cls(service, keys, control, clock, key_seconds=key_seconds)
        callers._replays.restore(
            await control.tokens.spent(), await control.tokens.floors(), clock() // 1_000_000
        )
        saving = asyncio.create_task(callers._keep_saving(sleep), name="callers")
        try:
            yield callers
        finally:
            saving.cancel()
            with suppress(asyncio.CancelledError):
                await saving
            await callers.save()

    async def resolve(self, headers: Sequence[str], method: Nsid) -> Subject:
        """Name the caller of `method`, given every `Authorization` header of the request.

        Raises `CredentialRefused`, and `CannotVerify` where that cannot be told now.
        """
        credential = read_credential(headers)
        if credential is None:
            return Anonymous()
        identifier = token_id(credential)
        if identifier is not None:
            return await self._holder(credential, identifier)
        return await self._account(credential, method)

    async def save(self) -> None:
        """Write down what was used."""
        used, self._used = self._used, {}
        spent, self._spent = self._spent, []
        self._floors |= self._replays.new_floors()
        floors, self._floors = self._floors, {}
        if not used and not spent and not floors:
            return
        try:
            await self._control.tokens.save(used, spent, floors, self._clock())
        except BaseException:
            self._used = used | self._used
            self._spent = spent + self._spent
            self._floors = floors | self._floors
            raise

    async def _holder(self, credential: str, identifier: str) -> Subject:
        row = await self._control.tokens.find(identifier)
        if not is_proof(credential, row) or row is None:
            raise CredentialRefused("AuthenticationRequired", "not a token of this service")
        now = self._clock()
        if row.expires_at is not None and row.expires_at <= now:
            raise CredentialRefused("AuthenticationRequired", "the token has expired")
        if not 0 <= now - self._used_saved.get(identifier, row.last_used_at or 0) < LAST_USED_STEP:
            self._used[identifier] = self._used_saved[identifier] = now
        return Token(row.name, row.id)

    async def _account(self, credential: str, method: Nsid) -> Subject:
        now = self._clock() // 1_000_000
        token = read_token(credential, service=self._service, method=method, now=now)
        await self._check_key(token)
        repo = await self._control.repo(token.issuer)
        if repo is not None and repo.status in INACTIVE:
            raise CredentialRefused("AuthenticationRequired", "the account is not active")
        # No await from here on: of two requests with one token only the first finds it unused.
        self._replays.spend(token.issuer, token.digest, token.expires, now)
        self._spent.append((token.issuer, token.digest, token.expires))
        return Account(token.issuer)

    async def _check_key(self, token: ServiceToken) -> None:
        key = await self._key(token.issuer, fresh=False)
        try:
            check_signature(token, key)
        except WrongKey:
            newer = await self._key(token.issuer, fresh=True)
            if newer == key:
                raise
            check_signature(token, newer)

    async def _key(self, did: Did, *, fresh: bool) -> PublicKey:
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                asked = self._keys.resolve(did, fresh=fresh, patient=False, freshness=self._freshness)
                return (await asked).key
        except TimeoutError:
            known = self._keys.believed(did, self._freshness)
            if known is not None:
                return known.key
            raise CannotVerify("the account's key was not found in time") from None
        except FetchError as error:
            if error.temporary:
                raise CannotVerify("the account's key cannot be asked for now") from None
            raise CredentialRefused("BadJwtIss", "the account cannot be found") from None
        except AppviewError:  # what was found is of no use; its text is a stranger's
            raise CredentialRefused("BadJwtIss", "the account cannot be found") from None

    async def _keep_saving(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        while True:
            await sleep(SAVE_SECONDS)
            try:
                await self.save()
            except Exception as error:  # noqa: BLE001 - the task's outermost layer; it tries again
                _log.error("cannot write down which tokens were used", exc_info=error)
