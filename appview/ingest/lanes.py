"""Who of those that wait may ask next: places shared out fairly among sites, and none of them for long. Pure.

A site is whoever runs one or many hosts: their registrable domain, or the network of their address.

Invariants:
- Of those that wait, one of the site that has the fewest requests out goes first; of equals, one of a site
  that answered in time; within a site, who came first.
- A site has at most half of the places. Sites that have been slow last time have at most a quarter together,
  those of which nothing is known, with them, three quarters: what answers in time always finds a place.
- A request that has been out for longer than a lane has patience gives its place up and goes on among the few
  that may take long. Where those are too many, and somebody waits who has not been slow, a slow one is ended:
  the oldest of the site that has the most.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SITES: Final = 10_000  # of which is remembered how they answered
# Labels below a country's top level that are no site of their own.
_SECOND_LEVEL: Final = frozenset(
    {"ac", "co", "com", "edu", "go", "gov", "gob", "mil", "ne", "net", "or", "org"}
)

Manner = Literal["prompt", "unknown", "slow"]
_RANK: Final[dict[Manner, int]] = {"prompt": 0, "unknown": 1, "slow": 2}


def _never() -> bool:
    return False


@dataclass(slots=True, eq=False)
class Ticket:
    """One request. `is_slow` tells, once it takes long, whether that is the host's doing."""

    site: str
    is_slow: Callable[[], bool] = field(default=_never)
    state: Literal["waiting", "inside", "long", "gone"] = "waiting"


class Lane:
    """The requests of one kind. Each method gives those that may ask now."""

    def __init__(self, places: int, long: int) -> None:
        self._places = places
        self._long_places = long
        self._waiting: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._inside: Counter[str] = Counter()
        self._long: OrderedDict[Ticket, None] = OrderedDict()  # oldest first
        self._manners: OrderedDict[str, Manner] = OrderedDict()  # how a site answered last

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def out(self) -> tuple[int, int]:
        """How many have a place, and how many take long."""
        return self._inside.total(), len(self._long)

    def manner(self, site: str) -> Manner:
        """Tell how a site is known to answer."""
        return self._manners.get(site, "unknown")

    def enter(self, ticket: Ticket) -> list[Ticket]:
        """Wait for a place."""
        self._waiting.setdefault(ticket.site, deque()).append(ticket)
        return self._admit()

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """Have been answered, or give up, wherever the request is."""
        match ticket.state:
            case "waiting":
                self._waiting[ticket.site].remove(ticket)
                if not self._waiting[ticket.site]:
                    del self._waiting[ticket.site]
            case "inside":
                self._take_out(ticket)
                self._note(ticket.site, "prompt")
            case "long":
                del self._long[ticket]
        ticket.state = "gone"
        return self._admit()

    def takes_long(self, ticket: Ticket) -> tuple[list[Ticket], Ticket | None]:
        """Make room for others after a while; gives also the one that has to end for it. A request for which
        there is no room that could be made keeps its place."""
        if ticket.state != "inside":
            return [], None
        if ticket.is_slow():
            self._note(ticket.site, "slow")
        ended: Ticket | None = None
        if len(self._long) >= self._long_places:
            admitted = self._admit()
            ended = (
                self._worst(ticket) if any(self.manner(site) != "slow" for site in self._waiting) else None
            )
            if ended is None:
                return admitted, None
            if ended is not ticket:
                del self._long[ended]
            ended.state = "gone"
        self._take_out(ticket)
        if ended is not ticket:
            ticket.state = "long"
            self._long[ticket] = None
        return self._admit(), ended

    def _worst(self, ticket: Ticket) -> Ticket | None:
        slow = [each for each in (*self._long, ticket) if each.is_slow()]
        sites = Counter(each.site for each in slow)
        return max(slow, key=lambda each: sites[each.site], default=None)  # the first of equals is the oldest

    def _admit(self) -> list[Ticket]:
        admitted = []
        while self._inside.total() < self._places and (ticket := self._next()) is not None:
            ticket.state = "inside"
            self._inside[ticket.site] += 1
            admitted.append(ticket)
        return admitted

    def _next(self) -> Ticket | None:
        by_manner: Counter[Manner] = Counter()
        for site, count in self._inside.items():
            by_manner[self.manner(site)] += count
        out = self._inside + Counter(ticket.site for ticket in self._long)

        def may(site: str) -> bool:
            if self._inside[site] >= max(1, self._places // 2):
                return False
            match self.manner(site):
                case "slow":
                    return by_manner["slow"] < max(1, self._places // 4)
                case "unknown":
                    return by_manner["slow"] + by_manner["unknown"] < max(1, self._places * 3 // 4)
            return True

        allowed = [site for site in self._waiting if may(site)]
        if not allowed:
            return None
        site = min(allowed, key=lambda site: (out[site], _RANK[self.manner(site)]))
        ticket = self._waiting[site].popleft()
        if self._waiting[site]:
            self._waiting.move_to_end(site)
        else:
            del self._waiting[site]
        return ticket

    def _take_out(self, ticket: Ticket) -> None:
        self._inside[ticket.site] -= 1
        if not self._inside[ticket.site]:
            del self._inside[ticket.site]

    def _note(self, site: str, manner: Manner) -> None:
        self._manners[site] = manner
        self._manners.move_to_end(site)
        if len(self._manners) > MAX_SITES:
            self._manners.popitem(last=False)


def site_of(url: str) -> str:
    """Name the site of a host's URL. On loopback every port is one."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        address = ip_address(host)
    except ValueError:
        return parts.netloc if host == "localhost" else _registrable(host)
    if address.is_loopback:
        return parts.netloc
    return str(ip_network((address, 24 if address.version == 4 else 48), strict=False))


def _registrable(host: str) -> str:
    labels = host.split(".")
    long = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3 if long else -2 :])
