"""The session: kept for its owner alone, refreshed, shared by processes, and over when the PDS says so."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from publisher.errors import BadSetting, NotSignedIn, Temporary
from publisher.publisher import Publisher
from publisher.sessions import SessionFile, StoredSession
from tests.publisher.fake_pds import DID, HANDLE, PASSWORD, FakePds, Fault

if TYPE_CHECKING:
    from pathlib import Path

    from publisher.settings import Settings
    from tests.publisher.conftest import Waits


async def sign_in(settings: Settings, waits: Waits) -> StoredSession:
    async with Publisher(settings=settings, sleep=waits) as publisher:
        return await publisher.sign_in(DID, PASSWORD)


async def test_a_session_is_kept_and_taken_up(settings: Settings, pds: FakePds, waits: Waits) -> None:
    session = await sign_in(settings, waits)
    assert (session.did, session.handle, session.pds) == (DID, HANDLE, pds.url)
    async with Publisher(settings=settings, sleep=waits) as publisher:
        assert await publisher.check_session() == session
        await publisher.remember("from another process")
    assert pds.count("createSession") == 1 and pds.texts() == ["from another process"]


async def test_only_the_owner_may_read_it(settings: Settings, waits: Waits) -> None:
    before = os.umask(0)
    try:
        session = await sign_in(settings, waits)
    finally:
        os.umask(before)
    assert settings.session.stat().st_mode & 0o777 == 0o600
    assert settings.session.parent.stat().st_mode & 0o777 == 0o700
    assert session.token not in repr(session)
    assert list(settings.session.parent.iterdir()) == [settings.session]


async def test_an_old_token_is_refreshed_and_the_new_one_kept(
    settings: Settings, pds: FakePds, waits: Waits
) -> None:
    pds.token_seconds = 60  # the SDK refreshes a quarter of an hour before the end
    session = await sign_in(settings, waits)
    pds.token_seconds = 7200
    async with Publisher(settings=settings, sleep=waits) as publisher:
        await publisher.remember("refreshed")
        assert (await publisher.account()).token != session.token
    assert pds.count("refreshSession") == 1
    assert SessionFile(settings.session).read().token != session.token


async def test_a_token_that_the_pds_no_longer_takes_is_refreshed(
    settings: Settings, pds: FakePds, waits: Waits
) -> None:
    session = await sign_in(settings, waits)
    access = session.token.split(":::")[2]
    pds.valid.discard(access)
    async with Publisher(settings=settings, sleep=waits) as publisher:
        await publisher.remember("refreshed")
    assert pds.count("refreshSession") == 1 and pds.texts() == ["refreshed"]


async def test_a_revoked_session_says_what_to_do(settings: Settings, pds: FakePds, waits: Waits) -> None:
    await sign_in(settings, waits)
    pds.valid = set()
    async with Publisher(settings=settings, sleep=waits) as publisher:
        with pytest.raises(NotSignedIn, match="ended or was revoked") as caught:
            await publisher.remember("never")
    assert caught.value.exit_code == 3 and "engram-publisher login" in caught.value.hint
    assert pds.texts() == [] and waits == [], "it is not worth waiting for"


async def test_two_processes_share_one_session(settings: Settings, pds: FakePds, waits: Waits) -> None:
    await sign_in(settings, waits)
    async with (
        Publisher(settings=settings, sleep=waits) as one,
        Publisher(settings=settings, sleep=waits) as two,
    ):
        await one.account(), await two.account()
        pds.valid.discard((await one.account()).token.split(":::")[2])
        await one.remember("first")  # refreshes; the tokens that `two` holds are no good any more
        await two.remember("second")
    assert pds.texts() == ["first", "second"] and pds.count("refreshSession") == 1


async def test_a_wrong_password_is_told_without_repeating_it(
    settings: Settings, pds: FakePds, waits: Waits
) -> None:
    async with Publisher(settings=settings, sleep=waits) as publisher:
        with pytest.raises(NotSignedIn, match="does not accept") as caught:
            await publisher.sign_in(DID, "hunter2")
    assert "hunter2" not in str(caught.value) and not settings.session.exists()
    assert pds.count("createSession") == 1


async def test_a_second_factor_points_to_app_passwords(
    settings: Settings, pds: FakePds, waits: Waits
) -> None:
    pds.faults["createSession"] = [Fault(status=401, error="AuthFactorTokenRequired")]
    async with Publisher(settings=settings, sleep=waits) as publisher:
        with pytest.raises(NotSignedIn) as caught:
            await publisher.sign_in(DID, PASSWORD)
    assert "app password" in caught.value.hint


async def test_a_pds_that_is_down_is_no_wrong_password(
    settings: Settings, pds: FakePds, waits: Waits
) -> None:
    pds.faults["createSession"] = [Fault(status=503)]
    async with Publisher(settings=settings, sleep=waits) as publisher:
        with pytest.raises(Temporary):
            await publisher.sign_in(DID, PASSWORD)


async def test_a_password_of_the_library_is_not_kept(settings: Settings, waits: Waits) -> None:
    async with Publisher(settings=settings, identifier=DID, password=PASSWORD, sleep=waits) as publisher:
        assert (await publisher.account()).did == DID
    assert not settings.session.exists()
    with pytest.raises(BadSetting):
        async with Publisher(settings=settings, identifier=DID, sleep=waits):
            pass


@pytest.mark.parametrize("reached", [True, False])
async def test_signing_out_forgets_the_session_in_any_case(
    settings: Settings, pds: FakePds, waits: Waits, reached: bool
) -> None:
    await sign_in(settings, waits)
    pds.faults["deleteSession"] = [] if reached else [Fault(status=503)]
    async with Publisher(settings=settings, sleep=waits) as publisher:
        session, ended = await publisher.sign_out()
    assert (session.did, ended) == (DID, reached)
    assert not settings.session.exists() and (not pds.valid) is reached
    async with Publisher(settings=settings, sleep=waits) as publisher:
        with pytest.raises(NotSignedIn, match="not signed in"):
            await publisher.account()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"did": "x", "handle": "h", "pds": "p", "token": "t"}', '{"did": 7}', "\xff"],
)
def test_a_damaged_session_is_no_session(tmp_path: Path, content: str) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(NotSignedIn, match=r"damaged|cannot be read"):
        SessionFile(path).read()


@pytest.mark.parametrize("token", ["", "a:::b", "a:::b:::c:::d", "a:::b:::c:::d:::e:::f"])
async def test_a_damaged_token_is_no_session(
    settings: Settings, waits: Waits, pds: FakePds, token: str
) -> None:
    stored = StoredSession(DID, HANDLE, pds.url, token)
    SessionFile(settings.session).write(stored)
    async with Publisher(settings=settings, sleep=waits) as publisher:
        with pytest.raises(NotSignedIn):
            await publisher.check_session()


def test_a_session_that_cannot_be_kept_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SessionFile(tmp_path / "session.json")
    old, new = (StoredSession(DID, HANDLE, "https://pds.example", token) for token in ("old", "new"))
    file.write(old)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(BadSetting, match="No space"):
            file.write(new)
    assert file.read() == old and list(tmp_path.iterdir()) == [file.path]
    (tmp_path / "file").touch()
    with pytest.raises(BadSetting, match="cannot be kept"):
        SessionFile(tmp_path / "file" / "session.json").write(new)


def test_deleting_tells_whether_there_was_one(tmp_path: Path) -> None:
    file = SessionFile(tmp_path / "session.json")
    assert file.delete() is False
    file.write(StoredSession(DID, HANDLE, "https://pds.example", "t"))
    assert json.loads(file.path.read_text())["handle"] == HANDLE
    assert file.delete() is True


async def test_many_writes_at_once_refresh_once(settings: Settings, pds: FakePds, waits: Waits) -> None:
    pds.token_seconds = 60
    await sign_in(settings, waits)
    pds.token_seconds = 7200
    async with Publisher(settings=settings, sleep=waits) as publisher:
        await publisher.account()
        await asyncio.gather(*(publisher.remember(f"number {index}") for index in range(5)))
    assert pds.count("refreshSession") == 1 and len(pds.texts()) == 5


async def test_many_calls_with_a_stale_token_refresh_it_once(
    settings: Settings, pds: FakePds, waits: Waits
) -> None:
    session = await sign_in(settings, waits)
    async with Publisher(settings=settings, sleep=waits) as publisher:
        await publisher.account()
        pds.valid.discard(session.token.split(":::")[2])
        await asyncio.gather(*(publisher.remember(f"number {index}") for index in range(5)))
    assert pds.count("refreshSession") == 1 and len(pds.texts()) == 5


@pytest.mark.parametrize("endpoint", ["http://192.0.2.1", "https://10.0.0.1"])
async def test_a_session_is_not_sent_to_just_any_place(
    settings: Settings, pds: FakePds, waits: Waits, endpoint: str
) -> None:
    pds.endpoint = endpoint
    async with Publisher(settings=replace(settings, pds=pds.url), sleep=waits) as publisher:
        with pytest.raises(BadSetting, match="not a public https URL"):
            await publisher.sign_in(DID, PASSWORD)
    assert not settings.session.exists()
