"""Text analysis, one implementation for indexing and asking.

A document becomes bags of terms a field (stems of words, identifiers whole and split) and one sequence of
exact words. The text of a hit is read the same way to say where it matched. Change anything here that
changes a term and `ANALYSIS_VERSION` must grow: files name the version that filled their index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.memory.analyser import AnalysedDocument
from appview.search.chunks import EXACT_MARK, PREFIX_MARK, ChunkReader, Words
from appview.search.function_words import FUNCTION_WORDS
from appview.search.words import Stems

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ANALYSIS_VERSION: Final = "1"
FIELD_BORDER: Final = EXACT_MARK  # stands between fields in the exact words: no phrase crosses it


class TextAnalysis:
    """An `appview.memory.analyser.Analyser`. `language` is that of words in Latin letters."""

    def __init__(self, language: str = "english") -> None:
        self._reader = ChunkReader(Stems(language))
        self._version = f"{ANALYSIS_VERSION}-{language}"
        self._function_words = FUNCTION_WORDS.get(language, frozenset())

    @property
    def version(self) -> str:
        """Name the analysis and its language."""
        return self._version

    def document(self, text: str, tags: Sequence[str], source: str | None) -> AnalysedDocument:
        """Analyse a fact. Any text is accepted."""
        body = self.read(text)
        labels = [self.read(tag) for tag in tags]
        origin = self.read(source) if source else []
        exact = [_exact(body)]
        exact.extend(_exact(label) for label in labels)
        if origin:
            exact.append(_exact(origin))
        return AnalysedDocument(
            text=" ".join([words.terms for words in body]),
            tags=" ".join([words.terms for label in labels for words in label]),
            source=" ".join([words.terms for words in origin]),
            exact=f" {FIELD_BORDER} ".join(exact),
        )

    def read(self, text: str) -> list[Words]:
        """Read the chunks of a text in order."""
        return self._reader.read_all(text)

    def telling(self, text: str) -> list[Words]:
        """Read the chunks of a question without its function words, unless it has no others.

        A word in capitals, or with one inside a sentence, is a name: `WHO`, `when did Will call`.
        """
        chunks = self._reader.chunks(text)
        plain = text.isupper()
        words = [self._reader.read(chunk) for chunk in chunks]
        told = [
            each
            for place, (chunk, each) in enumerate(zip(chunks, words, strict=True))
            if not (
                len(each.words) == 1
                and each.words[0] in self._function_words
                and (plain or chunk.islower() or (place == 0 and chunk[1:].islower()) or chunk == "I")
            )
        ]
        return told or words

    def spans(self, text: str, terms: Collection[str]) -> list[tuple[int, int]]:
        """Find where a text holds any of `terms` (exact words and beginnings carry their mark): character
        ranges, in order, those that touch joined."""
        wanted = frozenset(terms)
        starts = tuple([term.removesuffix(PREFIX_MARK) for term in terms if term.endswith(PREFIX_MARK)])
        found: list[tuple[int, int]] = []
        for start, chunk in self._reader.places(text):
            words = self._reader.read(chunk)
            if words.closing:
                _add_pairs(found, start, chunk, words, wanted)
                continue
            if not wanted.isdisjoint(words.held) or (
                starts and any(term.startswith(starts) for term in words.held)
            ):
                found.append((start, start + len(chunk)))
        return found


def _exact(chunks: Sequence[Words]) -> str:
    return " ".join([words.exact for words in chunks])


def _add_pairs(
    found: list[tuple[int, int]], start: int, chunk: str, words: Words, wanted: frozenset[str]
) -> None:
    """Add the pairs of a run that match. Where folding moved letters the whole run is named."""
    hits = [
        index
        for index, pair in enumerate(words.words)
        if pair in wanted or EXACT_MARK + pair in wanted or pair[:1] in wanted or pair[-1:] in wanted
    ]
    if not hits:
        return
    if len(chunk) != len(words.words) + 1:
        found.append((start, start + len(chunk)))
        return
    for index in hits:
        low, high = start + index, start + index + 2
        if found and found[-1][1] >= low:
            low = found.pop()[0]
        found.append((low, high))


ANALYSIS: Final = TextAnalysis()
