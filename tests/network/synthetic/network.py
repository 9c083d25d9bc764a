"""A whole small network in this process: a directory and any number of PDSes, on loopback."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from tests.network.synthetic.corruptions import CORRUPTIONS
from tests.network.synthetic.directory import Directory
from tests.network.synthetic.pds import Pds
from tests.network.synthetic.repos import Account, Draft, Write

if TYPE_CHECKING:
    from tests.network.synthetic.keys import SigningKey


class Network:
    """`async with Network(pds=2) as network:` - `network.plc.url`, `network.pds[0].url` are ready.

    Each verb changes the account's repo and puts the frame on its PDS's firehose; it returns the frame's seq.
    """

    def __init__(self, pds: int = 1) -> None:
        self.plc = Directory()
        self.pds = [Pds() for _ in range(pds)]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for server in (self.plc, *self.pds):
            await self._stack.enter_async_context(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def account(self, handle: str | None = None, *, key: SigningKey | None = None, pds: int = 0) -> Account:
        """Make an account: registered in the directory, hosted on a PDS, announced on its firehose."""
        account = self.pds[pds].account(handle, key=key)
        self.plc.accounts[account.did] = account
        self.announce_identity(account)
        self.announce_account(account)
        return account

    def host_of(self, account: Account) -> Pds:
        """Find the PDS that the account's document names."""
        return next(server for server in self.pds if server.url == account.pds)

    def commit(self, account: Account, *writes: Write, corrupt: str | None = None) -> int:
        """Commit writes; `corrupt` names one of `CORRUPTIONS`."""
        return self.publish(account.draft(*writes), corrupt)

    def create(
        self, account: Account, collection: str, rkey: str, record: Any, corrupt: str | None = None
    ) -> int:
        """Write a new record."""
        return self.commit(account, Write("create", collection, rkey, record), corrupt=corrupt)

    def update(
        self, account: Account, collection: str, rkey: str, record: Any, corrupt: str | None = None
    ) -> int:
        """Replace a record."""
        return self.commit(account, Write("update", collection, rkey, record), corrupt=corrupt)

    def delete(self, account: Account, collection: str, rkey: str, corrupt: str | None = None) -> int:
        """Remove a record."""
        return self.commit(account, Write("delete", collection, rkey), corrupt=corrupt)

    def publish(self, draft: Draft, corrupt: str | None = None) -> int:
        """Put a draft on its account's firehose."""
        if corrupt is not None:
            CORRUPTIONS[corrupt](draft)
        firehose = self.host_of(draft.account).firehose
        return firehose.push(draft.frame(firehose.next_seq()))

    def announce_sync(self, account: Account) -> int:
        """Send `#sync`."""
        firehose = self.host_of(account).firehose
        return firehose.push(account.sync_frame(firehose.next_seq()))

    def announce_identity(self, account: Account) -> int:
        """Send `#identity`."""
        firehose = self.host_of(account).firehose
        return firehose.push(account.identity_frame(firehose.next_seq()))

    def announce_account(self, account: Account) -> int:
        """Send `#account`."""
        firehose = self.host_of(account).firehose
        return firehose.push(account.account_frame(firehose.next_seq()))

    def set_status(self, account: Account, status: str | None) -> int:
        """Change the account's status (None: active) and announce it."""
        account.active, account.status = status is None, status
        return self.announce_account(account)

    def rotate_key(self, account: Account, key: SigningKey, *, announce: bool = True) -> None:
        """Change the signing key in the directory; the next commits use it."""
        account.key = key
        if announce:
            self.announce_identity(account)

    def move(self, account: Account, pds: int) -> None:
        """Move the account to another PDS; its document and its next frames follow."""
        self.host_of(account).accounts.pop(account.did)
        self.pds[pds].host(account)
        self.announce_identity(account)
