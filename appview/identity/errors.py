"""Errors of identity.

IdentityError (AppviewError)
├── UnknownDid           a DID that its directory or host does not have, or has no more
├── InvalidKey           a public key that cannot be read
├── InvalidDocument      a DID document that does not describe an account
└── SignatureRefused     a signature that is not one; `reason` names why
"""

from __future__ import annotations

from typing import Literal

from appview.errors import AppviewError

SignatureFault = Literal[
    "bad-signature",  # not one by this key
    "high-s",  # one by this key, or not, in the form that the protocol refuses
]


class IdentityError(AppviewError):
    """An account's identity cannot be used."""


class UnknownDid(IdentityError):
    """A DID that its directory or host does not have, or has no more."""


class InvalidKey(IdentityError):
    """A public key that cannot be read."""


class InvalidDocument(IdentityError):
    """A DID document that does not describe an account."""


class SignatureRefused(IdentityError):
    """A signature that is not one."""

    def __init__(self, reason: SignatureFault, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: SignatureFault = reason
        self.detail = detail
