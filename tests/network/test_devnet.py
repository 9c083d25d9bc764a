"""The test network itself: it answers, refuses clearly, and leaves nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.network.devnet import HERE, Devnet, DevnetError

pytestmark = pytest.mark.network


def test_an_account_can_write_and_the_directory_knows_it(devnet: Devnet) -> None:
    account = devnet.create_account()
    record = {"$type": "garden.engram.test", "number": 7}
    made = devnet.call(
        "com.atproto.repo.createRecord",
        {"repo": account.did, "collection": "garden.engram.test", "record": record},
        token=account.access_jwt,
    )
    assert made["uri"].startswith(f"at://{account.did}/garden.engram.test/")
    session = {"identifier": account.handle, "password": account.password}
    assert devnet.call("com.atproto.server.createSession", session)["did"] == account.did
    info = devnet.call(f"com.atproto.admin.getAccountInfo?did={account.did}", admin=True)
    assert info["handle"] == account.handle


def test_a_refused_call_names_the_error(devnet: Devnet) -> None:
    with pytest.raises(DevnetError) as caught:
        devnet.call("com.atproto.server.createSession", {"identifier": "nobody.test", "password": "x"})
    assert (caught.value.status, caught.value.name) == (401, "AuthenticationRequired")


def test_nothing_listens_beyond_loopback(devnet: Devnet) -> None:
    ports = {urlsplit(url).port for url in (devnet.plc_url, devnet.pds_url)}
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    open_everywhere = {int(row[1].split(":")[1], 16) for row in listening if row[1].startswith("00000000:")}
    assert not ports & open_everywhere


def test_two_pdses_and_a_setting() -> None:
    with Devnet(pds=2, settings={"inviteRequired": True}) as network:
        assert len({each.url for each in network.pdses}) == 2
        with pytest.raises(DevnetError, match="InvalidInviteCode"):
            network.create_account(pds=1)
        port = urlsplit(network.pds_url).port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port or 0), timeout=5).close()


def test_the_network_ends_with_its_parent() -> None:
    script = (
        "import os, signal\n"
        "from tests.network.devnet import Devnet\n"
        "net = Devnet(); net.start(); print(net.pds_url, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=HERE.parents[1], stdout=subprocess.PIPE, check=False
    )
    port = urlsplit(done.stdout.decode().strip()).port
    assert port
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        os.sched_yield()
    pytest.fail("the network outlived its parent by 15 s")


def test_missing_packages_say_how_to_install_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_NETWORK_MODULES", str(tmp_path))
    with pytest.raises(DevnetError, match="npm ci"):
        Devnet().start()


def test_a_setting_the_pds_refuses_is_reported() -> None:
    with pytest.raises(DevnetError, match=r"(?s)did not start.*blobstore"):
        Devnet(settings={"blobstoreDiskLocation": ""}).start()
