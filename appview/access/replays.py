"""The tokens that were used and could still be used again.

Invariants: what was spent once is refused until it expires; nothing is forgotten before it has; memory is
bounded, and no account can fill more than its share of it. Where there is no room a token is not taken, for
one that is not remembered could be played again.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from appview.access.errors import CannotVerify, CredentialRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lexicons.syntax import Did

MAX_REMEMBERED: Final = 65_536  # ours: about 13 MB; a PDS's tokens live a minute, so 1,000 calls a second
MAX_SHARE: Final = 8_192  # ours: of one account; 130 calls a second, or 8,192 an hour with the longest tokens


class Replays:
    """What must not be taken again. One a service."""

    def __init__(self, *, limit: int = MAX_REMEMBERED, share: int = MAX_SHARE) -> None:
        self._limit = limit
        self._share = share
        self._issuers: dict[bytes, Did] = {}
        self._expiry: list[tuple[int, bytes]] = []
        self._shares: Counter[Did] = Counter()

    def __len__(self) -> int:
        return len(self._issuers)

    def spend(self, issuer: Did, digest: bytes, expires: int, now: int) -> None:
        """Note that a token was used; times in seconds since 1970.

        Raises `CredentialRefused` for one that was before, `CannotVerify` where there is no room.
        """
        self._forget(now)
        if digest in self._issuers:
            raise CredentialRefused("BadJwt", "the token was used before", hint="each request takes its own")
        if len(self._issuers) >= self._limit or self._shares[issuer] >= self._share:
            raise CannotVerify("too many tokens are in use", hint="ask for tokens that live a minute")
        self._add(issuer, digest, expires)

    def restore(self, spent: Iterable[tuple[Did, bytes, int]], now: int) -> None:
        """Take over what an earlier process has remembered: (issuer, digest, expires)."""
        for issuer, digest, expires in spent:
            if expires > now and digest not in self._issuers:
                self._add(issuer, digest, expires)

    def _add(self, issuer: Did, digest: bytes, expires: int) -> None:
        self._issuers[digest] = issuer
        self._shares[issuer] += 1
        heappush(self._expiry, (expires, digest))

    def _forget(self, now: int) -> None:
        while self._expiry and self._expiry[0][0] <= now:
            _, digest = heappop(self._expiry)
            issuer = self._issuers.pop(digest)
            self._shares[issuer] -= 1
            if not self._shares[issuer]:
                del self._shares[issuer]
