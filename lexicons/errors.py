"""Errors of the contract.

ContractError (ValueError)
├── InvalidSyntax        a string is not a DID, NSID, AT URI, ... as the spec has it
├── InvalidData          bytes or JSON are not valid in the AT Protocol data model
├── InvalidSchema        a lexicon document is itself wrong
├── InvalidRecord        a value does not satisfy its lexicon
├── UnusableVector       an embedding from which no vector can be read
└── InvalidChange        a change of a space's model that makes no sense
"""

from __future__ import annotations


class ContractError(ValueError):
    """Base of everything that breaks the contract."""


class InvalidSyntax(ContractError):
    """A string does not have the form its type demands."""

    def __init__(self, kind: str, value: str, reason: str = "") -> None:
        shown = value if len(value) <= 80 else value[:77] + "..."
        super().__init__(f"not a valid {kind}: {shown!r}" + (f" ({reason})" if reason else ""))
        self.kind = kind
        self.value = value


class InvalidData(ContractError):
    """Bytes or JSON do not belong to the AT Protocol data model."""


class InvalidSchema(ContractError):
    """A lexicon document breaks the lexicon language."""


class InvalidRecord(ContractError):
    """A value does not satisfy its lexicon; `path` names the field: `embedding.dims`, `tags[3]`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason

    def under(self, parent: str) -> InvalidRecord:
        """Return the same error as seen from the value that holds this one: `dims` under `embedding`."""
        if not self.path:
            return InvalidRecord(parent, self.reason)
        return InvalidRecord(f"{parent}{'' if self.path[0] == '[' else '.'}{self.path}", self.reason)


class UnusableVector(ContractError):
    """An embedding holds no usable vector: wrong length, NaN, infinity, zero, unknown encoding."""


class InvalidChange(ContractError):
    """A change of a space's model that makes no sense, such as promoting without a next model."""
