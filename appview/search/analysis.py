"""Text analysis, one implementation for indexing and asking.

A document becomes bags of terms a field (stems of words, identifiers whole and split) and one sequence of
exact words. The text of a hit is read the same way to say where it matched. Change anything here that
changes a term and `ANALYSIS_VERSION` must grow: files name the version that filled their index.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from appview.memory.analyser import AnalysedDocument
from appview.search.chunks import EXACT_MARK, MAX_READ_CHARACTERS, PREFIX_MARK, ChunkReader, Words
from appview.search.function_words import FUNCTION_WORDS
from appview.search.words import Stems, is_language

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ANALYSIS_VERSION: Final = "2"
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

    def of_version(self, version: str) -> TextAnalysis | None:
        """Give the analysis of another version: that of another language, if it is of this program."""
        if version == self._version:
            return self
        number, _, language = version.partition("-")
        if number != ANALYSIS_VERSION or not is_language(language):
            return None
        return _of_language(language)

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
        return told if any(each.terms for each in told) else words

    def finder(self, terms: Collection[str]) -> Finder:
        """Look for any of `terms` (exact words and beginnings carry their mark) in texts."""
        return Finder(self._reader, terms)


class Finder:
    """Finds where texts hold any of some terms. It remembers the chunks that it has looked at: make one a
    question."""

    def __init__(self, reader: ChunkReader, terms: Collection[str]) -> None:
        self._reader = reader
        self._wanted = frozenset(terms)
        self._starts = tuple([term.removesuffix(PREFIX_MARK) for term in terms if term.endswith(PREFIX_MARK)])
        self._seen: set[str] = set()
        self._holding: dict[str, Words | None] = {}  # with the words of those of which some pairs may match

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Find where a text holds any of the terms: character ranges, in order, those that touch joined.

        What lies beyond `MAX_READ_CHARACTERS` of new words is not looked at.
        """
        chunks = dict.fromkeys(self._reader.chunks(text))
        left = MAX_READ_CHARACTERS
        for chunk in [chunk for chunk in chunks if chunk not in self._seen]:
            self._seen.add(chunk)
            words = self._reader.read(chunk)
            if words.closing:
                self._holding[chunk] = words
            elif self._is_wanted(words):
                self._holding[chunk] = None
            left -= words.size
            if left <= 0:
                break
        found: list[tuple[int, int]] = []
        if chunks.keys().isdisjoint(self._holding):
            return found
        for match in self._reader.matches(text):
            chunk = match[0]
            if chunk not in self._holding:
                continue
            run = self._holding[chunk]
            if run is not None:
                _add_pairs(found, match.start(), chunk, run, self._wanted)
            else:
                found.append(match.span())
        return found

    def _is_wanted(self, words: Words) -> bool:
        if not self._wanted.isdisjoint(words.held):
            return True
        return bool(self._starts) and any(term.startswith(self._starts) for term in words.held)


@lru_cache(maxsize=8)
def _of_language(language: str) -> TextAnalysis:
    return TextAnalysis(language)


def analysis_of(language: str) -> TextAnalysis:
    """Give the analysis for a language of words in Latin letters, one that there is a stemmer for."""
    return ANALYSIS if language == DEFAULT_LANGUAGE else _of_language(language)


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


DEFAULT_LANGUAGE: Final = "english"
ANALYSIS: Final = TextAnalysis(DEFAULT_LANGUAGE)
