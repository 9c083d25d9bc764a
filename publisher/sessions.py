"""The session on disk: one file that only its owner may read, replaced whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lexicons.errors import InvalidSyntax
from lexicons.syntax import Did
from publisher.errors import BadSetting, NotSignedIn

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_FIELDS: Final = ("did", "handle", "pds", "token")


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Who is signed in, where, and the SDK's session string (a secret, never shown)."""

    did: str
    handle: str
    pds: str
    token: str

    def __repr__(self) -> str:
        return f"StoredSession(did={self.did!r}, handle={self.handle!r}, pds={self.pds!r})"


class SessionFile:
    """Where the session is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> StoredSession:
        """Read the session; raise `NotSignedIn` where there is none."""
        hint = "sign in with `engram-publisher login`"
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotSignedIn("not signed in", hint) from None
        except (OSError, UnicodeDecodeError) as error:
            raise NotSignedIn(f"the session in {self.path} cannot be read: {error}", hint) from None
        try:
            value = json.loads(text)
            fields = [value[name] for name in _FIELDS]
            Did(fields[0])
        except (ValueError, KeyError, TypeError, InvalidSyntax):
            raise NotSignedIn(f"the session in {self.path} is damaged", hint) from None
        if not all(isinstance(field, str) for field in fields):
            raise NotSignedIn(f"the session in {self.path} is damaged", hint)
        return StoredSession(*fields)

    def write(self, session: StoredSession) -> None:
        """Keep the session, for the owner's eyes only; raise `BadSetting` where that is impossible."""
        try:
            self._write(session)
        except OSError as error:
            raise BadSetting(f"the session cannot be kept in {self.path}: {error}") from None

    def _write(self, session: StoredSession) -> None:
        self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        # mkstemp makes the file with mode 0600, so the secret is never readable by others.
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".session-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(asdict(session), stream)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def delete(self) -> bool:
        """Forget the session; tell whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True
