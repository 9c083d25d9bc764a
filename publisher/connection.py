"""Who is signed in, and the ways out to the network: public questions, identities, the account's PDS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from publisher.errors import BadSetting, NotSignedIn, PublisherError, Temporary
from publisher.identity import Resolver
from publisher.pds import PdsClient
from publisher.retry import RetryPolicy
from publisher.sessions import SessionFile, StoredSession
from publisher.urls import is_loopback, service_url
from publisher.web import Web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from publisher.settings import Settings

GET_SESSION = "com.atproto.server.getSession"


class Connection:
    """Everything that waits for the network, and its one owner."""

    def __init__(self, settings: Settings, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._settings = settings
        self._sleep = sleep
        self._policy = RetryPolicy(max_wait=settings.max_wait)
        self._loopback = settings.allow_loopback or any(
            is_loopback(url) for url in (settings.plc_url, settings.pds or "")
        )
        self._file = SessionFile(settings.session)
        self._client: PdsClient | None = None
        self.web = Web(policy=self._policy, sleep=sleep, use_proxies=not self._loopback)
        self._resolver = Resolver(
            self.web,
            plc_url=service_url(settings.plc_url, allow_loopback=self._loopback),
            allow_loopback=self._loopback,
            trusted_pds=settings.pds,
        )

    async def close(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await self.web.close()

    async def sign_in(self, identifier: str, password: str, *, keep: bool) -> StoredSession:
        """Make a session, on the PDS that the settings or the account's identity name."""
        identifier = identifier.strip().removeprefix("@")
        if not identifier or not password:
            raise BadSetting("a name and a password are needed to sign in")
        pds = self._settings.pds or (await self._resolver.resolve(identifier)).pds
        client = await PdsClient.sign_in(
            service_url(pds, allow_loopback=self._loopback),
            identifier,
            password,
            self._file if keep else None,
            policy=self._policy,
            sleep=self._sleep,
        )
        if self._client is not None:
            await self._client.close()
        self._client = client
        self._resolver.trusted_pds = client.session.pds
        return client.session

    async def sign_out(self) -> tuple[StoredSession, bool]:
        """Forget the session here; tell whether the PDS has ended it as well."""
        client = await self.client()
        session = client.session
        try:
            await client.end_session()
            ended = True
        except (NotSignedIn, Temporary) as error:
            ended = isinstance(error, NotSignedIn)  # it was over already
        finally:
            self._file.delete()
        return session, ended

    async def client(self) -> PdsClient:
        """Give the signed-in account's client, taking up the kept session; raise `NotSignedIn`."""
        if self._client is None:
            stored = self._file.read()
            self._client = await PdsClient.resume(stored, self._file, policy=self._policy, sleep=self._sleep)
            self._resolver.trusted_pds = stored.pds
            if is_loopback(stored.pds):
                self._resolver.allow_loopback = (
                    True  # who works on a network of this machine said so at login
                )
        return self._client

    async def resolver(self) -> Resolver:
        """Give the resolver, which asks the account's PDS for handles where somebody is signed in."""
        if self._client is None:
            try:
                await self.client()
            except PublisherError:
                return self._resolver  # public questions need no account
        return self._resolver
