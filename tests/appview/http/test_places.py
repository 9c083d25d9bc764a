"""Places that are waited for: one after the other at a host, and little patience with one never asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from appview.http import places
from appview.http.lanes import Standing, share
from appview.http.places import Gate, HostSlow, Places

if TYPE_CHECKING:
    from collections.abc import Coroutine

MEMBER, AUTHORITY, STRANGER = Standing


class Door:
    """A gate, who is inside, and who has been."""

    def __init__(self, places: int) -> None:
        self.gate = Gate(places)
        self.inside: list[str] = []
        self.been: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.standings: dict[str, Standing] = {}

    async def pass_through(self, name: str, standing: Standing) -> None:
        end = self.ends[name] = asyncio.Event()
        self.standings[name] = standing
        async with self.gate.passed(lambda: self.standings[name]):
            self.inside.append(name)
            self.been.append(name)
            try:
                await end.wait()
            finally:
                self.inside.remove(name)


async def begin(group: asyncio.TaskGroup, *work: Coroutine[None, None, None]) -> list[asyncio.Task[None]]:
    tasks = [group.create_task(each) for each in work]
    await settle()
    return tasks


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_highest_standing_goes_first_and_then_who_came_first() -> None:
    door = Door(1)
    names = {"first": STRANGER, "x": STRANGER, "y": STRANGER, "z": AUTHORITY, "m": MEMBER, "n": MEMBER}
    async with asyncio.TaskGroup() as group:
        await begin(group, *(door.pass_through(name, standing) for name, standing in names.items()))
        while door.inside:
            (name,) = door.inside
            door.ends[name].set()
            await settle()
    assert door.been == ["first", "m", "n", "z", "x", "y"]


async def test_one_that_waits_and_becomes_a_member_goes_before_strangers() -> None:
    door = Door(1)
    async with asyncio.TaskGroup() as group:
        await begin(group, *(door.pass_through(name, STRANGER) for name in "abc"))
        door.standings |= {"a": MEMBER, "c": MEMBER}
        door.gate.rank_again()
        while door.inside:
            door.ends[door.inside[0]].set()
            await settle()
    assert door.been == ["a", "c", "b"]
    assert door.gate._inside == [0, 0, 0]


async def test_strangers_leave_room_at_a_host_for_members() -> None:
    door = Door(4)
    async with asyncio.TaskGroup() as group:
        await begin(group, *(door.pass_through(f"stranger {number}", STRANGER) for number in range(9)))
        assert len(door.inside) == share(4, STRANGER) == 2
        await begin(group, *(door.pass_through(f"member {number}", MEMBER) for number in range(9)))
        assert len(door.inside) == 4
        for _ in range(18):
            for name in list(door.inside):
                door.ends[name].set()
            await settle()
    assert len(door.been) == 18


async def test_who_gives_up_leaves_nothing_behind() -> None:
    door = Door(1)
    async with asyncio.TaskGroup() as group:
        first, second, third = await begin(group, *(door.pass_through(name, MEMBER) for name in "abc"))
        second.cancel()
        await settle()
        first.cancel()
        await settle()
        assert door.inside == ["c"]
        third.cancel()
        await settle()
        (last,) = await begin(group, door.pass_through("d", STRANGER))
        assert "d" in door.been
        last.cancel()
    assert door.gate._inside == [0, 0, 0]


async def test_one_that_gives_up_when_it_is_let_in_leaves_the_door_open() -> None:
    door = Door(1)
    async with asyncio.TaskGroup() as group:
        _, second = await begin(group, *(door.pass_through(name, MEMBER) for name in "ab"))
        door.ends["a"].set()
        await asyncio.sleep(0)
        assert not second.done()
        assert door.gate._inside == [1, 0, 0], "it is let in, and does not know yet"
        second.cancel()
        await settle()
        await begin(group, door.pass_through("c", MEMBER))
        assert "c" in door.been
        door.ends["c"].set()


async def test_a_host_that_was_never_asked_has_little_time_and_the_next_time_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that is known to be slow may keep its place for as long as any other."""
    monkeypatch.setattr(places, "FIRST_PATIENCE", 0.05)
    made = Places(1, 0, 600.0)
    waiting = asyncio.Event()

    async def other() -> None:
        async with made.place("https://other.example"):
            waiting.set()

    async with asyncio.TaskGroup() as group, asyncio.timeout(20):
        with pytest.raises(HostSlow):
            async with made.place("https://slow.example"):
                group.create_task(other())
                await asyncio.Event().wait()
        await waiting.wait()
        assert made.lane.manner("https://slow.example") == "slow"
        async with made.place("https://slow.example"):
            (ticket,) = made._watches
            loop = asyncio.get_running_loop()
            assert made._watches[ticket].when() - loop.time() > 500
