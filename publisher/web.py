"""Public questions to public services: the directory, did:web hosts, other accounts' PDSes.

No credential ever goes out here. Answers are bounded in size and time, redirects are not followed.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from publisher.errors import RefusedByPds, Temporary
from publisher.retry import RetryPolicy, read_wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

MAX_ANSWER_BYTES: Final = 2_000_000  # a record is at most 1 MB of CBOR; JSON and base64 add a third
TIMEOUT_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a decoded JSON body (None where it is not JSON)."""

    status: int
    body: Any
    text: str

    @property
    def error(self) -> str:
        """The name of an XRPC error, or nothing."""
        name = self.body.get("error") if isinstance(self.body, dict) else None
        return name if isinstance(name, str) else ""


class Web:
    """One HTTP client for public GETs."""

    def __init__(
        self,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]],
        transport: httpx.AsyncBaseTransport | None = None,
        use_proxies: bool = True,
    ) -> None:
        self._policy = policy
        self._sleep = sleep
        self._client = httpx.AsyncClient(
            timeout=TIMEOUT_SECONDS, follow_redirects=False, transport=transport, trust_env=use_proxies
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, url: str, parameters: Mapping[str, str | int] | None = None) -> Answer:
        """Ask, again while a retry can help; raise `Temporary` when it did not."""
        attempt = 0
        while True:
            attempt += 1
            try:
                answer, headers = await self._get_once(url, parameters)
                if answer.status not in (408, 425, 429) and answer.status < 500:
                    return answer
                problem, asked = f"answers {answer.status}", read_wait(headers, time.time())
            except httpx.TransportError as error:
                problem, asked = f"cannot be reached: {error or type(error).__name__}", None
            pause = self._policy.pause(attempt, asked, random.random())  # noqa: S311 - jitter
            if pause is None:
                raise Temporary(f"{_place(url)} {problem}", "try again later")
            await self._sleep(pause)

    async def query(self, service: str, method: str, parameters: Mapping[str, str | int]) -> Answer:
        """Ask an XRPC query of a service."""
        return await self.get(f"{service}/xrpc/{method}", parameters)

    async def _get_once(
        self, url: str, parameters: Mapping[str, str | int] | None
    ) -> tuple[Answer, Mapping[str, str]]:
        async with self._client.stream("GET", url, params=parameters) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_ANSWER_BYTES:
                    raise RefusedByPds(f"{_place(url)} answers more than {MAX_ANSWER_BYTES} bytes")
        text = content.decode(errors="replace")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        return Answer(response.status_code, body, text), response.headers


def _place(url: str) -> str:
    return url.split("?", 1)[0][:200]
