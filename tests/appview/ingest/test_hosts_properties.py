"""What holds of an account whatever other hosts say of it, under histories that hypothesis makes up.

Its own host commits, rotates keys, hides it and shows it again; another host sends identities, statuses,
commits and rubbish in its name, a relay commits that cannot be used; the directory answers late, with what it
told somebody else before, or not at all; the clock jumps.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appview.http.errors import FetchError
from appview.identity.documents import read_document
from appview.identity.resolver import Dated
from appview.ingest.commands import (
    AccountStatus,
    Apply,
    Compare,
    FetchIdentity,
    Purge,
    RepoState,
    Resync,
    Turn,
)
from appview.ingest.engine import Engine
from appview.ingest.frames import parse_frame
from appview.ingest.pace import MINUTE, SECOND
from appview.ingest.refreshes import MAX_IDENTITY_RETRY, REFRESH_INTERVAL
from appview.ingest.waiting import MAX_ASIDE_BYTES, MAX_ASIDE_EVENTS
from lexicons.syntax import Did
from tests.conftest import EXAMPLES
from tests.network.synthetic import CORRUPTIONS, K256, Account

if TYPE_CHECKING:
    from appview.ingest.commands import Command
    from tests.network.synthetic import Draft

MEMORY = "garden.engram.memory"
OWN, OTHER = "https://pds.example.com", "https://other.example.com"
FOREIGN = ("identity", "active", "deactivated", "deleted", "commit", "rubbish", "garbage", "noise")


class Hosts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.elapsed = 0  # true time
        self.shift = 0  # of our clock
        self.account = Account("alice.test", pds=OWN)
        self.did = Did(self.account.did)
        self.begun = time.time_ns() // 1000
        self.count = 0
        self.asked: list[FetchIdentity] = []
        self.looks: list[int] = []  # true times of forced looks since the clock last jumped
        self.read: Dated | None = None  # what the directory told somebody else
        self.compares: list[int] = []  # true times of questions since the clock last jumped
        self.to_compare = 0
        self.resyncs: list[Resync] = []
        self.told = False  # its own host has said something that a document is waited for
        self.applied = 0
        self.shown = True

    @property
    def now(self) -> int:
        return self.begun + self.elapsed + self.shift

    @initialize()
    def begin(self) -> None:
        self.draft()
        state = RepoState(self.account.rev, self.account.data, "synchronized", pds=OWN)
        self.carry_out(self.engine.track(self.did, state))
        self.carry_out(self.engine.identity_resolved(self.did, self.identity, self.now))

    @property
    def identity(self) -> Dated:
        return Dated(read_document(self.did, self.account.document()), self.now)

    def draft(self) -> Draft:
        self.count += 1
        return self.account.create(MEMORY, f"r{self.count}", {"text": f"memory {self.count}"})

    def carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case FetchIdentity():
                    self.asked.append(command)
                    if command.force:
                        self.looks.append(self.elapsed)
                case Compare():
                    self.to_compare += 1
                    self.compares.append(self.elapsed)
                case Resync():
                    self.resyncs.append(command)
                case AccountStatus():
                    self.shown = command.active
                case Apply():
                    self.applied += 1
                case Turn():  # nobody else wants one
                    self.carry_out(self.engine.turn(self.did, self.now))
                case Purge():
                    raise AssertionError("invariant 8: its own host ended nothing")

    def send(self, frame: bytes, host: str | None) -> None:
        event = parse_frame(frame)
        assert event is not None
        self.carry_out(self.engine.receive(event, self.now, host))

    def is_undisturbed(self) -> bool:
        """Whether the account's own host has done nothing for which its commits may have to wait."""
        calm = not self.told and not self.shift and not self.resyncs
        return calm and self.account.active and self.shown

    @rule()
    def own_commit(self) -> None:
        before = self.applied
        self.send(self.draft().frame(1), OWN)
        if self.is_undisturbed():
            assert self.applied == before + 1, "invariant 9: another host delays nothing"

    @rule(what=st.sampled_from(FOREIGN), times=st.sampled_from([1, 2, 300]))
    def foreign(self, what: str, times: int) -> None:
        """Say something in the account's name, and see that its own next commit does not wait for that."""
        for _ in range(times):
            match what:
                case "identity":
                    self.send(self.account.identity_frame(1), OTHER)
                case "commit":
                    fork = Account("alice.test", pds=OTHER)
                    draft = fork.create(MEMORY, "evil", {"text": "evil"})
                    draft.body["repo"] = self.account.did
                    CORRUPTIONS["wrong-key"](draft)
                    self.send(draft.frame(1), OTHER)
                case "rubbish":
                    self.carry_out(self.engine.malformed(self.did, "rubbish", self.now, OTHER))
                case "noise":
                    self.carry_out(self.engine.malformed(self.did, "noise", self.now))
                case "garbage":
                    draft = Account(did=self.account.did).create(MEMORY, "evil", {"text": "evil"})
                    CORRUPTIONS["garbage-car"](draft)
                    self.send(draft.frame(1), None)
                case _:
                    truth = self.account.active, self.account.status
                    active = what == "active"
                    self.account.active, self.account.status = active, None if active else what
                    self.send(self.account.account_frame(1), OTHER)
                    self.account.active, self.account.status = truth
        self.own_commit()

    @rule(announced=st.booleans())
    def rotate(self, announced: bool) -> None:
        self.account.key = K256()
        self.told = True
        if announced:
            self.send(self.account.identity_frame(1), OWN)

    @rule(times=st.sampled_from([1, 100]))
    def own_identity(self, times: int) -> None:
        self.told = True
        for _ in range(times):
            self.send(self.account.identity_frame(1), OWN)

    @rule()
    def own_status(self) -> None:
        self.account.active = not self.account.active
        self.account.status = None if self.account.active else "deactivated"
        self.told = True
        self.send(self.account.account_frame(1), OWN)
        if not self.account.active:
            assert not self.shown, "invariant 8: what its own host hides is hidden at once"

    @precondition(lambda self: self.asked)
    @rule(fails=st.booleans(), old=st.booleans())
    def answer(self, fails: bool, old: bool = False) -> None:
        self.asked.pop(0)
        outcome = FetchError("away") if fails else self.identity
        if not fails and old and self.read is not None and 0 <= self.now - self.read.asked_at < MINUTE:
            outcome = self.read
        self.carry_out(self.engine.identity_resolved(self.did, outcome, self.now))
        repo = self.engine._repos[self.did]
        if not fails and not repo.awaits_identity and not self.engine._refreshes.is_owed(repo):
            self.told = repo.key != read_document(self.did, self.account.document()).key

    @rule()
    def somebody_else_reads_the_document(self) -> None:
        self.read = self.identity

    @precondition(lambda self: self.to_compare)
    @rule()
    def compare(self) -> None:
        self.to_compare -= 1
        state = self.engine.state(self.did)
        assert state is not None
        is_behind = state.active and state.rev != self.account.rev
        self.engine.trust(self.did, self.engine.doubted(self.did))
        if is_behind:
            self.carry_out(self.engine.desynchronize(self.did, "gap"))

    @precondition(lambda self: self.resyncs)
    @rule()
    def fetched(self) -> None:
        resync = self.resyncs.pop(0)
        rev, data = self.account.rev, self.account.data
        assert rev is not None
        assert data is not None
        self.carry_out(self.engine.resynced(self.did, rev, data, self.now, resync.attempt, OWN))

    @rule(seconds=st.sampled_from([1, 10, 59, 61, 700]))
    def wait(self, seconds: int) -> None:
        self.elapsed += seconds * SECOND
        self.carry_out(self.engine.tick(self.now))

    @rule(hours=st.sampled_from([-24 * 30, -1, 1, 24 * 30]))
    def jump(self, hours: int) -> None:
        self.shift += hours * 3600 * SECOND
        self.looks.clear()
        self.compares.clear()
        self.told = True  # revs of now may be in the future, and documents too old

    @invariant()
    def looks_are_a_minute_apart(self) -> None:
        repo = self.engine._repos.get(self.did)
        failed = repo is not None and repo.identity_failures > 0
        for earlier, later in zip(self.looks, self.looks[1:], strict=False):
            assert failed or later - earlier >= REFRESH_INTERVAL, "invariant 5: one look a minute"
        if failed:  # those after a failure have waits of their own
            self.looks.clear()

    @invariant()
    def questions_are_a_minute_apart(self) -> None:
        for earlier, later in zip(self.compares, self.compares[1:], strict=False):
            assert later - earlier >= MINUTE, "invariant 5: one question a minute"

    @invariant()
    def what_is_laid_aside_is_bounded(self) -> None:
        repo = self.engine._repos.get(self.did)
        if repo is not None:
            assert len(repo.aside) <= MAX_ASIDE_EVENTS
            assert repo.aside_bytes <= MAX_ASIDE_BYTES
            assert repo.aside_bytes == self.engine._waiting.aside_bytes
            assert len(repo.words) <= 2

    @invariant()
    def another_host_ends_nothing(self) -> None:
        state = self.engine.state(self.did)
        if state is not None and self.account.active and not self.told:
            assert state.active, "invariant 8"

    def settle(self) -> None:
        while self.asked or self.resyncs or self.to_compare:
            if self.asked:
                self.answer(fails=False)
            if self.to_compare:
                self.compare()
            if self.resyncs:
                self.fetched()

    def teardown(self) -> None:
        """End the faults: everything is answered, the clock is right, and the repo goes on."""
        if not self.count:
            return
        self.shift = 0
        self.account.active, self.account.status = True, None
        self.send(self.account.account_frame(1), OWN)
        for _ in range(20):
            self.elapsed += MAX_IDENTITY_RETRY
            self.carry_out(self.engine.tick(self.now))
            self.settle()
        state = self.engine.state(self.did)
        assert state is not None and not state.undecided, "nothing is doubted for ever"
        assert state.rev == self.account.rev, "what was lost is made good before the next commit shows it"
        self.send(self.draft().frame(1), OWN)
        self.settle()
        state = self.engine.state(self.did)
        assert state is not None
        assert (state.active, state.sync, state.rev) == (True, "synchronized", self.account.rev)
        assert self.shown


TestHosts = Hosts.TestCase
TestHosts.settings = settings(max_examples=EXAMPLES or 60, stateful_step_count=40, deadline=None)
