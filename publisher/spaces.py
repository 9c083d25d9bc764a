"""A space as a writer sees it: its authority, and the config record that declares its model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lexicons.configs import Config
from lexicons.errors import InvalidRecord, InvalidSyntax
from lexicons.ids import CONFIG, CONFIG_RKEY
from lexicons.spaces import SpaceUri
from lexicons.syntax import at_identifier
from publisher.errors import BadSetting, NotFound, RefusedByPds
from publisher.repo import GET_RECORD, read_record

if TYPE_CHECKING:
    from publisher.identity import Identity, Resolver
    from publisher.web import Web


@dataclass(frozen=True, slots=True)
class Space:
    """A space, who governs it, and its config where one is declared (`config_cid` names that version)."""

    uri: SpaceUri
    authority: Identity
    config: Config | None
    config_cid: str | None

    def declared(self) -> Config:
        """Give the config; raise `NotFound` where the space has none yet."""
        if self.config is None:
            raise NotFound(
                f"{self.uri} declares no model",
                "its authority declares one with `engram-publisher model --set`",
            )
        return self.config


def authority_of(space: str) -> str:
    """Read the account out of what a user gives for a space: a handle, a DID or the space's URI."""
    if space.startswith("at://"):
        try:
            return SpaceUri(space).authority
        except InvalidSyntax as error:
            raise BadSetting(str(error), "give the space's URI, or its authority's handle or DID") from None
    try:
        return at_identifier(space.removeprefix("@"))
    except InvalidSyntax as error:
        raise BadSetting(str(error), "give the space's URI, or its authority's handle or DID") from None


async def read_space(account: str, resolver: Resolver, web: Web) -> Space:
    """Read the public space of an account from its own PDS; raise a `PublisherError`."""
    authority = await resolver.resolve(account)
    uri = SpaceUri.public(authority.did)
    parameters = {"repo": authority.did, "collection": CONFIG, "rkey": CONFIG_RKEY}
    answer = await web.query(authority.pds, GET_RECORD, parameters)
    if answer.status == 404 or answer.error == "RecordNotFound":
        return Space(uri, authority, None, None)
    if answer.status != 200:
        raise RefusedByPds(
            f"{authority.pds} answers {answer.status} {answer.error} for {uri}",
            name=answer.error,
            status=answer.status,
        )
    record = read_record(answer.body)
    try:
        return Space(uri, authority, Config.from_record(record.value), record.cid)
    except InvalidRecord as error:
        raise RefusedByPds(
            f"the config of {uri} is not valid: {error}", "its authority must repair it"
        ) from None
