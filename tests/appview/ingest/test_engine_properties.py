"""The invariants of the engine, under histories that hypothesis makes up.

A small world plays host, directory and shell: it writes to repos, loses, repeats and forges messages, rotates
keys with and without a word, hides accounts, answers late or with an error; beside the firehose, a source
without proofs makes claims, true ones and others. After every step, what was applied for a repo must be what
that repo held at the rev that the engine names, but for the records that were proven ahead of it, which must
be as of their own revs; and once the faults are over, what it holds now.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appview.identity.documents import Identity, read_document
from appview.identity.errors import InvalidDocument
from appview.identity.resolver import Dated
from appview.ingest import tracked
from appview.ingest.claims import MAX_AHEAD, MAX_WAITING, ClaimEvent
from appview.ingest.commands import (
    AccountStatus,
    Apply,
    ApplyRecord,
    Command,
    Compare,
    ConfirmStatus,
    Drop,
    FetchIdentity,
    IdentityChanged,
    Prove,
    Purge,
    Resync,
    Turn,
    Untracked,
)
from appview.ingest.commits import ProvenRecord
from appview.ingest.engine import Engine
from appview.ingest.errors import MalformedFrame, Rejected
from appview.ingest.frames import parse_frame
from appview.ingest.pace import MINUTE, SECOND
from appview.ingest.refreshes import REFRESH_INTERVAL
from appview.ingest.sieve import concerns
from appview.ingest.snapshots import prove_repo
from appview.ingest.waiting import MAX_WAITING_TOTAL
from lexicons.syntax import Did, Nsid, RecordKey
from tests.conftest import EXAMPLES
from tests.network.synthetic import CORRUPTIONS, K256, Account, Write, tid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.network.synthetic import Draft

MEMORY = "garden.engram.memory"
POST = "app.bsky.feed.post"
ACCOUNTS = 2
# What anybody may do to a message, and what a relay may do to a true one (and a newer document not mend).
FORGERIES = ("wrong-key", "too-big", "truncated-car", "bad-record-hash", "garbage-car", "high-s", "empty-car")
DAMAGES = (
    "too-big",
    "truncated-car",
    "bad-record-hash",
    "garbage-car",
    "missing-record",
    "op-for-other-path",
)
OP_WEIGHT = 16_000  # so that commits of three and four operations wait for a turn

which = st.integers(0, ACCOUNTS - 1)
writes = st.lists(
    st.tuples(st.sampled_from([MEMORY, POST]), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=4
)


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.full: set[Did] = set()  # of whom enough is not written
        self.engine = Engine(full=self.full.__contains__)
        self.now = time.time_ns() // 1000
        self.accounts = [
            Account(f"account{number}.test", pds="https://pds.example.com") for number in range(ACCOUNTS)
        ]
        self.names = {Did(account.did): account for account in self.accounts}
        self.held: dict[str, dict[str, dict[str, bytes]]] = {account.did: {} for account in self.accounts}
        self.served: dict[str, dict[str, bytes]] = {account.did: {} for account in self.accounts}
        self.ahead: dict[str, dict[str, str]] = {account.did: {} for account in self.accounts}  # path to rev
        self.hidden: set[str] = set()
        self.fetches: list[FetchIdentity] = []
        self.read: dict[str, list[Dated]] = {account.did: [] for account in self.accounts}  # by anybody
        self.compares: list[Did] = []
        self.questions: dict[str, list[int]] = {account.did: [] for account in self.accounts}
        self.resyncs: list[tuple[Resync, bytes | None]] = []  # with the repo, once it was fetched
        self.proofs: list[Prove] = []
        self.turns: list[Did] = []
        self.sent: list[bytes] = []
        self.damaged: dict[str, str] = {}  # the last rev of each repo whose commit arrived damaged

        self.op_weight, tracked.OP_WEIGHT = tracked.OP_WEIGHT, OP_WEIGHT  # type: ignore[misc]

    @initialize()
    def begin(self) -> None:
        for account in self.accounts:
            self.write(account, [Write("create", MEMORY, "first", {"text": "x"})])
            self.carry_out(self.engine.track(Did(account.did)))

    # The hosts

    def write(self, account: Account, changes: Sequence[Write]) -> Draft:
        draft = account.draft(*changes)
        assert account.rev is not None
        self.held[account.did][account.rev] = {
            path: cid for path, cid in account.records.items() if path.startswith(MEMORY)
        }
        return draft

    def drafted(self, account: Account, plan: list[tuple[str, int, int]]) -> Draft:
        changes: dict[str, Write] = {}
        for collection, number, what in plan:
            path = f"{collection}/{number}"
            if path in changes:
                continue
            if path not in account.records:
                changes[path] = Write("create", collection, str(number), {"text": f"{what}"})
            elif what:
                changes[path] = Write("update", collection, str(number), {"text": f"new {what}"})
            else:
                changes[path] = Write("delete", collection, str(number))
        return self.write(account, list(changes.values()))

    def deliver(self, frame: bytes) -> None:
        self.sent.append(frame)
        if not concerns(frame, b"garden.engram.", self.engine.tracked):
            return
        try:
            event = parse_frame(frame)
        except MalformedFrame as error:
            self.carry_out(self.engine.malformed(error.did, str(error), self.now))
            return
        assert event is not None
        self.carry_out(self.engine.receive(event, self.now))

    @rule(who=which, plan=writes)
    def commit(self, who: int, plan: list[tuple[str, int, int]]) -> None:
        self.deliver(self.drafted(self.accounts[who], plan).frame(1))

    @rule(who=which, plan=writes)
    def commit_that_is_lost(self, who: int, plan: list[tuple[str, int, int]]) -> None:
        self.drafted(self.accounts[who], plan)

    @rule(who=which, plan=writes, name=st.sampled_from(sorted(CORRUPTIONS)))
    def commit_that_is_corrupted(self, who: int, plan: list[tuple[str, int, int]], name: str) -> None:
        plan = [(MEMORY, 100 + len(self.sent), 1), *plan]
        draft = self.drafted(self.accounts[who], plan)
        rev = self.accounts[who].rev
        CORRUPTIONS[name](draft)
        state = self.engine.state(Did(self.accounts[who].did))
        self.deliver(draft.frame(1))
        if name in DAMAGES and state is not None and state.active and rev is not None:
            self.damaged[self.accounts[who].did] = rev

    @rule(who=which, name=st.sampled_from(sorted(FORGERIES)), times=st.sampled_from([1, 5]))
    def forge(self, who: int, name: str, times: int) -> None:
        """Say something in an account's name: nothing moves by it."""
        did = Did(self.accounts[who].did)
        before = self.engine.state(did)
        for _ in range(times):
            draft = Account(did=self.accounts[who].did).create(MEMORY, "forged", {"text": "forged"})
            CORRUPTIONS[name](draft)
            self.deliver(draft.frame(1))
        after = self.engine.state(did)
        assert before is not None and after is not None
        assert replace(after, undecided=before.undecided) == before, "invariant 5: it moves no state"

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.sampled_from(self.sent[-20:])))

    @rule(who=which)
    def sync(self, who: int) -> None:
        self.deliver(self.accounts[who].sync_frame(1))

    @rule(who=which, announce=st.booleans())
    def rotate(self, who: int, announce: bool) -> None:
        self.accounts[who].key = K256()
        self.write(self.accounts[who], [])  # the host signs its repo again
        if announce:
            self.deliver(self.accounts[who].identity_frame(1))

    @rule(who=which, status=st.sampled_from(["takendown", "deactivated", None, None]))
    def change_status(self, who: int, status: str | None) -> None:
        account = self.accounts[who]
        account.active, account.status = status is None, status
        self.deliver(account.account_frame(1))

    @rule(seconds=st.sampled_from([1, 10, 61, 700]))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND
        self.carry_out(self.engine.tick(self.now))

    # A source without proofs

    def claim(self, account: Account, number: int, rev: str, *, trusted: bool) -> None:
        cid = account.records.get(f"{MEMORY}/{number}")
        event = ClaimEvent(
            Did(account.did),
            rev,
            Nsid(MEMORY),
            RecordKey(str(number)),
            cid,
            b"" if trusted and cid is not None else None,
            trusted,
        )
        self.carry_out(self.engine.receive(event, self.now))

    @rule(who=which, number=st.integers(0, 9), trusted=st.booleans())
    def claim_that_is_true(self, who: int, number: int, trusted: bool) -> None:
        account = self.accounts[who]
        assert account.rev is not None
        self.claim(account, number, account.rev, trusted=trusted)

    @rule(who=which, number=st.integers(0, 9))
    def claim_that_is_a_lie(self, who: int, number: int) -> None:
        account = self.accounts[who]
        self.claim(account, number, tid(self.now + 60 * SECOND), trusted=False)

    @precondition(lambda self: self.proofs)
    @rule(fails=st.booleans(), lag=st.sampled_from([0, 0, 1, 2]))
    def answer_proof(self, fails: bool, lag: int = 0) -> None:
        command = self.proofs.pop(0)
        proof = None
        if not fails:
            held = self.held[command.did]
            rev = sorted(held)[-1 - min(lag, len(held) - 1)]  # a host may be behind
            cid = held[rev].get(f"{command.collection}/{command.rkey}")
            proof = ProvenRecord(command.did, rev, cid, None if cid is None else b"")
        self.carry_out(self.engine.proven(command.did, command.collection, command.rkey, proof, self.now))

    def expected(self, did: Did, rev: str) -> dict[str, bytes]:
        """Give what a repo held at a rev, with what was proven ahead of that."""
        held = self.held[did]
        now = dict(held[rev])
        for path, ahead in self.ahead[did].items():
            now.pop(path, None)
            if path in held[ahead]:
                now[path] = held[ahead][path]
        return now

    def pass_by(self, did: Did, rev: str) -> None:
        """Note that the chain has come to a rev."""
        self.ahead[did] = {path: ahead for path, ahead in self.ahead[did].items() if ahead > rev}

    def reached(self, did: Did, rev: str | None) -> str | None:
        """Give the highest rev of which anything was applied."""
        return max(filter(None, (rev, *self.ahead[did].values())), default=None)

    # The shell

    def carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Apply(commit=commit):
                    served = self.served[commit.did]
                    self.pass_by(commit.did, commit.rev)
                    for op in commit.ops:
                        path = f"{op.collection}/{op.rkey}"
                        assert path not in self.ahead[commit.did], "invariant 7: no record goes back"
                        if op.collection != MEMORY:
                            continue
                        if op.cid is None:
                            assert path in served
                            del served[path]
                        else:
                            served[path] = op.cid
                    assert served == self.expected(commit.did, commit.rev), "invariant 1: the chain"
                case ApplyRecord(state=record):
                    path = f"{record.collection}/{record.rkey}"
                    assert record.rev > self.ahead[record.did].get(path, ""), (
                        "invariant 7: no record goes back"
                    )
                    self.ahead[record.did][path] = record.rev
                    self.served[record.did].pop(path, None)
                    if record.cid is not None:
                        self.served[record.did][path] = record.cid
                case Prove():
                    self.proofs.append(command)
                case Compare():
                    asked = self.questions[command.did]
                    assert not asked or self.now - asked[-1] >= MINUTE, "invariant 5: one question a minute"
                    asked.append(self.now)
                    self.compares.append(command.did)
                case FetchIdentity():
                    self.fetches.append(command)
                case Resync():
                    self.resyncs.append((command, None))
                case Turn():
                    self.turns.append(command.did)
                case AccountStatus():
                    (self.hidden.discard if command.active else self.hidden.add)(command.did)
                case Untracked():
                    assert command.did not in self.names
                case Purge():
                    raise AssertionError("nobody was deleted")
                case Drop() | IdentityChanged() | ConfirmStatus():
                    pass

    def identity(self, did: Did) -> Identity:
        return read_document(did, self.names[did].document())

    @rule(who=which)
    def fill_up_or_empty(self, who: int) -> None:
        self.full ^= {Did(self.accounts[who].did)}

    @precondition(lambda self: self.turns)
    @rule()
    def give_turn(self) -> None:
        did = self.turns.pop(0)
        self.carry_out(self.engine.turn(did, self.now))

    @rule(who=which)
    def somebody_else_reads_the_document(self, who: int) -> None:
        did = Did(self.accounts[who].did)
        self.read[did].append(Dated(self.identity(did), self.now))

    @precondition(lambda self: self.fetches)
    @rule(fails=st.booleans(), old=st.booleans())
    def answer_identity(self, fails: bool, old: bool = False) -> None:
        did = self.fetches.pop(0).did
        outcome: Dated | Exception = Dated(self.identity(did), self.now)
        if fails:
            outcome = InvalidDocument("not today")
        elif old and self.read[did] and self.now - self.read[did][-1].asked_at < REFRESH_INTERVAL:
            outcome = self.read[did][-1]
        self.carry_out(self.engine.identity_resolved(did, outcome, self.now))

    @precondition(lambda self: self.compares)
    @rule(on_its_way=st.booleans())
    def compare_with_the_host(self, on_its_way: bool = False) -> None:
        did = self.compares.pop(0)
        doubt, rev = self.engine.doubted(did), self.names[did].rev
        if on_its_way:  # while the answer is, something else is lost
            self.commit_that_is_corrupted(self.accounts.index(self.names[did]), [], "truncated-car")
        state = self.engine.state(did)
        if state is None or not state.active:
            return
        if state.rev is not None and rev is not None and state.rev >= rev:
            self.engine.trust(did, doubt)
        else:
            self.engine.trust(did, self.engine.doubted(did))
            self.carry_out(self.engine.desynchronize(did, "gap"))

    @precondition(lambda self: any(repo is None for _, repo in self.resyncs))
    @rule()
    def fetch_repo(self) -> None:
        at = next(index for index, (_, repo) in enumerate(self.resyncs) if repo is None)
        command, _ = self.resyncs[at]
        self.resyncs[at] = (command, self.names[command.did].export())

    @precondition(lambda self: any(repo is not None for _, repo in self.resyncs))
    @rule()
    def apply_repo(self) -> None:
        at = next(index for index, (_, repo) in enumerate(self.resyncs) if repo is not None)
        command, repo = self.resyncs.pop(at)
        assert repo is not None
        did = command.did
        if not self.engine.is_current(did, command.attempt):
            return
        try:
            rev, data, records = prove_repo(did, self.identity(did).key, [repo], self.now, MEMORY.__eq__)
        except Rejected:  # signed before a rotation: fetch it again
            self.resyncs.append((command, None))
            return
        state = self.engine.state(did)
        assert state is not None
        if rev < (state.reached or ""):  # from before what was proven meanwhile: fetch it again
            self.resyncs.append((command, None))
            return
        self.ahead[did].clear()
        self.served[did] = {f"{each.collection}/{each.rkey}": each.cid for each in records}
        self.carry_out(self.engine.resynced(did, rev, data, self.now, command.attempt))

    # What must hold

    @invariant()
    def what_is_served_is_what_the_repo_held(self) -> None:
        for did, account in self.names.items():
            state = self.engine.state(did)
            if state is None:
                continue
            assert account.did == did
            assert state.reached == self.reached(did, state.rev), "invariant 7: what was proven is remembered"
            if state.rev is None:
                continue
            assert self.served[did] == self.expected(did, state.rev)
            assert (did in self.hidden) == (not state.active)

    @invariant()
    def what_is_not_synchronized_is_being_fetched(self) -> None:
        for did in self.names:
            state = self.engine.state(did)
            if state is None or not state.active or state.sync == "synchronized":
                continue
            current = [each for each, _ in self.resyncs if self.engine.is_current(did, each.attempt)]
            assert len(current) == 1, "invariant 2: one resync for a repo that is not synchronized"

    @invariant()
    def what_waits_for_nothing_else_gets_a_turn(self) -> None:
        for did in self.names:
            repo = self.engine._repos.get(did)
            if repo is not None and repo.waiting and not (repo.resyncing or repo.awaits_identity):
                assert repo.busy
            if repo is not None and repo.busy:
                assert did in self.turns

    @invariant()
    def what_waits_is_bounded(self) -> None:
        count, size = self.engine.waiting
        assert 0 <= size <= MAX_WAITING_TOTAL
        assert (count == 0) == (size == 0)

    @invariant()
    def what_is_known_of_claims_is_bounded(self) -> None:
        for did in self.names:
            repo = self.engine._repos.get(did)
            if repo is None:
                continue
            assert len(repo.claims.proving) <= MAX_WAITING + 1
            assert len(repo.claims.ahead) <= MAX_AHEAD + 1
            asked = {(each.collection, each.rkey) for each in self.proofs if each.did == did}
            if repo.active and not repo.resyncing:
                assert repo.claims.proving.keys() <= asked, "invariant 2: no claim is forgotten"

    def teardown(self) -> None:
        """End the faults: answer everything, send one honest commit, and compare."""
        try:
            self.compare()
        finally:
            tracked.OP_WEIGHT = self.op_weight  # type: ignore[misc]

    def compare(self) -> None:
        if not self.sent and not self.resyncs:
            return
        for account in self.accounts:
            account.active, account.status = True, None
            self.deliver(account.account_frame(1))
        self.settle()
        for did in self.names:  # before an honest commit shows every gap
            state = self.engine.state(did)
            assert state is not None
            is_early = did in self.engine._early  # a rev of next year is doubted for as long
            assert is_early or not state.undecided, "nothing is doubted for ever"
        for did, lost in self.damaged.items():
            state = self.engine.state(Did(did))
            assert state is not None and state.rev is not None
            assert state.rev >= lost, "invariant 5: a true commit that arrived damaged is made good"
        for account in self.accounts:
            self.deliver(self.drafted(account, [(MEMORY, 1_000, 1)]).frame(1))
        self.settle()
        for did, account in self.names.items():
            state = self.engine.state(did)
            assert state is not None
            assert state.sync == "synchronized"
            assert (state.rev, state.data) == (account.rev, account.data)
            assert self.served[did] == self.held[account.did][account.rev or ""]
        assert self.engine.waiting == (0, 0)

    def settle(self) -> None:
        for _ in range(60):
            while self.fetches or self.proofs or self.turns or self.compares:
                if self.compares:
                    self.compare_with_the_host(on_its_way=False)
                elif self.fetches:
                    self.answer_identity(fails=False)
                elif self.proofs:
                    self.answer_proof(fails=False)
                else:
                    self.give_turn()
            if any(repo is None for _, repo in self.resyncs):
                self.fetch_repo()
            elif self.resyncs:
                self.apply_repo()
            else:
                self.now += REFRESH_INTERVAL + 700 * SECOND
                commands = self.engine.tick(self.now)
                if not commands:
                    return
                self.carry_out(commands)
        raise AssertionError("the engine does not come to rest")


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=EXAMPLES or 60, stateful_step_count=40, deadline=None)
