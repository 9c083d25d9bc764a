"""What strangers say again and again, each time otherwise: nothing here grows with it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiohttp import web

from lexicons.syntax import Did
from tests.appview.ingest.test_foreign_hosts import say_of
from tests.network.synthetic import Pds

if TYPE_CHECKING:
    import pytest

    from tests.appview.ingest.world import World


async def test_statuses_that_nobody_knows_are_one(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        await world.until_declared(space)
        before = len(world.ingest.status()["events"])
        for number in range(500):
            say_of(world, alice, "#account", 0, active=False, status=f"{number}" + "x" * 2_000)
        await world.until_caught_up()
        status = world.ingest.status()
        assert status["events"]["account other"] == 1
        assert status["repos"]["accounts"] == {"other": 1}
        assert len(status["events"]) <= before + 3
        assert len(json.dumps(status, default=str)) < 20_000


async def test_an_active_account_whose_status_is_any_text_stays_as_it_is(world: World) -> None:
    async with world.running():
        alice, space = world.authority()
        await world.until_declared(space)
        for number in range(50):
            say_of(world, alice, "#account", 0, active=True, status=f"{number}")
        await world.until_caught_up()
        assert not [name for name in world.ingest.status()["events"] if name.startswith("account ")]


async def test_a_handle_whose_host_is_slow_is_asked_for_once_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    asked = 0

    async def slow(_pds: Pds, _request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await gate.wait()
        return web.json_response({"did": alice.did})

    monkeypatch.setattr(Pds, "_resolve_handle", slow)
    async with world.running():
        alice, space = world.authority()
        await world.until_declared(space)
        identity = await world.ingest.resolver.resolve(Did(alice.did))
        async with world.ingest._pipeline.lock:
            for _ in range(1_000):
                world.ingest._look_ups.check_handle(identity, fresh=True)
        assert sum(task.get_name().startswith("handle of") for task in asyncio.all_tasks()) == 1
        gate.set()

        async def noted() -> bool:
            return world.ingest._pipeline.rows[Did(alice.did)].handle == alice.handle

        await world.until(noted)
        assert asked <= 3, "at once, once more for what was said meanwhile, and for its repo"
