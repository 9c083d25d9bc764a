"""The tokens that were used and could still be used again.

Invariants: what was spent once is refused until it expires; memory is bounded; no account can fill more
than its share of it, and what comes of long-lived tokens no more than half. Where there is no room it is
made at the cost of the account that holds the most: its tokens are not remembered one by one any more, and
instead none is taken that expires no later than they do. So nothing that was spent can be played again, and
who held much is refused until it brings tokens that expire later.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from appview.access.errors import CannotVerify, CredentialRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lexicons.syntax import Did

MAX_REMEMBERED: Final = 65_536  # ours: 20 to 45 MB; a PDS's tokens live a minute, so 1,000 calls a second
MAX_SHARE: Final = 8_192  # ours: of one account; 130 calls a second, or 8,192 an hour with the longest tokens
MAX_LONG: Final = MAX_REMEMBERED // 2  # ours: of tokens that live long, so that they never take all the room
LONG_SECONDS: Final = 120  # ours: a PDS makes tokens of a minute, unless it is asked for longer ones

_FLOOR: Final = b""  # in place of a digest: the end of an account's floor
_HINT: Final = "ask for tokens that live a minute"


class Replays:
    """What must not be taken again. One a service."""

    def __init__(
        self, *, limit: int = MAX_REMEMBERED, share: int = MAX_SHARE, long_limit: int = MAX_LONG
    ) -> None:
        self._limit = limit
        self._share = share
        self._long_limit = long_limit
        self._held: dict[Did, dict[bytes, int]] = {}  # when what each account spent expires
        self._floors: dict[Did, int] = {}  # up to which expiry nothing of an account is taken
        self._long: set[bytes] = set()
        self._long_floors: set[Did] = set()
        self._shares = Tally()
        self._long_shares = Tally()
        self._expiry: list[tuple[int, Did, bytes]] = []
        self._new_floors: dict[Did, int] = {}

    def __len__(self) -> int:
        return self._shares.total + len(self._floors)

    def spend(self, issuer: Did, digest: bytes, expires: int, now: int) -> None:
        """Note that a token was used; times in seconds since 1970.

        Raises `CredentialRefused` for one that was before, `CannotVerify` where there is no room.
        """
        self._forget(now)
        if digest in self._held.get(issuer, ()):
            raise CredentialRefused("BadJwt", "the token was used before", hint="each request takes its own")
        if expires <= self._floors.get(issuer, 0):
            raise CannotVerify("too many tokens of this account are in use", hint=_HINT)
        if self._shares.of(issuer) >= self._share:
            raise CannotVerify("too many tokens of this account are in use", hint=_HINT)
        is_long = expires - now > LONG_SECONDS
        if is_long and self._long_shares.total + len(self._long_floors) >= self._long_limit:
            self._make_room(self._long_shares, issuer, now)
        if len(self) >= self._limit:
            self._make_room(self._shares, issuer, now)
        self._add(issuer, digest, expires, is_long=is_long)

    def restore(
        self, spent: Iterable[tuple[Did, bytes, int]], floors: Iterable[tuple[Did, int]], now: int
    ) -> None:
        """Take over what an earlier process has remembered: (issuer, digest, expires) and (issuer, until)."""
        for issuer, until in floors:
            if until > now:
                self._set_floor(issuer, until, now)
        for issuer, digest, expires in spent:
            known = digest in self._held.get(issuer, ()) or expires <= self._floors.get(issuer, 0)
            if expires > now and not known:
                self._add(issuer, digest, expires, is_long=expires - now > LONG_SECONDS)

    def new_floors(self) -> dict[Did, int]:
        """Give, once, the floors that were set since the last call."""
        found, self._new_floors = self._new_floors, {}
        return found

    def _make_room(self, shares: Tally, issuer: Did, now: int) -> None:
        """Forget what the account with the most has spent, and refuse it by its expiry from here on; raise
        `CannotVerify` where that is the one who asks, or where nobody holds more than one."""
        heaviest, count = shares.most()
        if heaviest is None or count < 2 or count <= shares.of(issuer):
            raise CannotVerify("too many tokens are in use", hint=_HINT)
        until = max(self._held[heaviest].values())
        for digest in list(self._held[heaviest]):
            self._remove(heaviest, digest)
        self._set_floor(heaviest, until, now)
        self._new_floors[heaviest] = until

    def _set_floor(self, issuer: Did, until: int, now: int) -> None:
        if until > self._floors.get(issuer, 0):
            self._floors[issuer] = until
            if until - now > LONG_SECONDS:
                self._long_floors.add(issuer)
            heappush(self._expiry, (until, issuer, _FLOOR))

    def _add(self, issuer: Did, digest: bytes, expires: int, *, is_long: bool) -> None:
        self._held.setdefault(issuer, {})[digest] = expires
        self._shares.add(issuer)
        if is_long:
            self._long.add(digest)
            self._long_shares.add(issuer)
        heappush(self._expiry, (expires, issuer, digest))

    def _remove(self, issuer: Did, digest: bytes) -> None:
        held = self._held[issuer]
        del held[digest]
        if not held:
            del self._held[issuer]
        self._shares.take(issuer)
        if digest in self._long:
            self._long.remove(digest)
            self._long_shares.take(issuer)

    def _forget(self, now: int) -> None:
        while self._expiry and self._expiry[0][0] <= now:
            expires, issuer, digest = heappop(self._expiry)
            if digest == _FLOOR:
                if self._floors.get(issuer) == expires:
                    del self._floors[issuer]
                    self._long_floors.discard(issuer)
            elif digest in self._held.get(issuer, ()):
                self._remove(issuer, digest)


class Tally:
    """How many each account holds, and who holds the most; every step takes the same time."""

    def __init__(self) -> None:
        self.total = 0
        self._counts: dict[Did, int] = {}
        self._holders: defaultdict[int, dict[Did, None]] = defaultdict(dict)  # by count
        self._most = 0

    def of(self, account: Did) -> int:
        """Count what an account holds."""
        return self._counts.get(account, 0)

    def most(self) -> tuple[Did | None, int]:
        """Find an account that holds the most, and how many that are."""
        holders = self._holders.get(self._most)
        return (next(iter(holders)), self._most) if holders else (None, 0)

    def add(self, account: Did) -> None:
        """Count one more."""
        self._move(account, self.of(account) + 1)

    def take(self, account: Did) -> None:
        """Count one less."""
        self._move(account, self.of(account) - 1)

    def _move(self, account: Did, count: int) -> None:
        before = self.of(account)
        self.total += count - before
        if before:
            del self._holders[before][account]
            if not self._holders[before]:
                del self._holders[before]
        if count:
            self._counts[account] = count
            self._holders[count][account] = None
        else:
            del self._counts[account]
        self._most = max(self._most, count)
        while self._most and self._most not in self._holders:
            self._most -= 1
