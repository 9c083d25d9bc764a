"""The verification engine, one behaviour a test. The shell is played by hand: commands are looked at only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from appview.identity.documents import Identity, read_document
from appview.identity.errors import InvalidDocument
from appview.identity.keys import PublicKey
from appview.identity.resolver import Dated
from appview.ingest.commands import (
    AccountStatus,
    Apply,
    Command,
    Compare,
    ConfirmStatus,
    Drop,
    FetchIdentity,
    IdentityChanged,
    Purge,
    RepoState,
    Resync,
    Untracked,
)
from appview.ingest.engine import MAX_IDENTITY_AGE, Engine
from appview.ingest.frames import parse_frame
from appview.ingest.pace import MINUTE, SECOND
from appview.ingest.refreshes import IDENTITY_RETRY, MAX_IDENTITY_RETRY, REFRESH_INTERVAL
from appview.ingest.waiting import MAX_WAITING_BYTES, MAX_WAITING_EVENTS
from lexicons.syntax import Did
from tests.network.synthetic import CORRUPTIONS, K256, Account, Draft, error_frame, info_frame

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY = "garden.engram.memory"
POST = "app.bsky.feed.post"
T = TypeVar("T")


class Desk:
    """An engine, one account whose repo it knows, and a clock that moves only when told."""

    def __init__(self, records: int = 3, full: Callable[[Did], bool] = lambda _did: False) -> None:
        self.engine = Engine(full=full)
        self.now = time.time_ns() // 1000
        self.account = Account("alice.test", pds="https://pds.example.com")
        self.did = Did(self.account.did)
        self.count = 0
        for _ in range(records):
            self.draft()
        state = RepoState(self.account.rev, self.account.data, "synchronized")
        assert self.engine.track(self.did, state) == []
        self.resolve()

    def identity(self) -> Identity:
        return read_document(self.did, self.account.document())

    def resolve(self, asked_at: int | None = None) -> list[Command]:
        """Answer as of now, or as of when the document was asked for."""
        dated = Dated(self.identity(), self.now if asked_at is None else asked_at)
        return self.engine.identity_resolved(self.did, dated, self.now)

    def draft(self, collection: str = MEMORY) -> Draft:
        self.count += 1
        return self.account.create(collection, f"r{self.count}", {"text": f"memory {self.count}"})

    def receive(self, frame: bytes | Draft, host: str | None = None) -> list[Command]:
        event = parse_frame(frame.frame(1) if isinstance(frame, Draft) else frame)
        assert event is not None
        return self.engine.receive(event, self.now, host)

    def corrupt(self, name: str, host: str | None = None) -> list[Command]:
        draft = self.draft()
        CORRUPTIONS[name](draft)
        return self.receive(draft, host)

    def resynced(self, resync: Command) -> list[Command]:
        assert isinstance(resync, Resync)
        assert self.account.rev is not None
        assert self.account.data is not None
        return self.engine.resynced(self.did, self.account.rev, self.account.data, self.now, resync.attempt)

    @property
    def sync(self) -> str:
        state = self.engine.state(self.did)
        assert state is not None
        return state.sync


def applied(commands: list[Command]) -> list[str]:
    """The record keys of what is applied; anything else fails."""
    assert all(isinstance(command, Apply) for command in commands), commands
    return [op.rkey for command in commands if isinstance(command, Apply) for op in command.commit.ops]


def only(commands: list[Command], kind: type[T]) -> T:
    assert len(commands) == 1, commands
    assert isinstance(commands[0], kind), commands
    return commands[0]


def reasons(commands: list[Command]) -> list[Any]:
    return [(type(each).__name__, getattr(each, "reason", None)) for each in commands]


def test_commits_that_follow_each_other_are_applied() -> None:
    desk = Desk()
    for number in range(4, 8):
        assert applied(desk.receive(desk.draft())) == [f"r{number}"]
    state = desk.engine.state(desk.did)
    assert state is not None
    assert (state.rev, state.data) == (desk.account.rev, desk.account.data)


def test_commits_to_other_collections_are_part_of_the_chain() -> None:
    desk = Desk()
    applied(desk.receive(desk.draft(POST)))
    assert applied(desk.receive(desk.draft())) == ["r5"]


def test_a_replay_changes_nothing() -> None:
    desk = Desk()
    frame = desk.draft().frame(1)
    desk.receive(frame)
    assert only(desk.receive(frame), Drop).reason == "old-rev"


def test_an_untracked_account_is_shown_only_with_records_of_ours() -> None:
    desk = Desk()
    stranger = Account()
    assert desk.receive(stranger.create(POST, "one", {"text": "garden.engram is fine"})) == []
    command = only(desk.receive(stranger.create(MEMORY, "one", {"text": "x"})), Untracked)
    assert command.did == stranger.did
    assert command.commit.ops[0].path == f"{MEMORY}/one"
    assert only(desk.receive(stranger.identity_frame(1)), IdentityChanged).did == stranger.did
    assert desk.receive(stranger.account_frame(1)) == []
    assert desk.receive(stranger.sync_frame(1)) == []


def test_words_of_the_host_ask_for_nothing() -> None:
    desk = Desk()
    assert desk.receive(info_frame("OutdatedCursor")) == []
    assert desk.receive(error_frame("ConsumerTooSlow")) == []


def test_a_new_repo_is_fetched_whole_and_what_comes_meanwhile_follows() -> None:
    desk = Desk()
    desk.engine.untrack(desk.did)
    resync = only(desk.engine.track(desk.did), Resync)
    assert resync.reason == "new"
    assert desk.did.encode() in desk.engine.tracked
    assert desk.receive(desk.draft()) == []
    rev, data = desk.account.rev, desk.account.data
    assert desk.receive(desk.draft()) == []
    assert desk.receive(desk.draft()) == []
    assert rev is not None
    assert data is not None
    assert desk.sync == "desynchronized"
    desk.resolve()
    commands = desk.engine.resynced(desk.did, rev, data, desk.now, resync.attempt)
    assert reasons(commands[:1]) == [("Drop", "old-rev")]
    assert applied(commands[1:]) == ["r5", "r6"]
    assert desk.sync == "synchronized"
    assert desk.engine.waiting == (0, 0)


def test_a_lost_commit_shows_with_the_next_one() -> None:
    desk = Desk()
    desk.draft()
    resync = only(desk.receive(desk.draft()), Resync)
    assert resync.reason == "prev-data-mismatch"
    assert desk.receive(desk.draft()) == []
    assert reasons(desk.resynced(resync)) == [("Drop", "old-rev"), ("Drop", "old-rev")]
    assert applied(desk.receive(desk.draft())) == ["r7"]


def test_a_repo_without_a_known_key_waits_and_its_neighbour_does_not() -> None:
    desk = Desk()
    bob = Account("bob.test", pds="https://pds.example.com")
    bob.create(MEMORY, "one", {"text": "x"})
    desk.engine.track(Did(bob.did), RepoState(bob.rev, bob.data, "synchronized"))
    fetch = only(desk.receive(bob.create(MEMORY, "two", {"text": "y"})), FetchIdentity)
    assert (fetch.did, fetch.force) == (bob.did, False)
    assert desk.receive(bob.create(MEMORY, "three", {"text": "z"})) == []
    assert applied(desk.receive(desk.draft())) == ["r4"]
    identity = Dated(read_document(Did(bob.did), bob.document()), desk.now)
    assert applied(desk.engine.identity_resolved(Did(bob.did), identity, desk.now)) == ["two", "three"]


def test_a_rotated_key_is_found_with_one_refresh() -> None:
    desk = Desk()
    desk.account.key = K256()
    fetch = only(desk.receive(desk.draft()), FetchIdentity)
    assert fetch.force
    assert applied(desk.resolve()) == ["r4"]


def test_a_forged_commit_is_refused_after_one_refresh_and_moves_nothing() -> None:
    desk = Desk()
    before = desk.engine.state(desk.did)
    assert only(desk.corrupt("wrong-key"), FetchIdentity).force
    assert only(desk.resolve(), Drop).reason == "bad-signature"
    assert desk.engine.state(desk.did) == before


def test_forgeries_cause_one_refresh_a_minute() -> None:
    desk = Desk()
    fetched = 0
    for second in range(180):
        draft = desk.account.draft()
        CORRUPTIONS["wrong-key"](draft)
        commands = [*desk.receive(draft), *desk.engine.tick(desk.now)]
        if any(isinstance(command, FetchIdentity) for command in commands):
            fetched += 1
            desk.resolve()
        assert fetched <= second // 60 + 1
        desk.now += SECOND
    assert fetched == 3


def test_a_document_that_was_asked_for_before_an_event_does_not_refuse_it_for_certain() -> None:
    desk = Desk()
    asked_at = desk.now  # by somebody else, whose answer is given to all for a minute
    desk.now += SECOND
    old = Dated(desk.identity(), asked_at)
    desk.account.key = K256()
    assert only(desk.receive(desk.draft()), FetchIdentity).force
    assert only(desk.engine.identity_resolved(desk.did, old, desk.now), Drop).reason == "bad-signature"
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided
    assert desk.engine.tick(desk.now + REFRESH_INTERVAL - 1) == []
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    resync = only(desk.resolve(), Resync)
    assert resync.reason == "moved"
    assert desk.resynced(resync) == []
    state = desk.engine.state(desk.did)
    assert state is not None and not state.undecided


def test_a_document_that_was_asked_for_after_an_event_refuses_it_for_certain() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1), "https://other.example.com")  # looked at, in a long line
    desk.now += SECOND
    assert desk.corrupt("wrong-key") == []
    desk.now += SECOND
    assert only(desk.resolve(), Drop).reason == "bad-signature"
    state = desk.engine.state(desk.did)
    assert state is not None and not state.undecided


def test_a_new_document_does_not_let_an_older_suspicion_rest() -> None:
    """The key may have changed twice, and the answer be of between."""
    desk = Desk()
    desk.account.key = K256()
    between = Dated(desk.identity(), desk.now)
    desk.now += SECOND
    desk.account.key = K256()
    assert only(desk.receive(desk.draft()), FetchIdentity).force
    commands = desk.engine.identity_resolved(desk.did, between, desk.now)
    assert reasons(commands) == [("Drop", "bad-signature"), ("Resync", "moved")]
    desk.resynced(commands[1])
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    assert only(desk.resolve(), Resync).reason == "moved"


def test_a_document_of_before_an_identity_message_is_looked_at_again() -> None:
    desk = Desk()
    asked_at = desk.now
    desk.now += SECOND
    desk.receive(desk.account.identity_frame(1))
    assert desk.resolve(asked_at) == []
    assert applied(desk.receive(desk.draft())) == ["r4"]  # nothing waits for the second look
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided  # perhaps by a key that was stolen
    desk.account.key = K256()
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    assert only(desk.resolve(), Resync).reason == "moved"


def test_what_waited_while_the_key_changed_may_be_signed_by_either() -> None:
    desk = Desk()
    desk.now += REFRESH_INTERVAL
    desk.receive(desk.account.identity_frame(1))
    before = desk.draft()
    assert desk.receive(before) == []  # it waits for the document, and is signed by the key of before
    desk.account.key = K256()
    desk.now += SECOND
    commands = desk.resolve()
    assert reasons(commands) == [("Drop", "bad-signature"), ("Resync", "moved")]
    desk.resynced(commands[1])
    assert desk.sync == "synchronized"
    desk.now += SECOND
    assert len(applied(desk.receive(desk.draft()))) == 1


def test_what_was_laid_aside_while_the_key_changed_twice_may_be_signed_by_either() -> None:
    desk = Desk()
    desk.now += REFRESH_INTERVAL
    desk.account.key = K256()
    only(desk.receive(desk.draft()), FetchIdentity)  # signed by a key that nobody was told of
    desk.account.key = K256()
    desk.now += SECOND
    assert reasons(desk.resolve()) == [("Drop", "bad-signature"), ("Resync", "moved")]


def test_what_was_refused_between_refreshes_is_made_good_when_the_key_turns_out_to_be_new() -> None:
    desk = Desk()
    desk.corrupt("wrong-key")
    desk.resolve()
    desk.account.key = K256()
    desk.now += 10 * SECOND
    assert only(desk.receive(desk.draft()), Drop).reason == "bad-signature"
    assert desk.engine.tick(desk.now) == []
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    assert only(desk.resolve(), Resync).reason == "moved"


def test_after_an_identity_message_commits_wait_for_the_new_document() -> None:
    desk = Desk()
    changed, fetch = desk.receive(desk.account.identity_frame(1))
    assert isinstance(changed, IdentityChanged)
    assert isinstance(fetch, FetchIdentity)
    stolen = desk.draft()  # signed by the old key
    assert desk.receive(stolen) == []
    desk.account.key = K256()
    # What the repo holds decides, proven by the new key.
    assert reasons(desk.resolve()) == [("Drop", "bad-signature"), ("Resync", "moved")]


def test_an_identity_that_changes_while_it_is_fetched_for_the_first_time_is_fetched_again_at_once() -> None:
    desk = Desk()
    state = desk.engine.state(desk.did)
    desk.engine.untrack(desk.did)
    desk.engine.track(desk.did, state)
    assert not only(desk.receive(desk.draft()), FetchIdentity).force
    assert reasons(desk.receive(desk.account.identity_frame(1))) == [("IdentityChanged", None)]
    assert only(desk.resolve(desk.now - 1), FetchIdentity).force
    assert applied(desk.resolve()) == ["r4"]


def test_an_identity_that_changes_again_within_the_minute_is_fetched_when_that_is_over() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1))
    for number in range(2, 100):
        assert reasons(desk.receive(desk.account.identity_frame(number))) == [("IdentityChanged", None)]
    assert desk.resolve() == []
    assert applied(desk.receive(desk.draft())) == ["r4"]  # nothing waits for the second look
    assert desk.engine.tick(desk.now + REFRESH_INTERVAL - 1) == []
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    assert desk.engine.tick(desk.now) == []
    assert applied(desk.receive(desk.draft())) == ["r5"]
    assert desk.resolve() == []
    assert desk.engine.tick(desk.now + 10 * REFRESH_INTERVAL) == []


def test_what_was_applied_before_a_look_that_was_owed_is_made_good_where_the_key_has_changed() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1))
    desk.resolve()
    desk.receive(desk.account.identity_frame(2))
    assert applied(desk.receive(desk.draft())) == ["r4"]  # perhaps by a key that was stolen
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided
    desk.account.key = K256()
    desk.now += REFRESH_INTERVAL
    desk.engine.tick(desk.now)
    assert only(desk.resolve(), Resync).reason == "moved"


def test_an_identity_that_cannot_be_had_is_asked_for_again_ever_more_rarely() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1))
    assert desk.receive(desk.draft()) == []
    waits = []
    for _ in range(12):
        assert desk.engine.identity_resolved(desk.did, InvalidDocument("no key"), desk.now) == []
        start = desk.now
        while not (commands := desk.engine.tick(desk.now)):
            desk.now += SECOND
        assert only(commands, FetchIdentity).force
        waits.append(desk.now - start)
    assert waits[:3] == [IDENTITY_RETRY, 2 * IDENTITY_RETRY, 4 * IDENTITY_RETRY]
    assert waits[-1] == MAX_IDENTITY_RETRY
    assert applied(desk.resolve()) == ["r4"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("high-s", "high-s"),
        ("bad-record-hash", "bad-block-hash"),
        ("missing-record", "missing-block"),
        ("op-for-other-path", "op-mismatch"),
        ("hidden-op", "op-mismatch"),
        ("no-prev-data", "no-prev"),
        ("too-big", "too-big"),
        ("rebase", "rebase"),
        ("truncated-car", "malformed-car"),
        ("rev", "rev-mismatch"),
    ],
)
def test_a_broken_commit_is_refused_and_the_host_asked_how_far_it_is(name: str, reason: str) -> None:
    desk = Desk()
    name = "other-rev" if name == "rev" else name
    assert reasons(desk.corrupt(name)) == [("Drop", reason), ("Compare", None)]
    state = desk.engine.state(desk.did)
    assert state is not None
    assert (state.sync, state.undecided) == ("synchronized", True)
    desk = Desk()
    commands = desk.corrupt(name, desk.account.pds)
    assert reasons(commands) == [("Drop", reason), ("Resync", reason)]
    assert desk.resynced(commands[1]) == []
    assert applied(desk.receive(desk.draft())) == ["r5"]


@pytest.mark.parametrize("host", [None, "https://pds.example.com"])
def test_broken_commits_have_the_host_asked_once_a_minute_and_move_nothing(host: str | None) -> None:
    desk = Desk()
    asked = 0
    for _ in range(180):
        forged = Account(did=desk.account.did).create(MEMORY, "forged", {"text": "forged"})
        CORRUPTIONS["truncated-car"](forged)
        commands = desk.receive(forged, host)
        for command in [*commands, *desk.engine.tick(desk.now)]:
            match command:
                case Resync():
                    asked += 1
                    assert desk.resynced(command) == []
                case Compare():
                    asked += 1
                    desk.engine.trust(desk.did, desk.engine.doubted(desk.did))
                case _:
                    assert isinstance(command, Drop)
        assert len(applied(desk.receive(desk.draft(), host))) == 1
        desk.now += SECOND
    assert asked == 3


def test_a_loss_that_is_doubted_while_the_host_is_asked_is_not_settled_by_the_answer() -> None:
    desk = Desk()
    desk.corrupt("too-big")
    doubt = desk.engine.doubted(desk.did)
    desk.now += SECOND
    assert reasons(desk.corrupt("too-big")) == [("Drop", "too-big")]
    desk.engine.trust(desk.did, doubt)
    assert desk.engine.tick(desk.now) == []
    desk.now += MINUTE
    assert only(desk.engine.tick(desk.now), Compare).did == desk.did
    desk.engine.trust(desk.did, desk.engine.doubted(desk.did))
    state = desk.engine.state(desk.did)
    assert state is not None and not state.undecided


@pytest.mark.parametrize(("name", "reason"), [("other-did", "did-mismatch"), ("future-rev", "future-rev")])
def test_a_message_that_says_nothing_of_the_repo_is_only_refused(name: str, reason: str) -> None:
    desk = Desk()
    assert reasons(desk.corrupt(name)) == [("Drop", reason)]
    assert desk.sync == "synchronized"


def test_a_rev_of_the_future_does_not_freeze_the_repo() -> None:
    desk = Desk()
    desk.corrupt("future-rev")
    resync = only(desk.receive(desk.draft()), Resync)
    desk.resynced(resync)
    assert applied(desk.receive(desk.draft())) == ["r6"]


def test_a_commit_in_the_name_of_another_account_does_it_no_harm() -> None:
    desk = Desk()
    mallory = Account()
    mallory.create(MEMORY, "one", {"text": "x"})
    draft = mallory.create(MEMORY, "two", {"text": "y"})
    draft.body["repo"] = desk.account.did
    assert reasons(desk.receive(draft)) == [("Drop", "did-mismatch")]
    assert applied(desk.receive(desk.draft())) == ["r4"]


def test_a_sync_message_moves_the_rev_or_asks_for_the_repo() -> None:
    desk = Desk()
    data = desk.account.data
    desk.account.draft()
    command = only(desk.receive(desk.account.sync_frame(1)), Apply)
    assert (command.commit.ops, command.commit.data, command.commit.rev) == ((), data, desk.account.rev)
    desk.draft()
    assert only(desk.receive(desk.account.sync_frame(2)), Resync).reason == "sync"


def test_a_message_that_cannot_be_read_counts_as_lost() -> None:
    desk = Desk()
    assert desk.engine.malformed(None, "?", desk.now) == []
    assert desk.engine.malformed(Did(Account().did), "?", desk.now) == []
    drop, resync = desk.engine.malformed(desk.did, "201 operations", desk.now, desk.account.pds)
    assert reasons([drop, resync]) == [("Drop", "malformed-frame"), ("Resync", "malformed-frame")]
    again = desk.engine.malformed(desk.did, "again", desk.now, desk.account.pds)
    assert reasons(again) == [("Drop", "malformed-frame")]
    assert desk.resynced(resync) == []
    state = desk.engine.state(desk.did)
    assert state is not None and state.undecided  # the second loss came after the repo was fetched, perhaps
    desk.now += MINUTE
    assert only(desk.engine.tick(desk.now), Compare).did == desk.did


def test_a_hidden_account_is_hidden_at_once_and_fetched_when_it_is_back() -> None:
    desk = Desk()
    desk.account.active, desk.account.status = False, "takendown"
    command = only(desk.receive(desk.account.account_frame(1)), AccountStatus)
    assert (command.active, command.status) == (False, "takendown")
    assert desk.receive(desk.account.account_frame(2)) == []
    assert only(desk.receive(desk.draft()), Drop).reason == "account-inactive"
    desk.account.active, desk.account.status = True, None
    status, resync = desk.receive(desk.account.account_frame(3))
    assert isinstance(status, AccountStatus)
    assert status.active
    assert desk.resynced(resync) == []
    assert applied(desk.receive(desk.draft())) == ["r5"]


def test_a_repo_fetched_before_its_account_was_deleted_is_not_wanted_any_more() -> None:
    desk = Desk()
    desk.engine.untrack(desk.did)
    old = only(desk.engine.track(desk.did), Resync)
    assert desk.engine.is_current(desk.did, old.attempt)
    desk.account.active, desk.account.status = False, "deleted"
    desk.receive(desk.account.account_frame(1))
    desk.engine.account_confirmed(desk.did, desk.now, active=False, status="deleted")
    assert not desk.engine.is_current(desk.did, old.attempt)
    assert desk.engine.state(desk.did) == RepoState(None, None, "unknown", False, "deleted")
    desk.account.active, desk.account.status = True, None
    new = desk.receive(desk.account.account_frame(2))[1]
    assert isinstance(new, Resync)
    assert not desk.engine.is_current(desk.did, old.attempt)
    assert desk.resynced(old) == []
    assert desk.sync == "desynchronized"
    desk.resynced(new)
    assert desk.sync == "synchronized"


def test_a_repo_tracked_from_a_stored_state_goes_on_where_it_was() -> None:
    desk = Desk()
    state = desk.engine.state(desk.did)
    engine = Engine()
    assert engine.track(desk.did, state) == []
    assert only(Engine().track(desk.did, RepoState("3", b"", "desynchronized")), Resync).reason == "asked"
    assert Engine().track(desk.did, RepoState("3", b"", "desynchronized", False, "takendown")) == []
    assert engine.track(desk.did, RepoState()) == []  # already tracked


def test_a_shell_that_failed_to_apply_can_take_its_trust_back() -> None:
    desk = Desk()
    assert only(desk.engine.desynchronize(desk.did), Resync).reason == "asked"
    assert desk.engine.desynchronize(Did(Account().did)) == []


def test_late_events_of_an_old_host_are_refused_after_a_look_at_the_document() -> None:
    desk = Desk()
    old, new = "https://pds.example.com", "https://new.example.com"
    assert applied(desk.receive(desk.draft(), old)) == ["r4"]
    desk.account.pds = new
    assert only(desk.receive(desk.draft(), new), FetchIdentity).force
    assert applied(desk.resolve()) == ["r5"]
    late = desk.draft().frame(1)
    assert only(desk.receive(late, old), Drop).reason == "wrong-host"
    assert applied(desk.receive(late, new)) == ["r6"]
    assert applied(desk.receive(desk.draft())) == ["r7"]  # from a relay


def test_an_account_is_ended_by_its_own_host_alone() -> None:
    desk = Desk()
    desk.account.active, desk.account.status = False, "deleted"
    status, confirm = desk.receive(desk.account.account_frame(1))  # from a relay
    assert isinstance(status, AccountStatus) and not status.active
    assert isinstance(confirm, ConfirmStatus)
    state = desk.engine.state(desk.did)
    assert state is not None and state.rev == desk.account.rev
    _, purge = desk.engine.account_confirmed(desk.did, desk.now, active=False, status="deleted")
    assert isinstance(purge, Purge)
    assert desk.engine.account_confirmed(desk.did, desk.now, active=False, status="deleted") == []
    gone = RepoState(None, None, "unknown", False, "deleted", pds=desk.account.pds)
    assert desk.engine.state(desk.did) == gone


def test_an_account_that_was_not_deleted_after_all_is_back() -> None:
    desk = Desk()
    desk.account.active, desk.account.status = False, "deleted"
    desk.receive(desk.account.account_frame(1))
    status, resync = desk.engine.account_confirmed(desk.did, desk.now, active=True, status=None)
    assert isinstance(status, AccountStatus) and status.active
    assert desk.resynced(resync) == []
    assert desk.sync == "synchronized"


def test_its_own_host_needs_no_confirmation() -> None:
    desk = Desk()
    desk.account.active, desk.account.status = False, "deleted"
    _, purge = desk.receive(desk.account.account_frame(1), desk.account.pds)
    assert isinstance(purge, Purge)


def test_another_host_says_nothing_of_an_account() -> None:
    desk = Desk()
    desk.account.active, desk.account.status = False, "takendown"
    frame = desk.account.account_frame(1)
    assert only(desk.receive(frame, "https://other.example.com"), FetchIdentity).force
    assert only(desk.resolve(), Drop).reason == "wrong-host"
    for _ in range(100):  # within the minute it is neither believed nor looked into
        assert desk.receive(frame, "https://other.example.com") == []
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    assert only(desk.resolve(), Drop).reason == "wrong-host"
    state = desk.engine.state(desk.did)
    assert state is not None and state.active


def test_the_host_that_an_account_moved_to_speaks_for_it() -> None:
    desk = Desk()
    desk.account.active, desk.account.status, desk.account.pds = (
        False,
        "deactivated",
        "https://new.example.com",
    )
    desk.receive(desk.account.account_frame(1), "https://new.example.com")
    assert only(desk.resolve(), AccountStatus).status == "deactivated"


def test_an_account_that_its_new_host_hides_is_not_fetched_before_it_is_back() -> None:
    desk = Desk()
    old, new = "https://pds.example.com", "https://new.example.com"
    desk.receive(desk.account.account_frame(1), "https://other.example.com")
    desk.resolve()
    assert only(desk.receive(desk.draft(), new), Drop).reason == "wrong-host"  # looked at within the minute
    desk.account.active, desk.account.status, desk.account.pds = False, "deactivated", new
    desk.receive(desk.account.identity_frame(2), old)
    desk.receive(desk.account.account_frame(3), new)
    assert only(desk.resolve(), AccountStatus).status == "deactivated"
    desk.account.active, desk.account.status = True, None
    _, resync = desk.receive(desk.account.account_frame(4), new)
    assert desk.resynced(resync) == []
    assert desk.sync == "synchronized"


def test_a_word_of_a_new_host_is_kept_until_a_document_of_after_it_is_there() -> None:
    desk = Desk()
    new = "https://new.example.com"
    old = Dated(desk.identity(), desk.now)
    desk.now += SECOND
    desk.account.active, desk.account.status, desk.account.pds = False, "deactivated", new
    assert only(desk.receive(desk.account.account_frame(1), new), FetchIdentity).force
    assert desk.engine.identity_resolved(desk.did, old, desk.now) == []
    desk.now += REFRESH_INTERVAL
    assert only(desk.engine.tick(desk.now), FetchIdentity).force
    assert only(desk.resolve(), AccountStatus).status == "deactivated"


def test_a_hidden_account_whose_own_host_sends_its_commits_is_asked_about_once_a_minute() -> None:
    desk = Desk()
    desk.account.active, desk.account.status = False, "deactivated"
    desk.receive(desk.account.account_frame(1))  # says a relay
    assert reasons(desk.receive(desk.draft())) == [("Drop", "account-inactive")]
    assert reasons(desk.receive(desk.draft(), "https://other.example.com")) == [("Drop", "account-inactive")]
    drop, question = desk.receive(desk.draft(), desk.account.pds)
    assert isinstance(drop, Drop) and question == ConfirmStatus(desk.did)
    for _ in range(50):
        assert reasons(desk.receive(desk.draft(), desk.account.pds)) == [("Drop", "account-inactive")]
        desk.now += SECOND
    assert desk.engine.tick(desk.now) == []
    desk.now += MINUTE
    assert desk.engine.tick(desk.now) == [ConfirmStatus(desk.did)]
    assert desk.engine.tick(desk.now) == []
    status, resync = desk.engine.account_confirmed(desk.did, desk.now, active=True, status=None)
    assert isinstance(status, AccountStatus) and status.active
    assert desk.resynced(resync) == []
    assert applied(desk.receive(desk.draft(), desk.account.pds)) == [f"r{desk.count}"]


def test_a_host_that_hid_an_account_before_it_moved_has_not_the_last_word() -> None:
    desk = Desk()
    desk.account.active, desk.account.status = False, "deactivated"
    desk.receive(desk.account.account_frame(1), desk.account.pds)
    desk.account.pds = "https://new.example.com"
    desk.receive(desk.account.identity_frame(2), desk.account.pds)
    assert ConfirmStatus(desk.did) in desk.resolve()


def test_a_document_is_not_believed_for_longer_than_a_day() -> None:
    desk = Desk()
    desk.now += MAX_IDENTITY_AGE - SECOND
    assert applied(desk.receive(desk.draft())) == ["r4"]
    desk.now += SECOND
    assert only(desk.receive(desk.draft()), FetchIdentity).force
    assert applied(desk.resolve()) == ["r5"]


def test_what_waits_is_bounded_and_what_overflows_is_made_good() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1))
    for _ in range(MAX_WAITING_EVENTS):
        assert desk.receive(desk.account.draft()) == []
    assert desk.engine.waiting[0] == MAX_WAITING_EVENTS
    desk.receive(desk.draft())
    assert desk.engine.waiting == (0, 0)
    resync = only(desk.resolve(), Resync)
    assert resync.reason == "overflow"
    assert desk.resynced(resync) == []
    assert desk.sync == "synchronized"


def test_what_overflows_while_the_repo_is_fetched_has_it_fetched_again() -> None:
    desk = Desk()
    first = only(desk.engine.desynchronize(desk.did), Resync)
    assert desk.account.rev is not None
    assert desk.account.data is not None
    rev, data = desk.account.rev, desk.account.data
    big = {"text": "x" * 900_000}
    received = 0
    while desk.engine.waiting[1] or not received:
        received += 1
        desk.receive(desk.account.create(MEMORY, f"big-{received}", big))
        assert desk.engine.waiting[1] <= MAX_WAITING_BYTES
    assert received == MAX_WAITING_BYTES // 900_000 + 1
    second = only(desk.engine.resynced(desk.did, rev, data, desk.now, first.attempt), Resync)
    assert second.reason == "overflow"
    assert desk.resynced(second) == []
    assert desk.sync == "synchronized"


def test_an_account_that_is_not_tracked_any_more_is_forgotten() -> None:
    desk = Desk()
    desk.receive(desk.account.identity_frame(1))
    desk.receive(desk.draft())
    desk.engine.untrack(desk.did)
    assert desk.engine.waiting == (0, 0)
    assert desk.engine.tracked == set()
    assert desk.engine.state(desk.did) is None
    assert desk.resolve() == []
    assert desk.engine.resynced(desk.did, "3", b"", desk.now, 1) == []
    assert desk.engine.tick(desk.now + 3_600 * SECOND) == []


def test_keys_are_compared_not_their_spelling() -> None:
    desk = Desk()
    desk.account.legacy_document = True
    assert desk.identity().key == PublicKey.from_did_key(desk.account.key.did_key)
    assert desk.resolve() == []
    assert applied(desk.receive(desk.draft())) == ["r4"]
