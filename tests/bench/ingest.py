"""Memories from the socket, and from a write on a real host, to a hit in search."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import aiohttp
import libipld

from appview.collector import rare_collections
from appview.ingest.frames import CommitEvent, parse_frame
from lexicons.data import to_json
from lexicons.embeddings import Embedding
from lexicons.ids import CONFIG, MEMORY
from lexicons.models import ModelKey
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did
from tests.appview.ingest.world import World, config, rkey
from tests.appview.process import Appview, environment
from tests.bench.harness import Figure, benchmark, percentile, timed
from tests.bench.relay import Relay
from tests.network.devnet import Devnet
from tests.network.synthetic import Network, Write

DIMS = 384
AUTHORS = 20
MEMORIES = 12_000
WRITES = 60
TEXT = (
    "compost soil seedling tomato trellis mulch frost harvest prune graft bed row water drip shade sun"
    " bean squash kale garlic leek onion carrot beet radish basil thyme mint sage plan note agent memory"
    " recall review weekly morning evening north south greenhouse path fence rain wind slug aphid bee"
)
WORDS = TEXT.split()
_NEWEST = "SELECT max(id) FROM facts"
_SEARCHABLE = "SELECT count(*) FROM facts_fts"
MODEL = ModelKey("bench-384", "sha256:bench", DIMS)


def make_memory(rng: random.Random) -> dict[str, Any]:
    """Make a memory of some 40 words with a path, an attribute and a label."""
    vector = Embedding.of(MODEL, [rng.gauss(0, 1) for _ in range(DIMS)])
    return {
        "$type": str(MEMORY),
        "text": " ".join(rng.choices(WORDS, k=rng.randint(20, 60))),
        "createdAt": "2026-11-30T09:15:00.000Z",
        "embedding": vector.to_record(),
        "tags": [f"/garden/{rng.choice(WORDS)}", f"kind={rng.choice(WORDS)}", rng.choice(WORDS)],
    }


async def prepare(world: World, authors: int) -> tuple[SpaceUri, list[Any]]:
    """Make a space whose members are all in step."""
    network = world.network
    alice = network.account()
    network.create(alice, str(CONFIG), "self", config(MODEL.to_record()))
    space = SpaceUri.public(Did(alice.did))
    await world.until_declared(space)
    members = [network.account() for _ in range(authors)]
    rng = random.Random(1)
    for member in members:
        network.create(member, str(MEMORY), rkey(), make_memory(rng))
        await world.access.add_member(space, Did(member.did), "bench")
    await world.reconcile()
    await world.until_mirrored(space, *members)
    for member in members:  # one live commit each, so that every key is known
        network.create(member, str(MEMORY), rkey(), make_memory(rng))
    await world.until_mirrored(space, *members)
    return space, members


async def measure(
    memories: int = MEMORIES, authors: int = AUTHORS, *, ahead: bool = False
) -> tuple[float, float, list[bytes]]:
    """Send signed commits of one memory each from a process of its own, which does not count.

    `ahead`: with proof in a second process, which is started on the way. Returns seconds of wall and of this
    process's CPU, and the frames.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Network() as network,
            Relay.running() as relay,
            World(network, Path(folder)).running(
                source=(network.pds[0].url, relay.url), prove_ahead=ahead
            ) as world,
        ):
            space, members = await prepare(world, authors)
            firehose = network.pds[0].firehose
            rng = random.Random(2)
            frames = []
            for number in range(memories):
                draft = members[number % authors].draft(
                    _create(rkey(), make_memory(rng)),
                )
                seq = firehose.next_seq()
                frames.append((seq, draft.frame(seq)))
            await relay.hold(frames)
            async with world.pool.use(space) as store:

                async def count(statement: str) -> int:
                    return await store.database.read(lambda c: int(c.execute(statement).fetchone()[0]))

                before = await count(_NEWEST)
                with rare_collections():  # as `serve` does
                    wall, cpu = perf_counter(), process_time()
                    await relay.release()
                    while await count(_NEWEST) < before + memories:  # noqa: ASYNC110 - files signal nothing
                        await asyncio.sleep(0.01)
                    wall, cpu = perf_counter() - wall, process_time() - cpu
                assert await count(_SEARCHABLE) == before + memories
    return wall, cpu, [frame for _, frame in frames]


def _create(key: str, record: dict[str, Any]) -> Write:
    return Write("create", str(MEMORY), key, record)


@benchmark("ingest.memories")
async def memories() -> list[Figure]:
    """Measure memories/s from socket to searchable; the baseline decodes the same frames unproven."""
    wall, cpu, frames = await measure()
    with_help, _, _ = await measure(ahead=True)
    with timed() as decoding:
        for frame in frames:
            _decode_unproven(frame)
    return [
        Figure(
            "ingest.memories",
            len(frames) / with_help,
            "memories/s",
            baseline=len(frames) / decoding.seconds,
            goal=3_000,
            more_is_better=True,
            note=f"{DIMS} dims, signed commits of one memory, the sender in another process",
        ),
        Figure(
            "ingest.memories-alone",
            len(frames) / wall,
            "memories/s",
            baseline=len(frames) / decoding.seconds,
            more_is_better=True,
            note="as above, with `prove_ahead` off",
        ),
        Figure(
            "ingest.memories-cpu",
            len(frames) / cpu,
            "memories/s of computing",
            more_is_better=True,
            note="as above, by the processor time of the appview: what one free core would do",
        ),
    ]


def _decode_unproven(frame: bytes) -> None:
    """Read a frame, its blocks and its record, without hashes, signature or tree."""
    event = parse_frame(frame)
    assert isinstance(event, CommitEvent)
    _, blocks = libipld.decode_car(event.blocks)
    for op in event.ops:
        assert op.cid in blocks


@benchmark("ingest.latency")
async def latency() -> list[Figure]:
    """Measure the time from an answered write on the official PDS to a hit in search over HTTP."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Devnet() as devnet:
        variables = environment(Path(folder), devnet.pds_url, devnet.plc_url)
        appview = await Appview.start(variables)
        try:
            url = await appview.url()
            account = await devnet.acreate_account()

            async def put(collection: str, key: str, record: dict[str, Any]) -> None:
                body = {"repo": account.did, "collection": collection, "rkey": key, "record": to_json(record)}
                await asyncio.to_thread(
                    devnet.call, "com.atproto.repo.putRecord", body, token=account.access_jwt
                )

            await put(str(CONFIG), "self", config(MODEL.to_record()))
            rng = random.Random(3)
            async with aiohttp.ClientSession() as session:

                async def finds(word: str) -> bool:
                    query = {"space": str(SpaceUri.public(Did(account.did))), "q": word}
                    async with session.get(
                        f"{url}/xrpc/garden.engram.searchMemories", params=query
                    ) as response:
                        answer = await response.json()
                        return response.status == 200 and bool(answer["memories"])

                for number in range(WRITES + 1):
                    word = f"needle{number}x"
                    record = make_memory(rng)
                    record["text"] += " " + word
                    await put(str(MEMORY), rkey(), record)
                    start = perf_counter()
                    while not await finds(word):  # noqa: ASYNC110 - a client can only ask
                        await asyncio.sleep(0.002)
                    times.append(1000 * (perf_counter() - start))
        finally:
            await appview.stop()
    times = times[1:]  # the first one waits for the space
    return [
        Figure("ingest.latency-p50", percentile(times, 0.5), "ms", goal=1_000, note=f"{WRITES} writes"),
        Figure("ingest.latency-p99", percentile(times, 0.99), "ms", goal=1_000, note=f"{WRITES} writes"),
    ]
