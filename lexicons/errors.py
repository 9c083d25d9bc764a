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
    """Base of everything that breaks the contract.

    A message may quote what it refuses, but only after a colon; `summary` never does, and is for logs.
    """

    @property
    def summary(self) -> str:
        """What is wrong, without what its author wrote."""
        return str(self).partition(":")[0]


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
    """A value does not satisfy its lexicon; `path` names the field: `embedding.dims`, `tags[3]`. A `reason`
    that quotes the value comes with one that does not, `unquoted`."""

    def __init__(self, path: str, reason: str, *, unquoted: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason
        self.unquoted = unquoted or reason

    @property
    def summary(self) -> str:
        """The field and what is wrong with it, without what its author wrote."""
        return f"{self.path}: {self.unquoted}" if self.path else self.unquoted

    def under(self, parent: str) -> InvalidRecord:
        """Return the same error as seen from the value that holds this one: `dims` under `embedding`."""
        if not self.path:
            return InvalidRecord(parent, self.reason, unquoted=self.unquoted)
        path = f"{parent}{'' if self.path[0] == '[' else '.'}{self.path}"
        return InvalidRecord(path, self.reason, unquoted=self.unquoted)


class UnusableVector(ContractError):
    """An embedding holds no usable vector: wrong length, NaN, infinity, zero, unknown encoding."""


class InvalidChange(ContractError):
    """A change of a space's model that makes no sense, such as promoting without a next model."""
