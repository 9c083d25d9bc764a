"""Errors of an evaluation.

AppviewError
└── EvaluationError     an evaluation that cannot be made
    └── BadJudgement    a line of a judged set that cannot be used
"""

from __future__ import annotations

from appview.errors import AppviewError


class EvaluationError(AppviewError):
    """An evaluation that cannot be made."""


class BadJudgement(EvaluationError):
    """A line of a judged set that cannot be used; `where` is its file and number."""

    hint = "docs/evaluation.md has the format"

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where} {reason}")
