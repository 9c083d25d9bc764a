"""A running appview for tests: real databases, a real socket, and a client that judges every answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appview.control import SpaceRow
from appview.memory.values import Delete, Put, RepoUpdate
from appview.xrpc.errors import ERRORS
from lexicons.catalog import garden as lexicons
from lexicons.configs import Config
from lexicons.data import cid_of, cid_text, encode, from_json
from lexicons.embeddings import Embedding, encode_f16le, encode_query_vector
from lexicons.hashing import embed, model_key
from lexicons.memories import Memory, text_to_embed
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did, Nsid, Tid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import ClientSession

    from appview.access.access import Access
    from appview.access.rules import Permission
    from appview.control import Control
    from appview.memory.pool import SpacePool
    from lexicons.models import ModelKey

START = 1_764_000_000_000_000  # microseconds since 1970: the day the tests' clock stands at
DIMS = 64
MODEL = model_key(DIMS)
AUTHORITY = Did("did:plc:z72i7hdynmk6r22z27h6tvur")
ALICE = Did("did:plc:44ybard66vv44zksje25o7dz")
BOB = Did("did:plc:vpkhqolt662uhesyj6nxm7ys")
SPACE = SpaceUri.public(AUTHORITY)
PROCEDURES = {method.nsid for method in lexicons().methods() if method.kind == "procedure"}
STATUSES = {error.name: error.status for error in ERRORS}


@dataclass(slots=True)
class Garden:
    """The write side of a test: what ingest would have put there."""

    control: Control
    access: Access
    pool: SpacePool
    revs: int = 0
    config: Config = field(default_factory=lambda: Config.declare(MODEL, created_at="2026-01-01T00:00:00Z"))

    async def declare(self, space: SpaceUri = SPACE, config: Config | None = None) -> None:
        """Make a space known, with a config."""
        config = config or self.config
        row = SpaceRow(space, space.authority, space.space_kind, config, None, self.rev(), START)
        await self.control.put_space(row)
        await self.access.declare_space(space)
        async with self.pool.use(space) as store:
            await store.configure(config)

    async def withdraw(self, space: SpaceUri = SPACE) -> None:
        """Delete a space's config record."""
        row = SpaceRow(space, space.authority, space.space_kind, None, None, self.rev(), START)
        await self.control.put_space(row)
        async with self.pool.use(space) as store:
            await store.configure(None)

    async def remember(
        self,
        text: str,
        *,
        author: Did = ALICE,
        tags: Sequence[str] = (),
        created_at: str = "2026-01-02T03:04:05.000Z",
        source: str | None = None,
        space: SpaceUri = SPACE,
        model: ModelKey = MODEL,
    ) -> str:
        """Index a memory and give its URI."""
        vector = encode_f16le(embed(text_to_embed("", text, tags), model.dims))
        memory = Memory(text, created_at, Embedding(model, vector), tags=tuple(tags), source=source)
        rkey = str(Tid.from_micros(START + self.revs))
        cid = cid_text(cid_of(encode(memory.to_record())))
        await self.apply(author, Put(rkey, cid, memory), space)
        return f"at://{author}/garden.engram.memory/{rkey}"

    async def forget(self, uri: str, space: SpaceUri = SPACE) -> None:
        """Apply the deletion of a record."""
        author, _, rkey = uri.removeprefix("at://").split("/")
        await self.apply(Did(author), Delete(rkey), space)

    async def apply(self, author: Did, change: Put | Delete, space: SpaceUri) -> None:
        async with self.pool.use(space) as store:
            await store.apply([RepoUpdate(author, self.rev(), (change,))])

    def rev(self) -> str:
        self.revs += 1
        return str(Tid.from_micros(START + self.revs))

    async def hide(self, *permissions: Permission) -> None:
        """Add rules."""
        await self.access.change(permissions, actor="operator", action="test")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, already judged."""

    status: int
    body: Any
    headers: dict[str, str]
    raw: bytes

    @property
    def error(self) -> str | None:
        """The error's name, None for an answer."""
        return self.body["error"] if self.status != 200 else None

    @property
    def texts(self) -> list[str]:
        """The texts of the memories, in order."""
        return [memory["text"] for memory in self.body["memories"]]


@dataclass(frozen=True, slots=True)
class Client:
    """Asks over the socket. Every answer must satisfy its lexicon, every error be one that is documented."""

    session: ClientSession
    base: str

    async def ask(self, method: str, params: Any = (), **given: Any) -> Answer:
        """Call a method: a query, where lists repeat their key, or a procedure, which takes a body."""
        pairs = [*(params.items() if isinstance(params, dict) else params), *given.items()]
        if method in PROCEDURES:
            return await self.send("POST", f"/xrpc/{method}", json=dict(pairs))
        flat = [
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, values in pairs
            for value in (values if isinstance(values, list | tuple) else [values])
        ]
        return await self.send("GET", f"/xrpc/{method}", params=flat)

    async def send(self, verb: str, path: str, **options: Any) -> Answer:
        """Send any request."""
        async with self.session.request(verb, self.base + path, **options) as response:
            raw = await response.read()
            answer = Answer(
                response.status,
                json.loads(raw) if raw else None,
                {name.lower(): value for name, value in response.headers.items()},
                raw,
            )
        judge(verb, path, answer)
        return answer


def judge(verb: str, path: str, answer: Answer) -> None:
    """Check what holds for every answer."""
    assert answer.headers["access-control-allow-origin"] == "*"
    assert len(answer.headers["x-request-id"]) == 16
    if answer.body is None:
        assert verb in ("HEAD", "OPTIONS")
        return
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    if answer.status == 200:
        nsid = path.partition("?")[0].removeprefix("/xrpc/")
        if Nsid.is_valid(nsid) and not path.startswith("/."):
            lexicons().validate_output(nsid, from_json(answer.body))
        return
    assert set(answer.body) == {"error", "message"}
    assert answer.body["message"]
    assert STATUSES[answer.body["error"]] == answer.status
    assert ("retry-after" in answer.headers) == (answer.status in (429, 503))


def query_vector(text: str, model: ModelKey = MODEL) -> dict[str, str]:
    """Make the three parameters of a question's vector."""
    vector = encode_query_vector(encode_f16le(embed(text, model.dims)))
    return {"vector": vector, "model": model.model, "modelDigest": model.digest}
