"""Shares of places among sites: who goes next, who has to make room, what counts as one site."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.http import lanes
from appview.http.lanes import Lane, Standing, Ticket, share, site_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def yes() -> bool:
    return True


def enter(lane: Lane, host: str, count: int = 1, standing: Standing = Standing.MEMBER) -> list[Ticket]:
    tickets = [Ticket(host, lambda: standing, yes) for _ in range(count)]
    for ticket in tickets:
        lane.enter(ticket)
    return tickets


def inside(tickets: Sequence[Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets if ticket.state == "inside"]


def knows(lane: Lane, *sites: str) -> None:
    """Have sites answer in time once."""
    for site in sites:
        (ticket,) = enter(lane, site)
        lane.leave(ticket)
        assert lane.manner(site) == "prompt"


@pytest.mark.parametrize(("places", "share"), [(48, 24), (12, 6), (1, 1)])
def test_a_site_has_half_of_the_places(places: int, share: int) -> None:
    lane = Lane(places, 4)
    knows(lane, "one")
    assert len(inside(enter(lane, "one", 2 * places))) == share


def test_a_place_goes_to_the_site_that_has_the_fewest() -> None:
    lane = Lane(4, 4)
    knows(lane, "many", "few", "none")
    many = enter(lane, "many", 9)
    few = enter(lane, "few", 2)
    assert [len(inside(each)) for each in (many, few)] == [2, 2]
    none = enter(lane, "none", 1)
    more = enter(lane, "many", 1)
    assert lane.leave(few[0]) == none
    assert lane.leave(many[0]) == [many[2]], "who came first"
    assert more[0].state == "waiting"


def test_who_has_more_waits_though_it_came_before_and_may_have_another() -> None:
    lane = Lane(8, 4)
    knows(lane, "full", "many", "few", "none")
    full = enter(lane, "full", 4)
    many, few = enter(lane, "many", 3), enter(lane, "few")
    assert len(inside([*full, *many, *few])) == 8
    more, none = enter(lane, "many"), enter(lane, "none")
    assert lane.leave(full[0]) == none
    assert lane.leave(full[1]) == more


def test_of_equals_one_that_answered_in_time_goes_first() -> None:
    lane = Lane(2, 4)
    knows(lane, "good", "full")
    full, other = enter(lane, "full"), enter(lane, "other")
    new, good = enter(lane, "new"), enter(lane, "good")
    assert lane.leave(other[0]) == good
    assert lane.leave(full[0]) == new


def test_sites_of_which_nothing_is_known_leave_a_quarter_to_those_that_answer() -> None:
    lane = Lane(48, 16)
    knows(lane, "good")
    assert sum(len(inside(enter(lane, f"new{number}", 4))) for number in range(100)) == 36
    assert len(inside(enter(lane, "good", 12))) == 12


def test_slow_sites_have_a_quarter_together() -> None:
    lane = Lane(48, 400)
    slow = [ticket for number in range(9) for ticket in enter(lane, f"slow{number}", 4)]
    for ticket in slow:
        lane.takes_long(ticket)
    assert lane.out == (0, 36)
    again = [ticket for number in range(9) for ticket in enter(lane, f"slow{number}", 4)]
    assert len(inside(again)) == 12
    for ticket in inside(again):
        lane.leave(ticket)
    assert lane.manner("slow0") == "prompt", "in time is in time"


def test_what_takes_long_makes_room_while_there_is_room_for_it() -> None:
    lane = Lane(4, 2)
    first, second, third, waiting = (enter(lane, f"{number}")[0] for number in range(4))
    assert lane.takes_long(first) == ([waiting], None)
    assert lane.takes_long(second) == ([], None)
    assert (first.state, second.state, lane.out) == ("long", "long", (2, 2))
    assert lane.takes_long(third) == ([], None), "nobody waits, so it keeps its place"
    assert third.state == "inside"
    lane.leave(first)
    assert lane.takes_long(third) == ([], None)
    assert third.state == "long"


def test_the_oldest_of_the_site_that_has_the_most_is_ended_for_one_that_waits() -> None:
    lane = Lane(4, 2)
    (alone,) = enter(lane, "alone")
    lane.takes_long(alone)
    first, second = enter(lane, "many", 2)
    lane.takes_long(first)
    enter(lane, "x"), enter(lane, "y")
    (waiting,) = enter(lane, "new")
    assert waiting.state == "waiting"
    assert lane.takes_long(second) == ([waiting], first)
    assert (first.state, second.state, alone.state, waiting.state) == ("gone", "long", "long", "inside")
    assert lane.leave(first) == [], "it is out of every count already"


def test_who_has_been_slow_is_worth_nobodys_end() -> None:
    lane = Lane(4, 1)
    (slow,) = enter(lane, "slow")
    lane.takes_long(slow)
    (second,) = enter(lane, "slow")
    enter(lane, "slow", 5)
    assert lane.takes_long(second) == ([], None)
    assert second.state == "inside"


def test_a_large_answer_that_comes_well_is_neither_slow_nor_ended() -> None:
    lane = Lane(2, 1)
    large, other = (Ticket(host) for host in ("large", "other"))
    lane.enter(large)
    lane.takes_long(large)
    lane.enter(other)
    waiting = enter(lane, "new", 3)
    assert lane.takes_long(other) == ([], None)
    assert (large.state, other.state, lane.manner("large")) == ("long", "inside", "unknown")
    assert len(inside(waiting)) == 0


def test_one_that_gives_up_waiting_is_forgotten() -> None:
    lane = Lane(1, 1)
    first, second, third = (enter(lane, site)[0] for site in "abc")
    assert lane.leave(second) == []
    assert lane.leave(first) == [third]
    assert lane.leave(third) == []
    assert (lane.out, lane.waiting) == ((0, 0), 0)


def test_manners_are_remembered_of_so_many_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_HOSTS", 3)
    lane = Lane(4, 4)
    knows(lane, *"abcd")
    assert [lane.manner(site) for site in "abcd"] == ["unknown", "prompt", "prompt", "prompt"]


def test_of_those_that_wait_the_highest_standing_goes_first() -> None:
    lane = Lane(1, 1)
    (first,) = enter(lane, "full")
    stranger, authority, member = (
        enter(lane, host, standing=standing)[0]
        for host, standing in (
            ("one", Standing.STRANGER),
            ("two", Standing.AUTHORITY),
            ("three", Standing.MEMBER),
        )
    )
    for before, after in ((first, member), (member, authority), (authority, stranger)):
        assert lane.leave(before) == [after]


def test_one_that_waits_and_becomes_a_member_goes_before_strangers() -> None:
    lane, standings = Lane(1, 1), {"b": Standing.STRANGER, "c": Standing.STRANGER}
    (first,) = enter(lane, "a")
    second, third = (Ticket(name, lambda name=name: standings[name]) for name in standings)  # type: ignore[misc]
    for ticket in (second, third):
        lane.enter(ticket)
    standings["c"] = Standing.MEMBER
    assert lane.rank_again() == []
    assert lane.leave(first) == [third]
    assert lane.leave(third) == [second]


def test_one_that_becomes_a_member_may_go_where_a_stranger_may_not() -> None:
    lane, standings = Lane(4, 4), dict.fromkeys("abcd", Standing.STRANGER)
    knows(lane, *standings)
    tickets = [Ticket(name, lambda name=name: standings[name]) for name in standings]  # type: ignore[misc]
    assert [len(lane.enter(ticket)) for ticket in tickets] == [1, 1, 0, 0]
    standings["d"] = Standing.MEMBER
    assert lane.rank_again() == [tickets[3]]


@pytest.mark.parametrize("known", [True, False])
def test_every_standing_leaves_a_quarter_to_those_above(known: bool) -> None:
    lane, hosts = Lane(16, 4), [f"host{number}" for number in range(100)]
    if known:
        knows(lane, *hosts)
    counts = []
    for standing in reversed(Standing):
        counts.append(sum(len(inside(enter(lane, host, standing=standing))) for host in hosts))
    assert counts == ([9, 3, 4] if known else [6, 3, 3])


def test_a_share_is_never_nothing() -> None:
    assert [share(1, standing) for standing in Standing] == [1, 1, 1]
    assert [share(48, standing) for standing in Standing] == [48, 36, 27]


def test_who_shares_a_site_with_others_has_the_share_of_a_host() -> None:
    lane = Lane(8, 4)
    many = [enter(lane, "https://evil.apps.example", 9), enter(lane, "https://worse.apps.example", 9)]
    assert [len(inside(each)) for each in many] == [4, 0], "a site has half"
    (good,) = enter(lane, "https://good.apps.example")
    assert good.state == "waiting"
    lane.leave(inside(many[0])[0])
    lane.leave(inside(many[0])[0])
    assert good.state == "inside"
    assert len(inside(many[1])) == 1


def test_a_neighbour_that_is_slow_makes_no_host_slow() -> None:
    lane = Lane(8, 4)
    knows(lane, "https://good.apps.example")
    (evil,) = enter(lane, "https://evil.apps.example")
    lane.takes_long(evil)
    assert lane.manner("https://evil.apps.example") == "slow"
    assert lane.manner("https://good.apps.example") == "prompt"
    assert lane.manner("https://new.apps.example") == "unknown"


def test_a_stranger_ends_before_a_member_that_has_been_out_for_longer() -> None:
    lane = Lane(4, 2)
    (member,) = enter(lane, "old")
    lane.takes_long(member)
    (stranger,) = enter(lane, "odd", standing=Standing.STRANGER)
    lane.takes_long(stranger)
    third, *_ = (enter(lane, name)[0] for name in ("a", "b", "c"))
    enter(lane, "new")
    assert lane.takes_long(third)[1] is stranger


def test_a_slow_stranger_ends_for_a_member_though_that_has_been_slow_too() -> None:
    lane = Lane(4, 1)
    (stranger,) = enter(lane, "odd", standing=Standing.STRANGER)
    lane.takes_long(stranger)
    (member,) = enter(lane, "slow")
    lane.takes_long(member)
    assert (member.state, stranger.state) == ("inside", "long"), "nobody waits"
    (again,) = enter(lane, "slow")
    assert again.state == "waiting"
    assert lane.takes_long(member) == ([again], stranger)
    assert (again.state, member.state, stranger.state) == ("inside", "long", "gone")


@given(seed=st.integers(0, 2**32), places=st.integers(1, 12), long=st.integers(0, 6))
def test_whatever_happens_the_counts_hold_and_no_place_is_lost(seed: int, places: int, long: int) -> None:
    rng, lane = random.Random(seed), Lane(places, long)
    tickets: list[Ticket] = []
    for _ in range(200):
        match rng.choice(["enter", "enter", "leave", "long", "long", "rank"]):
            case "rank":
                lane.rank_again()
            case "enter":
                host = f"{rng.choice('xyz')}.{rng.choice('abcdef')}.example"
                is_slow = yes if rng.random() < 0.7 else (lambda: False)
                ticket = Ticket(host, lambda: rng.choice(list(Standing)), is_slow)
                tickets.append(ticket)
                lane.enter(ticket)
            case "leave" if tickets:
                lane.leave(tickets.pop(rng.randrange(len(tickets))))
            case "long" if out := inside(tickets):
                _, ended = lane.takes_long(rng.choice(out))
                assert ended is None or ended.state == "gone"
        check(lane, tickets, places, long)
    for ticket in tickets:
        lane.leave(ticket)
    assert (lane.out, lane.waiting) == ((0, 0), 0)
    assert not lane._inside
    assert not lane._out
    assert inside(enter(lane, "last")), "who comes then goes at once"


def check(lane: Lane, tickets: Sequence[Ticket], places: int, long: int) -> None:
    """Count by hand what a lane counts, and hold it to its limits."""
    states = Counter(ticket.state for ticket in tickets)
    assert lane.out == (states["inside"], states["long"])
    assert lane.waiting == states["waiting"]
    assert states["inside"] <= places
    assert states["long"] <= long
    for standing in Standing:
        below = [ticket for ticket in inside(tickets) if ticket.standing >= standing]
        assert len(below) <= share(places, standing)
        sites = Counter(ticket.site for ticket in below)
        assert all(count <= share(places // 2, standing) for count in sites.values())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.host.bsky.network", "https://b.host.bsky.network", True),
        ("https://evil.example", "https://deep.below.evil.example:8443/", True),
        ("https://evil.example", "https://other.example", False),
        ("https://one.co.uk", "https://two.co.uk", False),
        ("https://a.one.co.uk", "https://b.one.co.uk", True),
        ("https://a.b.io", "https://c.b.io", True),
        ("https://Evil.Example.", "https://evil.example", True),
        ("https://203.0.113.7", "https://203.0.113.200:444", True),
        ("https://203.0.113.7", "https://203.0.114.7", False),
        ("https://[2001:db8:1::1]", "https://[2001:db8:1:9::2]", True),
        ("https://[2001:db8:1::1]", "https://[2001:db8:2::1]", False),
        ("http://127.0.0.1:2583", "http://127.0.0.1:2584", False),
        ("http://localhost:2583", "http://localhost:2584", False),
        ("http://[::1]:2583", "http://[::1]:2584", False),
    ],
)
def test_who_runs_several_hosts_is_one_site(one: str, other: str, same: bool) -> None:
    assert (site_of(one) == site_of(other)) is same
