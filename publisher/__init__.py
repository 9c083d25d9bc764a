"""The write side: embeds memories and publishes them to the account's own repo.

    from publisher import Publisher

    async with Publisher(space="garden.example.com") as publisher:
        done = await publisher.remember("Tomatoes want sun", tags=["/garden/tomatoes"])

Importing the package costs nothing: the library is loaded when one of its names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from publisher.drafts import Draft
    from publisher.errors import PublisherError
    from publisher.publisher import Page, Publisher
    from publisher.reembedding import Coverage, Reembedded
    from publisher.repo import Committed, Record
    from publisher.settings import Settings, load_settings
    from publisher.writing import Outcome

__all__ = [
    "Committed",
    "Coverage",
    "Draft",
    "Outcome",
    "Page",
    "Publisher",
    "PublisherError",
    "Record",
    "Reembedded",
    "Settings",
    "load_settings",
]

_HOMES = {
    "Committed": "publisher.repo",
    "Coverage": "publisher.reembedding",
    "Draft": "publisher.drafts",
    "Outcome": "publisher.writing",
    "Page": "publisher.publisher",
    "Publisher": "publisher.publisher",
    "PublisherError": "publisher.errors",
    "Record": "publisher.repo",
    "Reembedded": "publisher.reembedding",
    "Settings": "publisher.settings",
    "load_settings": "publisher.settings",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'publisher' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
