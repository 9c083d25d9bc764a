"""Who of those that wait may ask next: places shared out fairly among sites, and none of them for long. Pure.

A site is whoever runs one or many hosts: their registrable domain, or the network of their address. Strangers
may share one, so that inside a site each host has its share.

Invariants:
- Of those that wait, one of the highest standing goes first; of these, one of the site that has the fewest
  requests out; of equals, one of a host that answered in time; within a site, one of the host that has the
  fewest out; then who came first.
- A site has at most half of the places. Hosts that have been slow last time have at most a quarter together,
  those of which nothing is known, with them, three quarters: what answers in time always finds a place.
- Of each of these, and of all places, every standing with those below it leaves a quarter to those above.
- A request that has been out for longer than a lane has patience gives its place up and goes on among the few
  that may take long. Where those are too many, and somebody waits who has not been slow, or who has a higher
  standing, a slow one is ended: of the lowest standing the oldest of the site that has the most.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_HOSTS: Final = 10_000  # of which is remembered how they answered
# Labels below a country's top level that are no site of their own.
_SECOND_LEVEL: Final = frozenset(
    {"ac", "co", "com", "edu", "go", "gov", "gob", "mil", "ne", "net", "or", "org"}
)

Manner = Literal["prompt", "unknown", "slow"]
_RANK: Final[dict[Manner, int]] = {"prompt": 0, "unknown": 1, "slow": 2}


class Standing(IntEnum):
    """For whose sake something is asked: the smaller the number, the higher."""

    MEMBER = 0  # an account that the operator's rules name, or the authority of a space where they do
    AUTHORITY = 1  # of any other space: whoever declares one
    STRANGER = 2  # an account of which nothing is proven


def share(limit: int, standing: int) -> int:
    """Tell how many of so many places those of a standing may have, with all below it."""
    return max(1, int(limit * 0.75**standing))


Rank = Callable[[], Standing]  # tells a standing, which may have changed when it is asked for again


def as_member() -> Standing:
    """Stand as high as can be: where nobody is to be told from anybody else."""
    return Standing.MEMBER


def _never() -> bool:
    return False


@dataclass(slots=True, eq=False)
class Ticket:
    """One request. `is_slow` tells, once it takes long, whether that is the host's doing."""

    host: str  # a name or a URL
    rank: Rank = as_member
    is_slow: Callable[[], bool] = field(default=_never)
    state: Literal["waiting", "inside", "long", "gone"] = "waiting"
    manner: Manner = "unknown"  # of the host, when the request came
    site: str = field(init=False)
    standing: Standing = field(init=False)  # as it was told last while the request waited

    def __post_init__(self) -> None:
        self.site = site_of(self.host)
        self.standing = self.rank()


class Lane:
    """The requests of one kind. Each method gives those that may ask now."""

    def __init__(self, places: int, long: int) -> None:
        self._places = places
        self._long_places = long
        self._queues = {(standing, manner): _Queue() for standing in Standing for manner in _RANK}
        self._inside: Counter[tuple[str, int]] = Counter()  # by what shares a limit, and standing
        self._out: Counter[str] = Counter()  # inside and long, by site and by host
        self._long: OrderedDict[Ticket, None] = OrderedDict()  # oldest first
        self._manners: OrderedDict[str, Manner] = OrderedDict()  # how a host answered last

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(queue.count for queue in self._queues.values())

    @property
    def out(self) -> tuple[int, int]:
        """How many have a place, and how many take long."""
        return self._inside[_ALL, 0], len(self._long)

    def manner(self, host: str) -> Manner:
        """Tell how a host is known to answer."""
        return self._manners.get(host, "unknown")

    def enter(self, ticket: Ticket) -> list[Ticket]:
        """Wait for a place."""
        ticket.manner = self.manner(ticket.host)
        self._queues[ticket.standing, ticket.manner].put(ticket)
        return self._admit()

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """Have been answered, or give up, wherever the request is."""
        match ticket.state:
            case "waiting":
                self._queues[ticket.standing, ticket.manner].remove(ticket)
            case "inside":
                self._take_out(ticket)
                self._note(ticket, "prompt")
            case "long":
                self._end(ticket)
        ticket.state = "gone"
        return self._admit()

    def rank_again(self) -> list[Ticket]:
        """Have everybody who waits stand where its account stands by now."""
        for ticket in [each for queue in self._queues.values() for each in queue]:
            if (standing := ticket.rank()) != ticket.standing:
                self._queues[ticket.standing, ticket.manner].remove(ticket)
                ticket.standing = standing
                self._queues[ticket.standing, ticket.manner].put(ticket)
        return self._admit()

    def takes_long(self, ticket: Ticket) -> tuple[list[Ticket], Ticket | None]:
        """Make room for others after a while; gives also the one that has to end for it. A request for which
        there is no room that could be made keeps its place."""
        if ticket.state != "inside":
            return [], None
        if ticket.is_slow():
            self._note(ticket, "slow")
        ended: Ticket | None = None
        if len(self._long) >= self._long_places:
            admitted = self._admit()
            ended = self._worst(ticket)
            if ended is None or not self._is_in_the_way(ended):
                return admitted, None
            if ended is not ticket:
                self._end(ended)
            ended.state = "gone"
        self._take_out(ticket)
        if ended is not ticket:
            ticket.state = "long"
            self._long[ticket] = None
            self._count_out(ticket, 1)
        return self._admit(), ended

    def _worst(self, ticket: Ticket) -> Ticket | None:
        slow = [each for each in (*self._long, ticket) if each.is_slow()]
        sites = Counter(each.site for each in slow)
        # The first of equals is the oldest.
        return max(slow, key=lambda each: (each.standing, sites[each.site]), default=None)

    def _is_in_the_way(self, ticket: Ticket) -> bool:
        return any(
            queue.count and (manner != "slow" or standing < ticket.standing)
            for (standing, manner), queue in self._queues.items()
        )

    def _admit(self) -> list[Ticket]:
        admitted = []
        while self._inside[_ALL, 0] < self._places and (ticket := self._next()) is not None:
            ticket.state = "inside"
            self._count(ticket, 1)
            self._count_out(ticket, 1)
            admitted.append(ticket)
        return admitted

    def _next(self) -> Ticket | None:
        for standing in Standing:
            found = [
                (self._out[ticket.site], _RANK[manner], ticket)
                for manner in _RANK
                if (ticket := self._first(standing, manner)) is not None
            ]
            if found:
                _, _, ticket = min(found, key=lambda each: each[:2])
                self._queues[standing, ticket.manner].remove(ticket)
                return ticket
        return None

    def _first(self, standing: Standing, manner: Manner) -> Ticket | None:
        """Find who is first of those that may go, if anybody may."""
        queue = self._queues[standing, manner]
        if not queue.count or not all(self._has_room(*each, standing) for each in self._limits(manner)):
            return None
        half = self._places // 2
        return queue.first(self._out, lambda site: self._has_room(_site(site), half, standing))

    def _limits(self, manner: Manner) -> Iterator[tuple[str, int]]:
        yield _ALL, self._places
        if manner != "prompt":
            yield "unknown", self._places * 3 // 4
        if manner == "slow":
            yield "slow", self._places // 4

    def _has_room(self, what: str, limit: int, standing: Standing) -> bool:
        return all(self._inside[what, each] < share(limit, each) for each in range(standing + 1))

    def _count(self, ticket: Ticket, number: int) -> None:
        for what in (_site(ticket.site), *(what for what, _ in self._limits(ticket.manner))):
            for standing in range(ticket.standing + 1):
                self._inside[what, standing] += number
                if not self._inside[what, standing]:
                    del self._inside[what, standing]

    def _count_out(self, ticket: Ticket, number: int) -> None:
        for what in {ticket.site, ticket.host}:
            self._out[what] += number
            if not self._out[what]:
                del self._out[what]

    def _take_out(self, ticket: Ticket) -> None:
        self._count(ticket, -1)
        self._count_out(ticket, -1)

    def _end(self, ticket: Ticket) -> None:
        del self._long[ticket]
        self._count_out(ticket, -1)

    def _note(self, ticket: Ticket, manner: Manner) -> None:
        if ticket.state == "inside" and manner == "slow":
            self._count(ticket, -1)
            ticket.manner = manner
            self._count(ticket, 1)
        self._manners[ticket.host] = manner
        self._manners.move_to_end(ticket.host)
        if len(self._manners) > MAX_HOSTS:
            self._manners.popitem(last=False)


class _Queue:
    """Requests that wait, by site and host."""

    def __init__(self) -> None:
        self.count = 0
        self._sites: OrderedDict[str, OrderedDict[str, deque[Ticket]]] = OrderedDict()

    def __iter__(self) -> Iterator[Ticket]:
        for hosts in self._sites.values():
            for tickets in hosts.values():
                yield from tickets

    def put(self, ticket: Ticket) -> None:
        self._sites.setdefault(ticket.site, OrderedDict()).setdefault(ticket.host, deque()).append(ticket)
        self.count += 1

    def first(self, out: Counter[str], may: Callable[[str], bool]) -> Ticket | None:
        site = _least(self._sites, out, may)
        if site is None:
            return None
        hosts = self._sites[site]
        host = _least(hosts, out, lambda _: True)
        return hosts[host][0] if host is not None else None

    def remove(self, ticket: Ticket) -> None:
        """Take one out; its host and its site are last of equals from then on."""
        hosts = self._sites[ticket.site]
        hosts[ticket.host].remove(ticket)
        self.count -= 1
        hosts.move_to_end(ticket.host)
        if not hosts[ticket.host]:
            del hosts[ticket.host]
        self._sites.move_to_end(ticket.site)
        if not hosts:
            del self._sites[ticket.site]


_ALL: Final = "all"


def _least(names: Iterable[str], out: Counter[str], may: Callable[[str], bool]) -> str | None:
    """Find the first of those that have the fewest requests out."""
    found, fewest = None, 0
    for name in names:
        number = out.get(name, 0)
        if (found is None or number < fewest) and may(name):
            found, fewest = name, number
            if not number:
                break  # of thousands that wait, most have none
    return found


def _site(site: str) -> str:
    return f"site {site}"


def site_of(host: str) -> str:
    """Name the site of a host, or of its URL. On loopback every port is one."""
    parts = urlsplit(host if "//" in host else f"//{host}")
    name = (parts.hostname or "").rstrip(".")
    try:
        address = ip_address(name)
    except ValueError:
        return parts.netloc if name == "localhost" else _registrable(name)
    if address.is_loopback:
        return parts.netloc
    return str(ip_network((address, 24 if address.version == 4 else 48), strict=False))


def _registrable(host: str) -> str:
    labels = host.split(".")
    long = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3 if long else -2 :])
