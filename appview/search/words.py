"""The finest parts of text analysis: folding, scripts, stems. Pure functions of strings.

Folding makes equal what people type as equal: compatibility forms, case, diacritics. It keeps what tells
words apart in their script: Indic and Thai vowel signs, the Japanese voicing marks, the Cyrillic short i.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from threading import local
from typing import Final

import regex
import Stemmer

MAX_WORD_CHARACTERS: Final = 64  # ours; longer words are cut, alike in documents and questions

# Scripts that are written without spaces, or, as Hangul, with particles attached: indexed as pairs.
UNSPACED: Final = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Yi}"
    "\u30fc\uff70\uff9e\uff9f"
)
_UNSPACED_RUN = regex.compile(rf"(?:[{UNSPACED}]\p{{M}}*)+", regex.V1)
_LETTER = regex.compile(r".\p{M}*", regex.DOTALL)
_WORD = regex.compile(r"[\w\p{No}]+", regex.V1)
# Marks that most people leave out when they type: Latin, Greek and Cyrillic diacritics (but not the breve of
# the Cyrillic short i and u, letters of their own), Hebrew points, Arabic vowels and the stretching tatweel.
_DROPPED_MARKS = re.compile(
    "(?<![\u0438\u0443])\u0306|[\u0300-\u0305\u0307-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0640\u064b-\u065f\u0670]"
)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)
# Letters with a stroke and the like, which Unicode does not take apart.
_LATIN_LETTERS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "ħ": "h",
        "\u0131": "i",
        "ŧ": "t",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
    }
)

# Scripts whose stemmer is known from the script; Latin letters take the language given.
_SCRIPT_STEMMERS: Final = (
    (re.compile("[\u0400-\u052f]"), "russian"),
    (re.compile("[\u0370-\u03ff]"), "greek"),
    (re.compile("[\u0600-\u06ff]"), "arabic"),
    (re.compile("[\u0530-\u058f]"), "armenian"),
    (re.compile("[\u0900-\u097f]"), "hindi"),
    (re.compile("[\u0b80-\u0bff]"), "tamil"),
)


def fold(text: str) -> str:
    """Fold compatibility forms, case and diacritics. Folding twice changes nothing."""
    if text.isascii():
        return text.lower()
    while (folded := _fold_once(text)) != text:
        text = folded
    return folded


def _fold_once(text: str) -> str:
    folded = unicodedata.normalize("NFKD", _INVISIBLE.sub("", text)).casefold()
    folded = _DROPPED_MARKS.sub("", unicodedata.normalize("NFKD", folded))
    return unicodedata.normalize("NFC", folded.translate(_LATIN_LETTERS))


def split_words(folded: str) -> list[str]:
    """Split folded text at everything that is neither letter, mark nor digit; cut words that are too long."""
    found = (word.strip("_") for word in _WORD.findall(folded))
    return [word[:MAX_WORD_CHARACTERS] for word in found if word]


def is_unspaced(text: str) -> bool:
    """Tell whether all of `text` is of scripts without spaces."""
    return _UNSPACED_RUN.fullmatch(text) is not None


def letters(run: str) -> list[str]:
    """Take a run apart into letters, each with its marks."""
    found: list[str] = _LETTER.findall(run)
    return found


def is_language(name: str) -> bool:
    """Tell whether there is a stemmer for a language."""
    return name in Stemmer.algorithms()


class Stems:
    """Word forms reduced to a stem, the same for the same letters always. Safe across threads."""

    def __init__(self, language: str = "english") -> None:
        if not is_language(language):
            raise ValueError(f"no stemmer for {language!r}")
        self._language = language
        self._stemmers = local()  # a Snowball stemmer is not to be shared between threads

    def stem(self, word: str) -> str:
        """Reduce a folded word; words with digits, and scripts without a stemmer, stay as they are."""
        if not word.isalpha():
            return word
        if word.isascii():
            return str(self._stemmer(self._language).stemWord(word))
        language = _stemmer_for(word[0]) or (self._language if word[0] < "\u0250" else None)
        return fold(self._stemmer(language).stemWord(word)) if language else word

    def _stemmer(self, language: str) -> Stemmer.Stemmer:
        stemmer = getattr(self._stemmers, language, None)
        if stemmer is None:
            stemmer = Stemmer.Stemmer(language, 0)  # no cache of its own: whole chunks are cached above
            setattr(self._stemmers, language, stemmer)
        return stemmer


@lru_cache(maxsize=4_096)
def _stemmer_for(letter: str) -> str | None:
    return next((language for pattern, language in _SCRIPT_STEMMERS if pattern.match(letter)), None)
