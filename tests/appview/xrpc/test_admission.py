"""The line before the queries: how many run, how many wait, how long."""

from __future__ import annotations

import asyncio

import pytest

from appview.xrpc.admission import Admission
from appview.xrpc.errors import NotEnoughResources


async def test_one_too_many_is_refused_at_once_and_the_next_is_not() -> None:
    admission = Admission(running=2, waiting=1)
    began, release = asyncio.Semaphore(0), asyncio.Event()

    async def query() -> None:
        async with admission.admit():
            began.release()
            await release.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(query())
        for _ in range(2):
            await began.acquire()
        assert admission.present == 3
        with pytest.raises(NotEnoughResources) as refused:
            await query()
        assert refused.value.status == 503
        assert refused.value.retry_after == 1
        release.set()
    await query()
    assert admission.present == 0


async def test_the_deadline_covers_waiting_and_work() -> None:
    admission = Admission(running=1, waiting=1, deadline=0.05)
    with pytest.raises(NotEnoughResources, match="within"):
        async with admission.admit():
            await asyncio.Event().wait()
    async with asyncio.timeout(5), admission.admit():
        pass


async def test_a_timeout_of_the_work_itself_stays_what_it_is() -> None:
    with pytest.raises(TimeoutError):
        async with Admission().admit():
            raise TimeoutError


async def test_a_cancelled_query_gives_its_place_back() -> None:
    admission = Admission(running=1, waiting=0)
    began = asyncio.Event()
    task = asyncio.create_task(_hold(admission, began))
    await began.wait()
    task.cancel()
    await asyncio.wait([task])
    async with admission.admit():
        assert admission.present == 1


async def _hold(admission: Admission, began: asyncio.Event) -> None:
    async with admission.admit():
        began.set()
        await asyncio.Event().wait()
