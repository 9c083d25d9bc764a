"""The signed-in account's records: written once whatever the network does, and never over a change unseen.

A write whose answer was lost is looked up before it is repeated: the key was chosen here and the CID is known
beforehand, so the record that is found is either ours or somebody else's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lexicons.data import cid_of, cid_text, encode, from_json, to_json
from lexicons.errors import InvalidData
from lexicons.syntax import AtUri, Did
from publisher.errors import Conflict, NotFound, PublisherError, RefusedByPds
from publisher.pds import CallFailed
from publisher.retry import CREATE_POINTS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lexicons.syntax import Nsid
    from publisher.answers import Failure
    from publisher.pds import PdsClient
    from publisher.retry import Budget

CREATE_RECORD: Final = "com.atproto.repo.createRecord"
PUT_RECORD: Final = "com.atproto.repo.putRecord"
DELETE_RECORD: Final = "com.atproto.repo.deleteRecord"
APPLY_WRITES: Final = "com.atproto.repo.applyWrites"
GET_RECORD: Final = "com.atproto.repo.getRecord"
LIST_RECORDS: Final = "com.atproto.repo.listRecords"
GET_LATEST_COMMIT: Final = "com.atproto.sync.getLatestCommit"

MAX_WRITES: Final = 200  # com.atproto.repo.applyWrites on the official PDS; sync spec, ops in a commit
UPDATE_POINTS: Final = 2  # what the official PDS counts
DELETE_POINTS: Final = 1


@dataclass(frozen=True, slots=True)
class Committed:
    """A record that the PDS has committed. `rev` is the repo's revision that holds it, or a later one."""

    uri: str
    cid: str
    rev: str

    def to_json(self) -> dict[str, str]:
        """Write the result as the command line gives it."""
        return {"uri": self.uri, "cid": self.cid, "rev": self.rev}


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read: its value holds bytes as `bytes`."""

    uri: str
    cid: str
    value: dict[str, Any]


class Repo:
    """One account's repo."""

    def __init__(self, client: PdsClient) -> None:
        self._client = client

    @property
    def did(self) -> Did:
        """Whose repo this is."""
        return Did(self._client.session.did)

    @property
    def handle(self) -> str:
        """The account's handle, as it was at sign-in."""
        return self._client.session.handle

    @property
    def budget(self) -> Budget | None:
        """What the PDS last said about the writes that are left."""
        return self._client.budget

    async def create(self, collection: Nsid, rkey: str, value: Mapping[str, Any]) -> Committed:
        """Create a record; raise `Conflict` where the key holds something else."""
        uri, cid = AtUri.of_record(self.did, collection, rkey), cid_of_value(value)

        async def write() -> Committed:
            body = {**self._place(collection, rkey), "record": to_json(value)}
            return _committed(await self._client.once(CREATE_RECORD, body), uri, cid)

        async def settled(failure: Failure) -> Committed | None:
            found = await self.get(collection, rkey)
            if found is None:
                return None
            if found.cid != cid:
                raise Conflict(f"{uri} exists already and is different", "choose another record key")
            return Committed(uri, cid, await self.rev())

        return await self._client.retried(write, settled, points=CREATE_POINTS)

    async def create_many(
        self, collection: Nsid, records: Sequence[tuple[str, Mapping[str, Any]]], given: Collection[str]
    ) -> list[Committed]:
        """Create up to `MAX_WRITES` records in one commit, all or none of them.

        `given` are the keys that were not chosen just now, so that a record may lie there already: where
        one does, raise `RefusedByPds` with the status 409.
        """
        cids = [cid_of_value(value) for _, value in records]
        uris = [AtUri.of_record(self.did, collection, rkey) for rkey, _ in records]
        writes = [
            {
                "$type": f"{APPLY_WRITES}#create",
                "collection": collection,
                "rkey": rkey,
                "value": to_json(value),
            }
            for rkey, value in records
        ]

        async def write() -> list[Committed]:
            answer = await self._client.once(APPLY_WRITES, {"repo": self.did, "writes": writes})
            results = answer.get("results")
            if not isinstance(results, list) or len(results) != len(records):
                results = [{}] * len(records)  # older PDSes answer with nothing but the commit
            rev = _rev(answer) or await self.rev()
            return [
                Committed(_text(result, "uri") or uri, _text(result, "cid") or cid, rev)
                for result, uri, cid in zip(results, uris, cids, strict=True)
            ]

        async def settled(failure: Failure) -> list[Committed] | None:
            # The commit is atomic: a record under a key chosen just now tells about all of them.
            fresh = next((place for place, (rkey, _) in enumerate(records) if rkey not in given), None)
            if fresh is not None and await self._holds(collection, records[fresh][0], cids[fresh]):
                rev = await self.rev()
                return [Committed(uri, cid, rev) for uri, cid in zip(uris, cids, strict=True)]
            for rkey, _ in records:
                if rkey in given and await self.get(collection, rkey) is not None:
                    raise RefusedByPds(f"there is a record under {rkey} already", status=409)
            return None

        return await self._client.retried(write, settled, points=CREATE_POINTS * len(records))

    async def update_many(
        self, collection: Nsid, records: Sequence[tuple[str, Mapping[str, Any]]], *, at: str
    ) -> tuple[list[Committed], str | None]:
        """Write up to `MAX_WRITES` records over what they were at the commit with the CID `at`, all or none.

        Give the new commit's CID with them, None where it is not known. Raise `Conflict` where the repo has
        moved on.
        """
        cids = [cid_of_value(value) for _, value in records]
        uris = [AtUri.of_record(self.did, collection, rkey) for rkey, _ in records]
        kind = f"{APPLY_WRITES}#update"
        writes = [
            {"$type": kind, "collection": collection, "rkey": rkey, "value": to_json(value)}
            for rkey, value in records
        ]

        async def write() -> tuple[list[Committed], str | None]:
            answer = await self._client.once(
                APPLY_WRITES, {"repo": self.did, "writes": writes, "swapCommit": at}
            )
            rev = _rev(answer) or await self.rev()
            made = [Committed(uri, cid, rev) for uri, cid in zip(uris, cids, strict=True)]
            return made, _text(answer.get("commit"), "cid") or None

        async def settled(failure: Failure) -> tuple[list[Committed], str | None] | None:
            if await self._holds(collection, records[0][0], cids[0]):  # the commit is atomic
                rev = await self.rev()
                return [Committed(uri, cid, rev) for uri, cid in zip(uris, cids, strict=True)], None
            if failure.name == "InvalidSwap":
                raise Conflict(f"the repo of {self.did} changed meanwhile, nothing was written")
            return None

        return await self._client.retried(write, settled, points=UPDATE_POINTS * len(records))

    async def _holds(self, collection: Nsid, rkey: str, cid: str) -> bool:
        found = await self.get(collection, rkey)
        return found is not None and found.cid == cid

    async def put(
        self, collection: Nsid, rkey: str, value: Mapping[str, Any], *, swap: str | None
    ) -> Committed:
        """Write a record over the one with the CID `swap` (None: over nothing); raise `Conflict`."""
        uri, cid = AtUri.of_record(self.did, collection, rkey), cid_of_value(value)

        async def write() -> Committed:
            body = {**self._place(collection, rkey), "record": to_json(value), "swapRecord": swap}
            answer = await self._client.once(PUT_RECORD, body)
            return _committed(answer, uri, cid) if _rev(answer) else Committed(uri, cid, await self.rev())

        async def settled(failure: Failure) -> Committed | None:
            if await self._holds(collection, rkey, cid):
                return Committed(uri, cid, await self.rev())
            _refuse_swapped(failure, uri)
            return None

        return await self._client.retried(write, settled, points=CREATE_POINTS)

    async def delete(self, collection: Nsid, rkey: str) -> Committed:
        """Delete a record, as it is now; raise `NotFound` where there is none."""
        uri = AtUri.of_record(self.did, collection, rkey)
        present = await self.get(collection, rkey)
        if present is None:
            raise NotFound(f"there is no {uri}")

        async def write() -> Committed:
            body = {**self._place(collection, rkey), "swapRecord": present.cid}
            answer = await self._client.once(DELETE_RECORD, body)
            return Committed(uri, present.cid, _rev(answer) or await self.rev())

        async def settled(failure: Failure) -> Committed | None:
            if await self.get(collection, rkey) is None:
                return Committed(uri, present.cid, await self.rev())
            _refuse_swapped(failure, uri)
            return None

        return await self._client.retried(write, settled, points=DELETE_POINTS)

    async def get(self, collection: Nsid, rkey: str) -> Record | None:
        """Read one record; None where there is none."""
        try:
            answer = await self._client.query(GET_RECORD, self._place(collection, rkey))
        except RefusedByPds as error:
            if error.name == "RecordNotFound" or error.status == 404:
                return None
            raise
        return read_record(answer)

    async def list(
        self, collection: Nsid, *, limit: int, cursor: str | None
    ) -> tuple[list[Record], str | None]:
        """Read a page of records, newest key first, and the cursor of the next page."""
        parameters = {"repo": self.did, "collection": collection, "limit": limit, "cursor": cursor}
        answer = await self._client.query(LIST_RECORDS, parameters)
        records, following = answer.get("records"), answer.get("cursor")
        if not isinstance(records, list):
            raise RefusedByPds(f"{LIST_RECORDS} was answered without records")
        return [read_record(each) for each in records], following if isinstance(following, str) else None

    async def rev(self) -> str:
        """Read the repo's latest revision."""
        return _text(await self._client.query(GET_LATEST_COMMIT, {"did": self.did}), "rev")

    async def head(self) -> str:
        """Read the CID of the repo's latest commit."""
        return _text(await self._client.query(GET_LATEST_COMMIT, {"did": self.did}), "cid")

    def _place(self, collection: Nsid, rkey: str) -> dict[str, str]:
        return {"repo": self.did, "collection": collection, "rkey": rkey}


def cid_of_value(value: Mapping[str, Any]) -> str:
    """Compute the CID that a record will have."""
    return cid_text(cid_of(encode(dict(value))))


def read_record(answer: Any) -> Record:
    """Read `{uri, cid, value}` as a PDS gives it; raise `RefusedByPds`."""
    value = answer.get("value") if isinstance(answer, dict) else None
    uri, cid = _text(answer, "uri"), _text(answer, "cid")
    if not isinstance(value, dict) or not uri or not cid:
        raise RefusedByPds("the PDS gave something that is not a record")
    try:
        return Record(uri, cid, from_json(value))
    except InvalidData as error:
        raise RefusedByPds(f"the record {uri} is outside the data model: {error}") from None


def _refuse_swapped(failure: Failure, uri: str) -> None:
    if failure.name == "InvalidSwap":
        raise Conflict(f"{uri} changed meanwhile, nothing was written", "read it again and repeat the change")


def _committed(answer: dict[str, Any], uri: str, cid: str) -> Committed:
    rev = _rev(answer)
    if not rev:
        raise CallFailed(_without_commit(uri))
    return Committed(_text(answer, "uri") or uri, _text(answer, "cid") or cid, rev)


def _without_commit(uri: str) -> Failure:
    from publisher.answers import Failure

    error: PublisherError = RefusedByPds(f"the PDS took {uri} and did not say that it committed it")
    return Failure(error, unclear=True)


def _rev(answer: Any) -> str:
    commit = answer.get("commit") if isinstance(answer, dict) else None
    return _text(commit, "rev")


def _text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
