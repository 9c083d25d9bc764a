"""The signed-in account's PDS, through the ATProto SDK: one call, its session and its failures.

The SDK is imported when a client is made. Requests and answers are plain dicts: the SDK's models of unknown
records lose bytes. The session is written back whenever the SDK refreshes it.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import TYPE_CHECKING, Any, Final

from publisher.answers import SIGN_IN_HINT, STALE_TOKEN, Failure, lost, refused
from publisher.errors import NotAllowed, NotSignedIn, PublisherError, RefusedByPds, TooManyRequests
from publisher.retry import Budget, RetryPolicy, read_budget
from publisher.sessions import StoredSession
from publisher.urls import is_loopback, service_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Self, TypeVar

    from publisher.sessions import SessionFile

    T = TypeVar("T")

TIMEOUT_SECONDS: Final = 60.0
JSON_TYPE: Final = "application/json"


class PdsClient:
    """Calls with the account's session. Make it with `sign_in` or `resume`."""

    def __init__(
        self,
        pds: str,
        keep: SessionFile | None,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        from atproto_client import AsyncClient
        from atproto_client.request import AsyncRequest

        request = AsyncRequest(timeout=TIMEOUT_SECONDS, trust_env=not is_loopback(pds))
        self._sdk = AsyncClient(pds, request=request)
        self._sdk.on_session_change(self._session_changed)
        self._keep = keep
        self._policy = policy
        self._sleep = sleep
        self._stored: StoredSession | None = None
        self._refreshing = asyncio.Lock()
        self.pds = pds
        self.budget: Budget | None = None

    @classmethod
    async def sign_in(
        cls,
        pds: str,
        identifier: str,
        password: str,
        keep: SessionFile | None,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]],
    ) -> Self:
        """Create a session and keep it; raise `NotSignedIn` for a wrong name or password."""
        client = cls(pds, keep, policy=policy, sleep=sleep)
        try:
            await client._answered(
                "com.atproto.server.createSession",
                lambda: client._sdk.login(identifier, password, fetch_bsky_profile=False),
            )
        except CallFailed as failed:
            await client.close()
            raise _sign_in_refused(failed.failure, pds, identifier) from None
        except BaseException:
            await client.close()
            raise
        return client

    @classmethod
    async def resume(
        cls,
        stored: StoredSession,
        keep: SessionFile | None,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]],
    ) -> Self:
        """Take up a kept session, without asking the PDS yet."""
        client = cls(stored.pds, keep, policy=policy, sleep=sleep)
        try:
            await client._import(stored)
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def session(self) -> StoredSession:
        """The session as it is now."""
        if self._stored is None:
            raise NotSignedIn("not signed in", SIGN_IN_HINT)
        return self._stored

    async def close(self) -> None:
        """Close the connections."""
        await self._sdk.request.close()

    async def end_session(self) -> None:
        """Tell the PDS to forget the session, once; raise a `PublisherError` when it did not."""
        try:
            await self._answered(
                "com.atproto.server.deleteSession",
                lambda: self._sdk.com.atproto.server.delete_session(
                    headers=self._sdk._get_refresh_auth_headers(), ignore_session_check=True
                ),
            )
        except CallFailed as failed:
            raise failed.failure.error from None

    async def query(self, method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a query, again while a retry can help."""
        return await self.retried(lambda: self.once(method, parameters=parameters))

    async def once(
        self,
        method: str,
        body: Mapping[str, Any] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Call a method one time (twice where only the token was stale); raise `CallFailed`."""
        token = self.session.token
        try:
            return await self._call(method, body, parameters)
        except CallFailed as failed:
            if failed.failure.name not in STALE_TOKEN:
                raise
        async with self._refreshing:
            if self.session.token == token:  # else another call has refreshed it meanwhile
                await self._refresh()
        return await self._call(method, body, parameters)

    async def retried(
        self,
        call: Callable[[], Awaitable[T]],
        settled: Callable[[Failure], Awaitable[T | None]] | None = None,
        *,
        points: int = 0,
    ) -> T:
        """Call until it succeeds or a retry cannot help; raise a `PublisherError`.

        A write gives `settled`, which is asked after a failure whether the write has been done all the same;
        and the `points` it costs, for which room is waited.
        """
        attempt = 0
        while True:
            attempt += 1
            await self._room_for(points)
            try:
                return await call()
            except CallFailed as failed:
                failure = failed.failure
            doubtful = failure.unclear or attempt > 1 or isinstance(failure.error, RefusedByPds)
            if settled is not None and doubtful:
                done = await settled(failure)
                if done is not None:
                    return done
            pause = self._policy.pause(attempt, failure.wait, random.random())  # noqa: S311 - jitter
            if not failure.retryable or pause is None:
                raise failure.error
            await self._sleep(pause)

    async def _room_for(self, points: int) -> None:
        delay = self.budget.delay(points, time.time()) if self.budget and points else 0.0
        if delay > self._policy.max_wait:
            raise TooManyRequests(
                f"{self.pds} takes no more writes for {delay:.0f} s",
                "wait, or allow longer pauses with --max-wait",
                seconds=delay,
            )
        if delay:
            await self._sleep(delay)
            self.budget = None

    async def _call(
        self, method: str, body: Mapping[str, Any] | None, parameters: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if body is None:
            kept = {name: value for name, value in (parameters or {}).items() if value is not None}
            response = await self._answered(method, lambda: self._get(method, kept))
        else:
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
            response = await self._answered(
                method,
                lambda: self._sdk.invoke_procedure(method, content=content, input_encoding=JSON_TYPE),
                write=True,
            )
            self.budget = read_budget(response.headers) or self.budget
        if not isinstance(response.content, dict):
            raise CallFailed(lost(self.pds, f"{method} was not answered with JSON", sent=True))
        return response.content

    async def _get(self, method: str, parameters: dict[str, Any]) -> Any:
        from atproto_client.models.dot_dict import DotDict

        return await self._sdk.invoke_query(method, params=DotDict(parameters))

    async def _answered(self, method: str, call: Callable[[], Awaitable[T]], *, write: bool = False) -> T:
        """Translate every way in which the SDK fails; the limits of reads say nothing about writes."""
        import httpx
        from atproto_client.exceptions import RequestErrorBase
        from atproto_core.exceptions import AtProtocolError

        try:
            return await call()
        except RequestErrorBase as error:
            if error.response is None:
                cause = error.__cause__
                reason = str(cause) or type(cause or error).__name__
                failure = lost(self.pds, reason, sent=not isinstance(cause, httpx.ConnectError))
            else:
                content = error.response.content
                body = {name: getattr(content, name, None) for name in ("error", "message")}
                status, headers = error.response.status_code, error.response.headers
                failure = refused(self.pds, method, status, body, headers, time.time())
                if write:
                    self.budget = read_budget(headers) or self.budget
        except httpx.TransportError as error:
            failure = lost(self.pds, str(error) or type(error).__name__, sent=True)
        except AtProtocolError as error:
            failure = Failure(NotSignedIn(f"the session cannot be used: {error}", SIGN_IN_HINT))
        except ValueError as error:
            failure = lost(self.pds, f"{method} was answered with damaged JSON: {error}", sent=True)
        raise CallFailed(failure)

    async def _refresh(self) -> None:
        # Another process with the same session may have refreshed it: its tokens are the good ones then.
        if self._keep is not None:
            on_disk = self._keep.read()
            if on_disk.did == self.session.did and on_disk.token != self.session.token:
                await self._import(on_disk)
                return
        try:
            await self._answered("com.atproto.server.refreshSession", self._sdk._refresh_and_set_session)
        except CallFailed as failed:
            raise _session_over(failed) from None

    async def _import(self, stored: StoredSession) -> None:
        self._stored = stored
        try:
            await self._answered(
                "session", lambda: self._sdk.login(session_string=stored.token, fetch_bsky_profile=False)
            )
        except CallFailed:
            raise NotSignedIn("the kept session cannot be used", SIGN_IN_HINT) from None

    def _session_changed(self, event: Any, session: Any) -> None:
        pds = str(session.pds_endpoint or self.pds).removesuffix("/xrpc").rstrip("/")
        service_url(pds, allow_loopback=is_loopback(self.pds))  # it may come out of the account's document
        self._stored = StoredSession(session.did, session.handle, pds, session.encode())
        if self._keep is not None and event.value != "import":
            self._keep.write(self._stored)


class CallFailed(Exception):
    """A call failed, with all that is known about it. `retried` turns it into a `PublisherError`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error.message)
        self.failure = failure


def _sign_in_refused(failure: Failure, pds: str, identifier: str) -> PublisherError:
    if failure.name == "AuthFactorTokenRequired":
        return NotSignedIn(f"{identifier} asks for a second factor", "sign in with an app password")
    if isinstance(failure.error, NotSignedIn):
        return NotSignedIn(
            f"{pds} does not accept this name and password",
            "use the account's handle or DID and an app password",
        )
    return failure.error


def _session_over(failed: CallFailed) -> CallFailed:
    if isinstance(failed.failure.error, NotSignedIn | NotAllowed) or failed.failure.name in STALE_TOKEN:
        error: PublisherError = NotSignedIn("the session has ended or was revoked", SIGN_IN_HINT)
        return CallFailed(Failure(error))
    return failed
