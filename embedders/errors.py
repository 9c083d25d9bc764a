"""Errors of the embedders.

EmbedderError
├── InvalidSpec          the text that names an embedder cannot be read
├── ModelUnavailable     the model cannot be found, loaded or identified
├── EmbedderBusy         the endpoint cannot be reached or asks to wait; a retry can help
└── BadAnswer            what came back is not one finite vector a text

None of them has a substitute: an embedder that fails never hands the work to another one.
"""

from __future__ import annotations

from typing import ClassVar


class EmbedderError(Exception):
    """Base of everything that keeps text from becoming a vector; `hint` says what to do."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidSpec(EmbedderError):
    """The text that names an embedder cannot be read."""


class ModelUnavailable(EmbedderError):
    """The model cannot be found, loaded or identified."""


class EmbedderBusy(EmbedderError):
    """The endpoint cannot be reached, fails or asks to wait."""

    retryable = True


class BadAnswer(EmbedderError):
    """What the model gave is not one finite vector of the expected width for each text."""
