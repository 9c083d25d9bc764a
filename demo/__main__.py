"""Set everything up, publish some 200 memories, and ask: `python -m demo [--keep]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from demo import programs, show
from demo.stage import ROOT, Agent, Appview, DemoFailed, agent, appview, load_lines
from tests.network.devnet import Devnet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedders.protocol import Embedder

HERE: Final = Path(__file__).resolve().parent
MODEL_FOLDER: Final = ROOT / ".demo" / "model"
NAMES: Final = ("iris", "moss", "wren")
INDEXED_SECONDS: Final = 60.0


async def main() -> int:
    """Run the whole story; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--port", type=int, default=8420, help="where the appview listens (default 8420)")
    options = parser.parse_args()
    began = monotonic()
    scene = Path(tempfile.mkdtemp(prefix="engram-demo-"))
    try:
        programs.warm_up()
        with Devnet() as net:
            show.heading("1. A network of its own")
            show.note(
                f"did:plc directory {net.plc_url} and PDS {net.pds_url}: the official ones, on loopback"
            )
            async with appview(net, scene / "data", options.port) as service:
                show.note(f"appview {service.url}, following the PDS's firehose into SQLite files")
                show.say(f"    ready after {monotonic() - began:.0f} s")
                await story(net, service, scene)
                show.say(f"\nThat took {monotonic() - began:.0f} s.")
                if options.keep:
                    await keep_running(service, scene)
    except DemoFailed as failure:
        print(f"\nthe demo failed: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scene, ignore_errors=True)
    return 0


async def story(net: Devnet, service: Appview, scene: Path) -> None:
    """A space, its members, their memories, and what can be asked."""
    from embedders.packaged import assemble, spec_text
    from embedders.select import open_embedder

    assemble(MODEL_FOLDER)
    embedder_spec = spec_text(MODEL_FOLDER)
    accounts = {name: await net.acreate_account(name) for name in ("commons", *NAMES)}
    space = f"at://{accounts['commons'].did}/garden.engram.config/self"
    agents = {
        name: agent(account, net, scene / name, embedder_spec, space) for name, account in accounts.items()
    }
    await asyncio.gather(*(sign_in(one) for one in agents.values()))

    show.heading("2. commons.test declares a space and its model; three agents become members")
    show.note(await agents["commons"].publisher("model", "--set"))
    for name in NAMES:
        await service.run("member", "add", accounts["commons"].did, accounts[name].did)
    show.note(await service.run("member", "list", accounts["commons"].did))

    show.heading("3. Each agent publishes to its own repo")
    total = await publish(agents)
    start = monotonic()
    status = await until_indexed(service, space, total)
    took = monotonic() - start
    show.note(f"{status['memories']} memories proven and searchable {took:.1f} s after the last answer")
    tree, _ = await service.ask("listPaths", {"space": space, "limit": 100})
    tops = "  ".join(f"{node['path']} {node['descendants']}" for node in tree["paths"][:14])
    show.note(f"topics: {tops} ...")

    show.heading("4. Questions, asked over XRPC as any client would")
    embedder = open_embedder(embedder_spec)
    dids = {name: account.did for name, account in accounts.items()}
    try:
        for asked in load_lines(HERE / "questions.jsonl"):
            await ask(service, embedder, space, asked, dids)
    finally:
        await embedder.close()

    show.heading("5. A memory belongs to its author")
    await change_of_mind(service, agents["wren"], space)

    show.heading("6. What does not fit is refused before it is written")
    await refusals(agents["moss"])

    show.heading("Where to look next")
    show.note("docs/getting-started.md   a space of your own, step by step")
    show.note("docs/queries.md           every method, parameter and error")
    show.note("docs/publisher.md         the command line and the Python library")
    show.note("make demo KEEP=1          the same, left running for your own questions")


async def sign_in(one: Agent) -> None:
    """Sign in with the password on standard input; it never stands on a command line."""
    await one.publisher(
        "login", one.account.handle, "--password-stdin", stdin=one.account.password, quiet=True
    )


async def publish(agents: dict[str, Agent]) -> int:
    """Publish each agent's file of JSON Lines; answer how many memories there are."""

    async def one(name: str) -> int:
        path = HERE / "memories" / f"{name}.jsonl"
        start = monotonic()
        show.command(f"engram-publisher remember --jsonl demo/memories/{path.name}")
        answer = json.loads(
            await agents[name].publisher("remember", "--jsonl", str(path), "--json", quiet=True)
        )
        outcomes: Sequence[dict[str, Any]] = answer["outcomes"]
        last = outcomes[-1]
        show.note(
            f"{len(outcomes)} memories as {name}.test in {monotonic() - start:.1f} s, the last {last['uri']}"
        )
        return len(outcomes)

    return sum(await asyncio.gather(*(one(name) for name in NAMES)))


async def until_indexed(service: Appview, space: str, count: int) -> dict[str, Any]:
    """Wait until the space holds `count` memories."""
    deadline = monotonic() + INDEXED_SECONDS
    status: dict[str, Any] = {}
    while monotonic() < deadline:
        with suppress(DemoFailed):  # the space is unknown until its config has come through
            status, _ = await service.ask("getSpaceStatus", {"space": space})
            if status["memories"] >= count:
                return status
        await asyncio.sleep(0.05)
    raise DemoFailed(f"only {status.get('memories', 0)} of {count} memories were indexed: {status}")


async def ask(
    service: Appview, embedder: Embedder, space: str, asked: dict[str, Any], dids: dict[str, str]
) -> None:
    """Ask one question with its own vector, and show the answer."""
    from lexicons.embeddings import encode_f16le, normalise

    mode = asked.get("mode", "hybrid")
    parameters: dict[str, Any] = {"space": space, "limit": 5, "mode": mode}
    if mode != "vector":
        parameters["q"] = asked["q"]
    if mode != "keyword":
        key = await embedder.key()
        vector = encode_f16le(normalise(await embedder.embed_query(asked["q"])))
        parameters |= {
            "vector": urlsafe_b64encode(vector).rstrip(b"=").decode(),
            "model": key.model,
            "modelDigest": key.digest,
        }
    if "tags" in asked:
        parameters["tags"] = asked["tags"]
    if "author" in asked:
        parameters["author"] = dids[asked["author"]]
    answer, took = await service.ask("searchMemories", parameters)
    show.question(asked, answer["mode"], took)
    show.hits(answer["memories"], {did: f"{name}.test" for name, did in dids.items()})
    if not any(asked["expect"] in memory["text"] for memory in answer["memories"]):
        raise DemoFailed(f"{asked['q']!r} should have found {asked['expect']!r}")


async def change_of_mind(service: Appview, wren: Agent, space: str) -> None:
    """Publish, find within a second, correct, forget."""
    text = "The gate code for deliveries changed to 8135 on Monday."
    made = json.loads(await wren.publisher("remember", text, "--tag", "/travel", "--json"))
    start = monotonic()
    await until_found(service, space, "8135", 1)
    show.note(f"found {1000 * (monotonic() - start):.0f} ms after the PDS had committed it")
    await wren.publisher("update", made["uri"], "The gate code for deliveries is 9246 now.")
    await until_found(service, space, "9246", 1)
    await until_found(service, space, "8135", 0)
    show.note("the new text is found and the old one is not")
    await wren.publisher("forget", made["uri"])
    await until_found(service, space, "9246", 0)
    show.note("forgotten: its text, keywords and vector are gone from the index")


async def until_found(service: Appview, space: str, q: str, count: int) -> None:
    """Wait until a keyword question has this many answers."""
    deadline = monotonic() + INDEXED_SECONDS
    while monotonic() < deadline:
        answer, _ = await service.ask("searchMemories", {"space": space, "q": q, "mode": "keyword"})
        if len(answer["memories"]) == count:
            return
        await asyncio.sleep(0.02)
    raise DemoFailed(f"{q!r} should have {count} answers")


async def refusals(moss: Agent) -> None:
    """Show two errors and that nothing was published."""
    for arguments in (
        ("remember", "vectors of another model mean nothing here", "--embedder", "hashing-384"),
        ("remember", "a memory that claims another owner", "--tag", "owner=did:plc:somebodyelse"),
    ):
        try:
            await moss.publisher(*arguments)
        except DemoFailed as failure:
            for line in str(failure).splitlines():
                show.note(line)
        else:
            raise DemoFailed(f"{arguments[1]!r} was published")


async def keep_running(service: Appview, scene: Path) -> None:
    """Wait for Ctrl-C."""
    show.say(
        f"\nThe appview answers at {service.url}, its files are in {scene / 'data'}. Ctrl-C ends everything."
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopped.set)
    await stopped.wait()


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
