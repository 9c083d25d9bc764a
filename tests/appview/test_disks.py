"""Real disks that are full or read-only: small ones, mounted for the test where that is allowed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from appview.errors import StoreError
from tests.appview.ingest.test_faults import several
from tests.appview.ingest.world import World
from tests.appview.process import Appview, environment
from tests.network.synthetic import Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

DISK = "16m"
MEGABYTE = 1_000_000


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine lets the tests mount nothing: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
async def world(disk: Path) -> AsyncIterator[World]:
    async with Network() as network:
        yield World(network, disk)


def fill(disk: Path) -> Path:
    """Leave no room on a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4_096))
        except OSError:
            return ballast


async def test_a_full_disk_stops_the_cursor_and_loses_nothing(world: World, disk: Path) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
        ballast = fill(disk)
        for _ in range(100):
            world.remember_many(bob, 20)
        await world.until_status(lambda status: status["failing"] is not None)
        assert "full" in world.ingest.status()["failing"]
        written = max(at for at, _ in (await world.control.cursors()).values())
        assert written < world.network.pds[0].firehose.seq
        assert await world.texts(space) >= {"before"}  # what is there is still read
        ballast.unlink()
        await world.until_mirrored(space, bob)
        await world.until_caught_up()
        assert world.ingest.status()["failing"] is None
        async with world.pool.use(space) as store:
            assert await store.check() == []


async def test_a_disk_that_is_full_at_the_start(world: World, disk: Path) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
    ballast = fill(disk)
    for _ in range(20):
        world.remember_many(bob, 20)
    with pytest.raises(StoreError):
        async with world.running():
            await world.until_status(lambda status: status["failing"] is not None)
            raise StoreError("started, and says that it cannot write")
    ballast.unlink()
    async with world.running():
        await world.until_mirrored(space, bob)


async def test_a_read_only_disk_is_told_and_after_it_nothing_is_lost(world: World, disk: Path) -> None:
    async with world.running():
        space, (bob,) = await several(world, 1)
        await world.until_caught_up()
    world.remember(bob, "while read-only")
    mount("-o", "remount,ro", str(disk))
    appview = await Appview.start(environment(disk, world.network.pds[0].url, world.network.plc.url))
    assert await appview.process.wait() != 0
    await appview.stop()
    assert "Read-only file system" in str(appview.log)
    mount("-o", "remount,rw", str(disk))
    async with world.running():
        await world.until_mirrored(space, bob)
