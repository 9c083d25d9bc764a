"""What a question's text asks for.

People's syntax: `"a phrase"`, `-word` or `-"a phrase"` to leave out, `word*` for a beginning. Everything
else, unbalanced quotes and stray marks included, is plain text; nothing is an error. The words go through
the same analysis as documents, and words that only hold the sentence together are left out where there are
others. A question of nothing but left-out words is read as plain text: there would
be nothing to rank by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from appview.search.chunks import EXACT_MARK, MAX_WHOLE_CHARACTERS
from appview.search.words import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from appview.search.analysis import TextAnalysis
    from appview.search.chunks import Words

T = TypeVar("T")

MAX_TERMS: Final = 256  # ours: distinct terms looked up; 4,000 bytes of prose hold about 500
MAX_PHRASES: Final = 16  # ours: phrases and left-out words, each a scan of its own
MAX_PREFIXES: Final = 8  # ours
MIN_PREFIX_CHARACTERS: Final = 2  # ours: one letter begins too many words

# Operators count at the start of a word only, so `well-known`, `a*b` and `rm --force` are plain text.
_OPERATOR = re.compile(
    r'(?:(?<=\s)|(?<=^))(?P<minus>-)?(?:"(?P<phrase>[^"]*)"(?=\s|$)|(?P<word>[^\s"]+))', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Exact words that stand one after the other."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of an exact word or of a whole identifier."""

    text: str

    @property
    def starts(self) -> tuple[str, str]:
        """What exact words (marked) and words start with."""
        return EXACT_MARK + self.text, self.text


@dataclass(frozen=True, slots=True)
class Question:
    """`terms` are looked for one by one, best first; `required` and `excluded` narrow what may be found;
    `cut` tells that the text asked for more than is looked at."""

    terms: tuple[str, ...] = ()
    prefixes: tuple[Prefix, ...] = ()
    required: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()
    cut: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to rank by."""
        return not self.terms and not self.prefixes


def read_question(analysis: TextAnalysis, text: str) -> Question:
    """Read the text of a question; any text is accepted."""
    plain: list[str] = []
    prefixes: list[Prefix] = []
    required: list[Phrase] = []
    excluded: list[Phrase] = []
    position = 0
    for match in _OPERATOR.finditer(text):
        plain.append(text[position : match.start()])
        position = match.end()
        phrase, word = match["phrase"], match["word"]
        if phrase is not None:
            words = _exact_words(analysis, phrase)
            if not words:
                continue
            (excluded if match["minus"] else required).append(Phrase(words))
            if not match["minus"]:
                plain.append(phrase)
        elif match["minus"] and _may_exclude(word) and (words := _exact_words(analysis, word)):
            excluded.append(Phrase(words))
        elif not match["minus"] and (prefix := _prefix(analysis, word)) is not None:
            prefixes.append(prefix)
        else:
            plain.append(match[0])
    plain.append(text[position:])
    terms = _terms(analysis.telling(" ".join(plain)))
    if not terms and not prefixes:
        return _bounded(_terms(analysis.telling(text)), [], [], [])
    return _bounded(terms, prefixes, required, excluded)


def _bounded(
    terms: Sequence[str], prefixes: Sequence[Prefix], required: Sequence[Phrase], excluded: Sequence[Phrase]
) -> Question:
    return Question(
        tuple(terms[:MAX_TERMS]),
        _first(prefixes, MAX_PREFIXES),
        _first(required, MAX_PHRASES),
        _first(excluded, MAX_PHRASES),
        cut=len(terms) > MAX_TERMS
        or len(set(prefixes)) > MAX_PREFIXES
        or len(set(required)) > MAX_PHRASES
        or len(set(excluded)) > MAX_PHRASES,
    )


def _first(items: Sequence[T], limit: int) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))[:limit]


def _terms(chunks: Iterable[Words]) -> list[str]:
    """List the distinct terms of chunks. The letter that closes a run is there for one-letter questions only,
    which ask by its own chunk."""
    return list(dict.fromkeys(term for words in chunks for term in (*words.wholes, *words.stems)))


def _exact_words(analysis: TextAnalysis, text: str) -> tuple[str, ...]:
    """List exact words as documents hold them in order, closing letters included but for the last run's."""
    words: list[str] = []
    closing = ""
    for chunk in analysis.read(text):
        if closing:
            words.append(closing)
        words.extend(chunk.words)
        closing = chunk.closing
    return tuple([EXACT_MARK + word for word in words])


def _may_exclude(word: str) -> bool:
    """Tell a left-out word from an option (`--force`) and from a number (`-5`)."""
    return word[0].isalpha() or word[0] == "_"


def _prefix(analysis: TextAnalysis, word: str) -> Prefix | None:
    if not word.endswith("*") or word.count("*") > 1:
        return None
    start = word[:-1]
    chunks = analysis.read(start)
    if len(chunks) != 1 or chunks[0].closing:
        return None
    folded = fold(start[:MAX_WHOLE_CHARACTERS])[:MAX_WHOLE_CHARACTERS]
    return Prefix(folded) if len(folded) >= MIN_PREFIX_CHARACTERS and folded.isprintable() else None
