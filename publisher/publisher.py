"""The publisher as a library: `async with Publisher() as publisher: await publisher.remember("...")`.

What returns has been committed by the PDS. What raises has not been written, but for a `Temporary`, where the
last answer of the PDS may have been lost: its hint names the URI to look at.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from embedders.select import open_embedder
from lexicons.configs import Config
from lexicons.errors import InvalidRecord, InvalidSyntax
from lexicons.ids import CONFIG, CONFIG_RKEY, MEMORY
from lexicons.memories import Memory
from lexicons.syntax import AtUri, RecordKey
from publisher.connection import GET_SESSION, Connection
from publisher.drafts import Draft
from publisher.errors import BadSetting, NotAllowed, NotFound, PublisherError, Refused, RefusedByPds
from publisher.governing import announced, changed, declaration, promoted
from publisher.reembedding import Coverage, Reembedded, Reembedder
from publisher.repo import GET_RECORD, MAX_WRITES, Committed, Record, Repo, read_record
from publisher.settings import Settings, load_settings
from publisher.spaces import Space, authority_of, read_space
from publisher.tids import TidClock
from publisher.vectors import Vectoriser
from publisher.writing import Outcome, Writer, is_final, not_tried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from typing import Self

    from embedders.protocol import Embedder
    from lexicons.models import ModelKey
    from publisher.sessions import StoredSession

CONFIG_SECONDS: Final = 30.0  # how long a space's config is believed before it is read again
CHUNK: Final = MAX_WRITES  # memories that are embedded before they are written


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the account's memories, newest first, and the cursor of the next page."""

    records: tuple[Record, ...]
    cursor: str | None


class Publisher:
    """Publishes memories of the signed-in account for one space.

    `settings` default to the environment and the file of settings, as on the command line. `embedder` and
    `next_embedder` take the place of the configured ones. With `identifier` and `password` a session is made
    on entering and never kept on disk; without them the kept session is used.
    """

    def __init__(
        self,
        *,
        space: str | None = None,
        settings: Settings | None = None,
        embedder: Embedder | str | None = None,
        next_embedder: Embedder | str | None = None,
        identifier: str | None = None,
        password: str | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings or load_settings()
        self._space_name = space or self._settings.space
        given = (embedder or self._settings.embedder, next_embedder or self._settings.next_embedder)
        self._vectoriser = Vectoriser([self._embedder(each) for each in given if each is not None])
        self._credentials = (identifier, password)
        self._sleep = sleep
        self._tids = TidClock()
        self._space: tuple[float, Space] | None = None
        self._writer: Writer | None = None

    async def __aenter__(self) -> Self:
        self._connection = Connection(self._settings, self._sleep)
        identifier, password = self._credentials
        if identifier is not None or password is not None:
            try:
                await self._connection.sign_in(identifier or "", password or "", keep=False)
            except BaseException:
                await self.close()
                raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections and let go of the models."""
        await self._connection.close()
        await self._vectoriser.close()

    # --- the account

    async def sign_in(self, identifier: str, password: str) -> StoredSession:
        """Sign in with a handle or DID and an app password, and keep the session on disk."""
        self._writer, self._space = None, None
        return await self._connection.sign_in(identifier, password, keep=True)

    async def sign_out(self) -> tuple[StoredSession, bool]:
        """Forget the session here; tell whether the PDS has ended it as well."""
        self._writer, self._space = None, None
        return await self._connection.sign_out()

    async def account(self) -> StoredSession:
        """Tell who is signed in, without asking the PDS; raise `NotSignedIn`."""
        return (await self._connection.client()).session

    async def check_session(self) -> StoredSession:
        """Ask the PDS whether it still takes the session; raise `NotSignedIn` where it does not."""
        client = await self._connection.client()
        await client.query(GET_SESSION, {})
        return client.session

    # --- memories

    async def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        source: str | None = None,
        created_at: str | None = None,
        rkey: str | None = None,
        narrow: bool = False,
    ) -> Committed:
        """Publish a memory. `narrow` keeps it to this space where the account writes to several."""
        draft = Draft(text, tuple(tags), source, created_at, rkey)
        draft.check()
        writer, space = await self._writing(), await self.space()
        if narrow:
            draft = draft.narrowed(space.authority.did)
        return await writer.create(draft, space.declared())

    async def remember_many(
        self, drafts: Iterable[Draft | PublisherError], *, narrow: bool = False
    ) -> AsyncIterator[Outcome]:
        """Publish memories, many in a commit, and give one outcome each, in their order.

        An error among the drafts becomes its own outcome. What makes every further memory fail (signed out,
        wrong model, no network after all retries) is not tried again for the rest.
        """
        numbered = enumerate(drafts)
        over: PublisherError | None = None
        while chunk := list(islice(numbered, CHUNK)):
            for outcome in await self._publish(chunk, narrow, over):
                over = over or (outcome.error if is_final(outcome.error) else None)
                yield outcome

    async def update(
        self,
        target: str,
        *,
        text: str | None = None,
        tags: Sequence[str] | None = None,
        source: str | None = None,
    ) -> Committed:
        """Change a memory of the account; None keeps a part, an empty source removes it.

        Raise `Conflict` where the record changes meanwhile.
        """
        repo = await self._repo()
        rkey = self._own(target, repo)
        found = await repo.get(MEMORY, rkey)
        if found is None:
            raise NotFound(f"there is no {AtUri.of_record(repo.did, MEMORY, rkey)}")
        try:
            old = Memory.from_record(found.value)
        except InvalidRecord as error:
            raise Refused(f"{found.uri} is not a memory: {error}", "forget it and publish it anew") from None
        draft = Draft(
            old.text if text is None else text,
            old.tags if tags is None else tuple(tags),
            (old.source if source is None else source) or None,
            old.created_at,
        )
        draft.check()
        config = (await self.space()).declared()
        return await (await self._writing()).replace(draft, config, found, rkey)

    async def forget(self, target: str) -> Committed:
        """Delete a memory of the account; raise `NotFound`."""
        repo = await self._repo()
        return await repo.delete(MEMORY, self._own(target, repo))

    async def get(self, target: str) -> Record:
        """Read a memory by its URI, or one of the account by its record key; raise `NotFound`."""
        if not target.startswith("at://"):
            repo = await self._repo()
            rkey = self._own(target, repo)
            found = await repo.get(MEMORY, rkey)
            if found is None:
                raise NotFound(f"there is no {AtUri.of_record(repo.did, MEMORY, rkey)}")
            return found
        uri = memory_uri(target)
        author = await (await self._connection.resolver()).resolve(uri.authority)
        parameters = {"repo": author.did, "collection": MEMORY, "rkey": str(uri.rkey)}
        answer = await self._connection.web.query(author.pds, GET_RECORD, parameters)
        if answer.status == 404 or answer.error == "RecordNotFound":
            raise NotFound(f"there is no {uri}")
        if answer.status != 200:
            raise RefusedByPds(
                f"{author.pds} answers {answer.status} {answer.error}",
                name=answer.error,
                status=answer.status,
            )
        return read_record(answer.body)

    async def list(self, *, limit: int = 25, cursor: str | None = None) -> Page:
        """Read the account's memories, newest first; at most 100 a page."""
        records, following = await (await self._repo()).list(MEMORY, limit=limit, cursor=cursor)
        return Page(tuple(records), following)

    # --- the space and its model

    async def space(self, *, fresh: bool = False) -> Space:
        """Read the space and its config; a config is believed for `CONFIG_SECONDS`."""
        if self._space is not None and not fresh and time.monotonic() - self._space[0] < CONFIG_SECONDS:
            return self._space[1]
        name = self._space_name or (await self.account()).did
        space = await read_space(authority_of(name), await self._connection.resolver(), self._connection.web)
        self._space = (time.monotonic(), space)
        return space

    async def model_keys(self) -> Sequence[ModelKey]:
        """Identify the configured embedders' models, loading them."""
        return [await self._vectoriser.key(each) for each in self._vectoriser.embedders]

    async def check_model(self) -> None:
        """Raise `ModelTrouble` or `NotFound` where nothing could be published for the space now."""
        await self._vectoriser.matching((await self.space(fresh=True)).declared())

    async def set_model(
        self,
        *,
        document_prefix: str | None = None,
        query_prefix: str | None = None,
        replace_model: bool = False,
    ) -> tuple[Config, Committed]:
        """Declare the embedder's model as the space's.

        Another model is only replaced with `replace_model`: what was published with it is no longer found.
        """
        repo, space = await self._governed()
        key = await self._vectoriser.key(self._vectoriser.embedders[0])
        config = declaration(
            space, key, document_prefix=document_prefix, query_prefix=query_prefix, replace=replace_model
        )
        return await self._declare(repo, space, config)

    async def next_model(self) -> tuple[Config, Committed]:
        """Announce the second embedder's model (the only one's, where there is one) as the space's next."""
        repo, space = await self._governed()
        key = await self._vectoriser.key(self._vectoriser.embedders[-1])
        return await self._declare(repo, space, announced(space, key))

    async def promote_model(self, *, force: bool = False) -> tuple[Config, Committed]:
        """Make the space's next model its model: what has no vector of it is no longer found.

        Raise `Refused` where that concerns memories of the account itself, unless `force` is given. Those of
        others are not looked at.
        """
        repo, space = await self._governed()
        following = space.declared().next
        if following is None:
            return await self._declare(repo, space, changed(space, Config.promote))
        own = await Reembedder(repo, self._vectoriser, space).coverage(following)
        return await self._declare(repo, space, promoted(space, own, force=force))

    async def cancel_model(self) -> tuple[Config, Committed]:
        """Drop the space's next model."""
        repo, space = await self._governed()
        return await self._declare(repo, space, changed(space, Config.cancel))

    async def coverage(self) -> Coverage:
        """Count the account's memories for the space, and those without a vector of its next model.

        Of its model, where no next one is announced.
        """
        repo, space = await self._repo(), await self.space(fresh=True)
        config = space.declared()
        return await Reembedder(repo, self._vectoriser, space).coverage(config.next or config.model)

    async def reembed(self) -> AsyncIterator[Reembedded]:
        """Give each of the account's memories the vectors that the space asks for and it lacks.

        Vectors of its next model are added, those of no present model replaced. One outcome for each memory,
        newest first; a run that was cut short is run again. What makes every further memory fail (signed
        out, a model that is not configured, no network after all retries) ends it.
        """
        repo, space = await self._repo(), await self.space(fresh=True)
        async for page in Reembedder(repo, self._vectoriser, space).run():
            for outcome in page:
                yield outcome

    # --- inside

    def _embedder(self, given: Embedder | str) -> Embedder:
        if not isinstance(given, str):
            return given
        return open_embedder(
            given,
            api_key=self._settings.embedder_api_key,
            cache=self._settings.model_cache,
            threads=self._settings.embedder_threads,
        )

    async def _repo(self) -> Repo:
        return Repo(await self._connection.client())

    async def _writing(self) -> Writer:
        if self._writer is None:
            self._writer = Writer(await self._repo(), self._vectoriser, self._tids)
        return self._writer

    async def _publish(
        self, chunk: Sequence[tuple[int, Draft | PublisherError]], narrow: bool, over: PublisherError | None
    ) -> Sequence[Outcome]:
        """Give the outcomes of one chunk, in order; `over` is what ended everything before it."""
        outcomes, ready = [], []
        try:
            writer, space = await self._writing(), await self.space()
            config = space.declared()
        except PublisherError as error:
            over = over or error
        for index, draft in chunk:
            try:
                if isinstance(draft, PublisherError):
                    raise draft
                draft.check()
                if over is not None:
                    raise not_tried(over)
                ready.append((index, draft.narrowed(space.authority.did) if narrow else draft))
            except PublisherError as error:
                outcomes.append(Outcome(index, error=error))
        if ready:
            outcomes += await writer.create_many(ready, config)
        return sorted(outcomes, key=lambda outcome: outcome.index)

    def _own(self, target: str, repo: Repo) -> str:
        """Read the record key of one of the account's memories."""
        if not target.startswith("at://"):
            if not RecordKey.is_valid(target):
                raise BadSetting(f"not a record key: {target[:80]!r}", "give the memory's URI or record key")
            return target
        uri = memory_uri(target)
        if uri.authority not in (repo.did, repo.handle):
            raise NotAllowed(
                f"{uri} is not a memory of {repo.did}", "an account changes its own memories only"
            )
        return str(uri.rkey)

    async def _governed(self) -> tuple[Repo, Space]:
        repo, space = await self._repo(), await self.space(fresh=True)
        if space.authority.did != repo.did:
            raise NotAllowed(
                f"{space.uri} is governed by {space.authority.did}, not by {repo.did}",
                "sign in as the space's authority",
            )
        return repo, space

    async def _declare(self, repo: Repo, space: Space, config: Config) -> tuple[Config, Committed]:
        done = await repo.put(CONFIG, CONFIG_RKEY, config.to_record(), swap=space.config_cid)
        self._space = None
        return config, done


def memory_uri(text: str) -> AtUri:
    """Read the URI of a memory; raise `BadSetting`."""
    try:
        uri = AtUri(text)
    except InvalidSyntax as error:
        raise BadSetting(str(error)) from None
    if uri.collection != MEMORY or uri.rkey is None:
        raise BadSetting(f"not the URI of a memory: {text[:200]!r}", f"expected at://<did>/{MEMORY}/<key>")
    return uri
