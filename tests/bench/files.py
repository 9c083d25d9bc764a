"""What it costs at the start to compare the files of many spaces with what was noted of them."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import pysqlite3

from appview.clock import now
from appview.control import Control, SpaceRow
from appview.ingest.repairs import Repairs
from appview.memory.pool import SpacePool
from appview.search.analysis import ANALYSIS
from lexicons.configs import Config
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.bench.harness import Figure, benchmark
from tests.bench.ingest import MODEL

SPACES = 1_000


async def make_spaces(control: Control, pool: SpacePool) -> list[SpaceRow]:
    """Make as many spaces, all of them right: copies of one file, each under its own name."""
    config = Config.declare(MODEL, created_at="2026-11-30T09:15:00.000Z")
    dids = [Did(f"did:plc:{number:024}") for number in range(SPACES)]
    rows = [
        SpaceRow(SpaceUri.public(did), did, "public", config, "bafy", "3jq", number)
        for number, did in enumerate(dids)
    ]
    first = rows[0].uri
    async with pool.use(first) as store:
        await store.configure(config)
        state = store.state
    await pool.forget()
    for row in rows:
        path = pool.path(row.uri)
        if row.uri != first:
            shutil.copy(pool.path(first), path)
            connection = pysqlite3.connect(path, isolation_level=None)
            connection.execute("UPDATE meta SET value = ? WHERE key = 'space'", (row.uri,))
            connection.close()
        await control.put_space(row)
        await control.put_membership(row.uri, row.authority, "synced")
    await control.files.put({row.uri: state for row in rows})
    return rows


@benchmark("files.start")
async def files_start() -> list[Figure]:
    """Look at the files of many spaces, all of them as they were noted."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as executor:
        control = await Control.open(Path(folder) / "control.db", executor)
        pool = SpacePool(Path(folder) / "spaces", executor, now, analyser=ANALYSIS)
        await make_spaces(control, pool)
        repairs = Repairs(control, pool, now)
        started = perf_counter()
        await repairs.look_at_files()
        seconds = perf_counter() - started
        assert not repairs.asked and not await control.repairs()
        await pool.close()
        await control.close()
    note = f"{SPACES:,} spaces, {seconds / SPACES * 1e6:,.0f} us each"
    return [Figure("files.start", seconds, "s", goal=5.0, note=note)]
