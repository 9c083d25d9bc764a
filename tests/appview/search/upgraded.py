"""An analysis as a later program might ship it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appview.search.analysis import ANALYSIS, TextAnalysis

if TYPE_CHECKING:
    from appview.search.chunks import Words


class Upgraded(TextAnalysis):
    """What a later program might ship: every word of a text backwards, so that nothing of before is found.

    With `keeps_old` it still has the analysis of before.
    """

    def __init__(self, version: str = "102-english", *, keeps_old: bool = False) -> None:
        super().__init__()
        self._version = version
        self._keeps_old = keeps_old

    def of_version(self, version: str) -> TextAnalysis | None:
        if version == self.version:
            return self
        return ANALYSIS if self._keeps_old and version == ANALYSIS.version else None

    def read(self, text: str) -> list[Words]:
        return super().read(backwards(text))

    def telling(self, text: str) -> list[Words]:
        return super().telling(backwards(text))


def backwards(text: str) -> str:
    return " ".join(word[::-1] for word in text.split())
