"""Errors of the access rules.

AppviewError
└── AccessError
    ├── InvalidRule      a rule is not one that can be followed; `rule` is its text, `reason` why
    └── InvalidPolicy    rules that are fine one by one do not go together
"""

from __future__ import annotations

from appview.errors import AppviewError


class AccessError(AppviewError):
    """Base of the access rules' errors."""


class InvalidRule(AccessError):
    """A rule is not one that can be followed."""

    exit_code = 2

    def __init__(self, rule: object, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = str(rule)
        self.reason = reason


class InvalidPolicy(AccessError):
    """Rules that are fine one by one do not go together."""
