"""The bounded queue between socket and disk."""

from __future__ import annotations

import asyncio

import pytest

from appview.ingest.queues import ByteQueue


async def test_items_come_out_in_order_and_in_groups() -> None:
    queue: ByteQueue[int] = ByteQueue()
    for number in range(5):
        await queue.put(number, 10)
    assert await queue.get_some(3) == [0, 1, 2]
    assert queue.bytes == 20
    assert await queue.get_some(3) == [3, 4]
    assert (len(queue), queue.bytes) == (0, 0)


@pytest.mark.parametrize(("max_items", "max_bytes"), [(2, 1000), (1000, 20)])
async def test_a_full_queue_makes_the_sender_wait(max_items: int, max_bytes: int) -> None:
    queue: ByteQueue[int] = ByteQueue(max_items, max_bytes)
    await queue.put(1, 10)
    await queue.put(2, 10)
    third = asyncio.create_task(queue.put(3, 10))
    await asyncio.sleep(0)
    assert not third.done()
    assert await queue.get_some(1) == [1]
    await third
    assert await queue.get_some(9) == [2, 3]


async def test_an_item_above_the_limit_is_taken_alone() -> None:
    queue: ByteQueue[str] = ByteQueue(max_bytes=10)
    await queue.put("large", 100)
    assert await queue.get_some(1) == ["large"]


async def test_a_group_ends_with_the_item_that_makes_it_large() -> None:
    queue: ByteQueue[int] = ByteQueue()
    for number in range(5):
        await queue.put(number, 10)
    assert await queue.get_some(9, 20) == [0, 1]
    assert await queue.get_some(9, 21) == [2, 3, 4]
    assert queue.bytes == 0


async def test_a_receiver_waits_for_the_first_item() -> None:
    queue: ByteQueue[int] = ByteQueue()
    receiver = asyncio.create_task(queue.get_some(10))
    await asyncio.sleep(0)
    assert not receiver.done()
    await queue.put(1, 1)
    assert await receiver == [1]
