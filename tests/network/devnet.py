"""The real network on one machine: the official did:plc directory and official PDSes, on loopback.

`Devnet` runs `devnet.mjs` in a child process that ends with its parent, whatever happens to the parent. It
needs Node (`ENGRAM_NODE`, default `node`) and the packages of `package-lock.json`, installed beside this file
(`npm ci --prefix tests/network`) or in the folder that `ENGRAM_NETWORK_MODULES` names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import select
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE: Final = Path(__file__).resolve().parent
START_SECONDS: Final = 30.0  # 2-7 s are usual; a loaded machine takes longer
STOP_SECONDS: Final = 6.0  # the script gives itself 3
CALL_SECONDS: Final = 30.0


class DevnetError(RuntimeError):
    """The network could not be started, or refused a call; the message says what to do."""

    def __init__(self, message: str, *, status: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.name = name


@dataclass(frozen=True, slots=True)
class Pds:
    """One PDS: where it answers, and the password of its administrator."""

    url: str
    admin_password: str


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the network, with what is needed to act as it."""

    did: str
    handle: str
    password: str
    pds: str
    access_jwt: str


class Devnet:
    """A directory and PDSes. `with Devnet() as net:`, or `start()` and `stop()`."""

    def __init__(self, *, pds: int = 1, settings: Mapping[str, str | int | bool] | None = None) -> None:
        self._count = pds
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None
        self._answer: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def plc_url(self) -> str:
        """The directory."""
        return str(self._answer["plc"])

    @property
    def pdses(self) -> tuple[Pds, ...]:
        """Every PDS."""
        return tuple(Pds(each["url"], each["adminPassword"]) for each in self._answer["pds"])

    @property
    def pds_url(self) -> str:
        """The first PDS."""
        return self.pdses[0].url

    def start(self) -> None:
        """Boot everything and return when it answers; raise `DevnetError`."""
        command = [_node(), str(HERE / "devnet.mjs"), "--modules", str(_modules()), "--stdin"]
        command += ["--pds", str(self._count)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "LOG_ENABLED": "false", "NODE_NO_WARNINGS": "1"},
            start_new_session=True,  # an interrupt at the terminal must reach the network last
        )
        try:
            line = self._first_line(time.monotonic() + START_SECONDS)
            if not line.endswith(b"\n"):
                raise DevnetError(f"the test network did not start: {self._said()}")
            self._answer = json.loads(line)
        except BaseException:
            self.stop()
            raise

    def restart(self) -> None:
        """Stop every PDS and start it again where it was, with its data."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(b"restart\n")
        self._process.stdin.flush()
        line = self._first_line(time.monotonic() + START_SECONDS)
        if not line.endswith(b"\n"):
            raise DevnetError(f"the PDS did not start again: {self._said()}")

    def stop(self) -> None:
        """End the child process and delete its data. Does nothing when nothing runs."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def create_account(self, name: str | None = None, *, pds: int = 0) -> Account:
        """Create `<name>.test` (a name of its own when none is given) on one of the PDSes."""
        handle = f"{name or 'a' + secrets.token_hex(6)}.test"
        password = secrets.token_hex(8)
        url = self.pdses[pds].url
        body = {"handle": handle, "email": f"{handle}@example.com", "password": password}
        made = self.call("com.atproto.server.createAccount", body, pds=url)
        return Account(made["did"], handle, password, url, made["accessJwt"])

    async def acreate_account(self, name: str | None = None, *, pds: int = 0) -> Account:
        """Create an account without holding up the event loop."""
        return await asyncio.to_thread(self.create_account, name, pds=pds)

    def call(
        self,
        method: str,
        body: Mapping[str, Any] | None = None,
        *,
        pds: str | None = None,
        token: str | None = None,
        admin: bool = False,
    ) -> dict[str, Any]:
        """Call an XRPC method: a procedure where there is a body, else a query (parameters in `method`).

        `token` is an account's access JWT; `admin` signs in as the PDS's administrator. Raise `DevnetError`
        with the status and the error's name.
        """
        url = pds or self.pds_url
        request = urllib.request.Request(f"{url}/xrpc/{method}")  # noqa: S310 - loopback
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        if admin:
            password = next(each.admin_password for each in self.pdses if each.url == url)
            request.add_header("Authorization", "Basic " + b64encode(f"admin:{password}".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:  # noqa: S310
                content = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                problem = json.loads(error.read() or b"{}")
            raise DevnetError(
                f"{method}: {error.code} {problem.get('error')}: {problem.get('message')}",
                status=error.code,
                name=str(problem.get("error", "")),
            ) from None
        loaded: dict[str, Any] = json.loads(content) if content else {}
        return loaded

    def _first_line(self, deadline: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        stream, line = self._process.stdout, b""
        while not line.endswith(b"\n") and (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([stream], [], [], left)
            part = os.read(stream.fileno(), 65_536) if ready else b""
            if ready and not part:
                break
            line += part
        return line

    def _said(self) -> str:
        self._log.seek(0)
        said: str = self._log.read().decode(errors="replace").strip()
        return said[-2000:] or f"no answer within {START_SECONDS:.0f} s"


def _node() -> str:
    name = os.environ.get("ENGRAM_NODE", "node")
    found = shutil.which(name)
    if found is None:
        raise DevnetError(f"no Node under the name {name!r}: install Node 20 or set ENGRAM_NODE")
    return found


def _modules() -> Path:
    folder = Path(os.environ.get("ENGRAM_NETWORK_MODULES") or HERE)
    if not (folder / "node_modules" / "@atproto" / "pds" / "package.json").is_file():
        raise DevnetError(
            f"the official PDS is not installed in {folder}: run `npm ci --prefix tests/network`, "
            "or set ENGRAM_NETWORK_MODULES to a folder that has it"
        )
    return folder.resolve()
