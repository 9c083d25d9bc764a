"""Tokens that this appview gives to callers without an account.

A token is `engram_<id>_<secret>`: the id finds its row, the secret proves it. Only a SHA-256 of the whole is
kept, which is enough because the secret is 256 random bits, not a word that somebody chose.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from appview.control_tokens import TokenRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from appview.access.subjects import Token

PREFIX: Final = "engram_"  # lets a secret scanner find one that was committed somewhere
ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
_FORM: Final = re.compile(r"engram_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)
_NOBODYS: Final = bytes(32)  # compared with where there is no such token, so that both take the same time


def make_token(
    token: Token, now: int, lifetime: int | None, random: Callable[[int], bytes]
) -> tuple[str, TokenRow]:
    """Make the text of a token, to be shown once, and its row; `now` and `lifetime` in microseconds.

    `random` gives that many bytes that nobody can guess, such as `secrets.token_bytes`.
    """
    token_id = random(ID_BYTES).hex()
    secret = urlsafe_b64encode(random(SECRET_BYTES)).rstrip(b"=").decode()
    text = f"{PREFIX}{token_id}_{secret}"
    expires_at = None if lifetime is None else now + lifetime
    return text, TokenRow(token.name, token_id, hash_token(text), now, expires_at)


def token_id(text: str) -> str | None:
    """Read the id of what may be a token; None for what cannot be one."""
    match = _FORM.fullmatch(text)
    return None if match is None else match[1]


def hash_token(text: str) -> bytes:
    """Digest a token as it is kept."""
    return hashlib.sha256(text.encode()).digest()


def is_proof(text: str, row: TokenRow | None) -> bool:
    """Tell whether this is the token of the row, in a time that says nothing about either."""
    same = hmac.compare_digest(hash_token(text), _NOBODYS if row is None else row.hash)
    return same and row is not None
