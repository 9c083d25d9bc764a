"""Errors of search.

AppviewError
└── SearchError         a question that cannot be answered
    ├── NothingAsked    neither text nor vector
    ├── NoSuchMemory    nothing to be similar to: not there, or not for the one who asks
    └── ModelChanged    the vector is of another model than the one the space has now

A vector that is not usable is `lexicons.errors.UnusableVector`.
"""

from __future__ import annotations

from appview.errors import AppviewError


class SearchError(AppviewError):
    """A question that cannot be answered."""


class NothingAsked(SearchError):
    """A question with neither text nor vector."""

    def __init__(self) -> None:
        super().__init__("the question has neither text nor a vector")


class NoSuchMemory(SearchError):
    """A question for what is similar to a memory that is not there, or hidden, or without a usable vector."""

    def __init__(self) -> None:
        super().__init__("there is no such memory to find similar ones to")


class ModelChanged(SearchError):
    """The space changed its model while the question was on its way; asking again helps."""

    hint = "read the space's model again and embed the question with it"

    def __init__(self) -> None:
        super().__init__("the vector was made with another model than the space has now")
