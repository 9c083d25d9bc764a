"""Secrets that an installation makes once and keeps in its data folder, readable by its owner alone."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import base58
import coincurve

from appview.errors import StoreError
from appview.xrpc.cursors import SECRET_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CURSOR_KEY_FILE: Final = "cursor.key"
SERVICE_KEY_FILE: Final = "service.key"
PRIVATE_KEY_BYTES: Final = 32  # secp256k1
MULTICODEC_SECP256K1: Final = b"\xe7\x01"  # multicodec table, secp256k1-pub


@dataclass(frozen=True, slots=True)
class Keys:
    """The secret that seals cursors, and the public half of the key that names the service."""

    cursor_secret: bytes
    public_key_multibase: str

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the keys of a data folder, making what is missing; raise `StoreError`."""
        private = _load(folder / SERVICE_KEY_FILE, PRIVATE_KEY_BYTES, lambda: coincurve.PrivateKey().secret)
        public = coincurve.PrivateKey(private).public_key.format(compressed=True)
        return cls(
            _load(folder / CURSOR_KEY_FILE, SECRET_BYTES, lambda: secrets.token_bytes(SECRET_BYTES)),
            "z" + base58.b58encode(MULTICODEC_SECP256K1 + public).decode(),
        )


def _load(path: Path, size: int, make: Callable[[], bytes]) -> bytes:
    """Read a key of `size` bytes, or make, write and sync it first. The file appears whole or not at all."""
    try:
        if not path.exists():
            draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            try:
                descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(make())
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(FileExistsError):  # another process was first: its key counts
                    os.link(draft, path)
            finally:
                draft.unlink(missing_ok=True)
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot keep a key in {path.name}: {error.strerror}") from error
    if len(key) != size:
        raise StoreError(
            f"{path.name} holds {len(key)} bytes, expected {size}",
            hint="restore it from a backup, or delete it to have a new one made",
        )
    return key
