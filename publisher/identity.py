"""From a handle or DID to the account's PDS, checked both ways.

A handle counts only where the DID's document names it too. A PDS's address comes out of a document that
anybody can publish, so it is checked like any other address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lexicons.syntax import Did, Handle, at_identifier
from publisher.errors import BadSetting, NotFound
from publisher.urls import service_url

if TYPE_CHECKING:
    from publisher.web import Web

PDS_SERVICE: Final = "#atproto_pds"
PDS_TYPE: Final = "AtprotoPersonalDataServer"
RESOLVE_HANDLE: Final = "com.atproto.identity.resolveHandle"
DNS_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """An account: its DID, its handle where one is proven, and the base URL of its PDS."""

    did: Did
    handle: Handle | None
    pds: str


class Resolver:
    """Finds accounts through the directory, did:web, DNS and, first, a PDS that is already trusted."""

    def __init__(
        self, web: Web, *, plc_url: str, allow_loopback: bool, trusted_pds: str | None = None
    ) -> None:
        self._web = web
        self._plc_url = plc_url
        self.allow_loopback = allow_loopback
        self.trusted_pds = trusted_pds
        self._known: dict[str, Identity] = {}

    async def resolve(self, account: str) -> Identity:
        """Find an account by handle or DID; raise `NotFound`, `BadSetting` or `Temporary`."""
        account = account.removeprefix("@")
        if account in self._known:
            return self._known[account]
        named = at_identifier(account if account.startswith("did:") else account.lower())
        did = named if isinstance(named, Did) else await self._did_of(named)
        document = await self._document(did)
        claimed = _handle_of(document)
        if isinstance(named, Handle) and claimed != named:
            raise NotFound(
                f"the handle {named} belongs to {did}, whose document does not name it", "use the DID"
            )
        identity = Identity(did, claimed, self._pds_of(did, document))
        self._known[account] = identity
        return identity

    async def _did_of(self, handle: Handle) -> Did:
        if self.trusted_pds is not None:
            answer = await self._web.query(self.trusted_pds, RESOLVE_HANDLE, {"handle": handle})
            found = answer.body.get("did") if answer.status == 200 and isinstance(answer.body, dict) else None
            if isinstance(found, str) and Did.is_valid(found):
                return Did(found)
        from atproto import AsyncHandleResolver

        found = await _resolved(AsyncHandleResolver(timeout=DNS_SECONDS), handle)
        if found is None or not Did.is_valid(found):
            raise NotFound(f"no account has the handle {handle}", "check its spelling, or use the DID")
        return Did(found)

    async def _document(self, did: Did) -> dict[str, Any]:
        if did.method == "plc":
            url = f"{self._plc_url}/{did}"
        elif did.method == "web":
            host = unquote(did.split(":", 2)[2])
            scheme = "http" if self.allow_loopback and host.split(":")[0] == "localhost" else "https"
            base = service_url(f"{scheme}://{host}", allow_loopback=self.allow_loopback)
            url = f"{base}/.well-known/did.json"
        else:
            raise NotFound(f"accounts of the kind did:{did.method} are not supported")
        answer = await self._web.get(url)
        if answer.status != 200 or not isinstance(answer.body, dict) or answer.body.get("id") != did:
            raise NotFound(f"no document for {did} at {url} (it answers {answer.status})")
        return answer.body

    def _pds_of(self, did: Did, document: dict[str, Any]) -> str:
        services = document.get("service")
        for each in services if isinstance(services, list) else []:
            if not isinstance(each, dict) or each.get("type") != PDS_TYPE:
                continue
            endpoint = each.get("serviceEndpoint")
            if each.get("id") in (PDS_SERVICE, did + PDS_SERVICE) and isinstance(endpoint, str):
                try:
                    return service_url(endpoint, allow_loopback=self.allow_loopback)
                except BadSetting as error:
                    raise BadSetting(f"the PDS of {did}: {error.message}", error.hint) from None
        raise NotFound(f"the document of {did} names no PDS")


def _handle_of(document: dict[str, Any]) -> Handle | None:
    names = document.get("alsoKnownAs")
    for name in names if isinstance(names, list) else []:
        if isinstance(name, str) and name.startswith("at://") and Handle.is_valid(name[5:]):
            return Handle(name[5:].lower())
    return None


async def _resolved(resolver: Any, handle: Handle) -> str | None:
    try:
        found: str | None = await resolver.resolve(handle)
    finally:
        await resolver._http_client.aclose()  # it has no public way to close
    return found
