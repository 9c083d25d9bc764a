"""Chunks of text and what they hold: the shapes that agents' memories are made of.

A chunk is what stands between spaces and loose punctuation: a word, an identifier, a path, a DID, a URL, a
version, an emoji, a run of a script without spaces. `ChunkReader` turns a chunk into its words, in order, and
into the wholes that are kept besides: the chunk itself and the parts of it that mean something on their own.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import regex

from appview.search.words import MAX_WORD_CHARACTERS, UNSPACED, Stems, fold, is_unspaced, letters, split_words

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WHOLE_CHARACTERS: Final = 256  # ours; a longer identifier is cut, alike in documents and questions
# Some characters fold to many (one to 18), so what one chunk gives is bounded, and what one text gives.
MAX_CHUNK_WORDS: Final = 1_024  # ours; a URL of 2,048 characters holds no more
MAX_RUN_LETTERS: Final = 10_000  # garden.engram.memory, the graphemes of a text: folding adds none beyond
MAX_LETTER_CHARACTERS: Final = 8  # ours; a letter of a living script has at most 5 marks
MAX_READ_CHARACTERS: Final = 180_000  # ours, as indexed: 30,000 bytes give 70,000 of prose, 140,000 of paths
MAX_CACHED_CHUNKS: Final = 30_000  # about 25 MB
MAX_CACHED_CHARACTERS: Final = 64  # a longer chunk is hardly seen twice

# What joins words into one chunk where it stands between two of them.
_JOINTS = r"(?:://|::|->|(?<=[0-9]),(?=[0-9]{3}(?![0-9]))|[-./:@\#+~=&?%\\'\u2019])"
_TAIL = r"(?:\+\+|\#(?!\w))?"  # C++, C#
_ASCII_CHUNK = re.compile(rf"(?a:\w++(?:(?! )(?:{_JOINTS}\w++)*+{_TAIL})?)")  # a space mostly comes next
_PICTURE = r"\p{Extended_Pictographic}(?:\uFE0F|\p{Emoji_Modifier})?"
_LETTERS = rf"[[\w\p{{No}}\u00AD\u200E\u200F\u2060]--[{UNSPACED}]]"
_CHUNK = regex.compile(
    rf"(?:[{UNSPACED}]\p{{M}}*)+"
    rf"|\p{{Regional_Indicator}}{{2}}|{_PICTURE}(?:\u200D{_PICTURE})*"
    rf"|{_LETTERS}+(?:{_JOINTS}{_LETTERS}+)*{_TAIL}",
    regex.V1,
)
_PICTURES = regex.compile(rf"\p{{Regional_Indicator}}{{2}}|{_PICTURE}(?:\u200D{_PICTURE})*", regex.V1)
_PICTURE_VARIANTS = regex.compile(r"[\uFE0F\p{Emoji_Modifier}]", regex.V1)

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CONTRACTION = re.compile(r"'(?:s|m|d|ll|re|ve)(?![^\W_])", re.IGNORECASE)  # Caroline's, we'll
_NEGATION = re.compile(r"(?<=n)'t(?![^\W_])", re.IGNORECASE)  # don't
_ENDING = re.compile(r"(?:\+\+|\#)\Z")  # as in `_TAIL`
_VERSION = re.compile(r"v[0-9]+(?:\.[0-9]+)+", re.IGNORECASE)
_OUTER = re.compile(r"://|[/\\?&=#,]")  # between the parts of a path, a URL, an attribute
_INNER = re.compile(r"::|->|[.:@+~%']")  # inside such a part; then hyphens
_TOKEN = re.compile(r"(?=[^-_]*[-_])[A-Za-z0-9_-]{20,}")  # base64url that is not letters and digits alone
_WORDLIKE = re.compile(r"[a-z]{4,}|[0-9]{4,}")  # seldom in a token, usual in a name
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSAFE = regex.compile(r"[^\w\p{No}\-./:@#+~=&?%\\>]", regex.V1)
EXACT_MARK: Final = "="  # before an exact word; no word and no whole starts with it
PREFIX_MARK: Final = "*"  # after the beginning of a word; no word and no whole holds it
MIN_HASH_CHARACTERS: Final = 16  # ours: shorter mixtures of letters and digits are read as names


@dataclass(frozen=True, slots=True)
class Words:
    """What a chunk holds. `words`, in order, as they stand (`c#`); `stems`, one a word; `wholes`, kept too.

    `closing` is the single letter that ends a run of an unspaced script in a document, so that one-letter
    questions find it; a question's last run leaves it out.
    """

    words: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()
    wholes: tuple[str, ...] = ()
    closing: str = ""
    terms: str = ""  # stems, wholes and closing, joined by spaces
    exact: str = ""  # words and closing, marked and joined by spaces
    held: tuple[str, ...] = ()  # all of these, each once

    @property
    def size(self) -> int:
        """How many characters it takes in an index, with the spaces after it."""
        return len(self.terms) + len(self.exact) + 2


class ChunkReader:
    """Reads chunks, and remembers what it has read."""

    def __init__(self, stems: Stems) -> None:
        self._stems = stems
        self._known: OrderedDict[str, Words] = OrderedDict()

    def chunks(self, text: str) -> list[str]:
        """List the chunks of a text in order."""
        if text.isascii():
            return _ASCII_CHUNK.findall(text)
        found: list[str] = _CHUNK.findall(text)
        return found

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Walk through the chunks of a text, each with its place."""
        found: Iterator[re.Match[str]] = (_ASCII_CHUNK if text.isascii() else _CHUNK).finditer(text)
        return found

    def read(self, chunk: str) -> Words:
        """Read one chunk."""
        known = self._known.get(chunk)
        if known is None:
            known = self._read(chunk)
            if len(chunk) <= MAX_CACHED_CHARACTERS:
                self._known[chunk] = known
                if len(self._known) > MAX_CACHED_CHUNKS:
                    self._known.popitem(last=False)  # one by one: to clear all stops every thread for long
        return known

    def read_all(self, text: str) -> list[Words]:
        """Read the chunks of a text in order, until they have given `MAX_READ_CHARACTERS`."""
        known, found, left = self._known, [], MAX_READ_CHARACTERS
        for chunk in self.chunks(text):
            words = known.get(chunk) or self.read(chunk)
            found.append(words)
            left -= words.size
            if left <= 0:
                break
        return found

    def _read(self, chunk: str) -> Words:
        if chunk.isascii():
            if chunk.isalnum() and (chunk[1:].islower() or chunk.islower() or chunk.isupper()):
                return self._words([chunk.lower()[:MAX_WORD_CHARACTERS]], [])
        elif is_unspaced(chunk):
            return self._run(fold(chunk))
        elif _PICTURES.fullmatch(chunk):
            return self._picture(chunk)
        return self._compound(chunk)

    def _compound(self, chunk: str) -> Words:
        if not chunk.isascii():
            chunk = chunk.replace("\u2019", "'")
        chunk = _NEGATION.sub("t", _CONTRACTION.sub("", chunk))
        words: list[str] = []
        wholes: list[str] = []
        if _UUID.fullmatch(chunk):
            return self._words([chunk.lower()], [])
        for outer in _OUTER.split(chunk):
            if len(words) >= MAX_CHUNK_WORDS:
                break
            if outer.isdigit() and "," in chunk:
                continue
            before = len(words)
            for inner in _INNER.split(outer):
                if _UUID.fullmatch(inner) or _is_token(inner):
                    words.append(inner.strip("_").lower()[:MAX_WORD_CHARACTERS])
                    wholes += [_whole(inner)] if len(inner) > MAX_WORD_CHARACTERS else []
                    continue
                for name in inner.split("-"):
                    self._name(name[:MAX_WHOLE_CHARACTERS], words, wholes)
                    if len(words) >= MAX_CHUNK_WORDS:
                        break
                if len(words) >= MAX_CHUNK_WORDS:
                    break
            if len(words) > before + 1:
                wholes.append(_whole(outer))
                if _VERSION.fullmatch(outer):
                    wholes.append(outer[1:])
        if "," in chunk:
            words.append(fold(chunk[:MAX_WHOLE_CHARACTERS].replace(",", ""))[:MAX_WORD_CHARACTERS])
        if len(words) > 1 or chunk[-1:] in "+#":
            wholes.append(_whole(chunk))
        return self._words(words, wholes, _ENDING.search(chunk))

    def _name(self, name: str, words: list[str], wholes: list[str]) -> None:
        """Read a name without joints, cut already: `engram_space_uri`, `ModelMismatch`, `HTTP2Server`, a
        hash."""
        if _looks_random(name):
            words.extend(split_words(fold(name)))
            return
        before = len(words)
        for part in name.split("_"):
            pieces = _CAMEL.split(part)
            start = len(words)
            for piece in pieces:
                words.extend(split_words(fold(piece)))
            if len(words) > start + 1 and len(part) < len(name):
                wholes.append(self._stems.stem(_whole(part)))
        if len(words) > before + 1:
            wholes.append(self._stems.stem(_whole(name)))
        elif name.strip("_") != name and len(words) > before:
            wholes.append(_whole(name))

    def _run(self, run: str) -> Words:
        """Read a run without spaces as its overlapping pairs of letters."""
        single = [letter[:MAX_LETTER_CHARACTERS] for letter in letters(run)[:MAX_RUN_LETTERS]]
        if len(single) < 2:
            return _joined(tuple(single), tuple(single), (), "")
        pairs = tuple(a + b for a, b in pairwise(single))
        return _joined(pairs, pairs, (), single[-1])

    def _picture(self, chunk: str) -> Words:
        plain = _PICTURE_VARIANTS.sub("", chunk)[:MAX_WORD_CHARACTERS].rstrip("\u200d")
        parts = tuple(part for part in plain.split("\u200d") if part) if "\u200d" in plain else ()
        return _joined((plain,), (plain,), parts, "") if plain else Words()

    def _words(self, words: list[str], wholes: list[str], ending: re.Match[str] | None = None) -> Words:
        stem = self._stems.stem
        stems = tuple([stem(word) for word in words])
        if ending is not None and words:
            words[-1] += ending[0]
        return _joined(tuple(words), stems, _distinct(wholes), "")


def _joined(words: tuple[str, ...], stems: tuple[str, ...], wholes: tuple[str, ...], closing: str) -> Words:
    tail = (closing,) if closing else ()
    terms = (*stems, *wholes, *tail)
    exact = [EXACT_MARK + word for word in words + tail]
    held = tuple(dict.fromkeys((*terms, *exact)))
    return Words(words, stems, wholes, closing, " ".join(terms), " ".join(exact), held)


def _whole(text: str) -> str:
    whole: str = _UNSAFE.sub("", fold(text[:MAX_WHOLE_CHARACTERS])).lstrip(EXACT_MARK)[:MAX_WHOLE_CHARACTERS]
    return whole


def _distinct(wholes: list[str]) -> tuple[str, ...]:
    return tuple([whole for whole in dict.fromkeys(wholes) if whole])


def _looks_random(name: str) -> bool:
    """Tell hashes, keys and encoded bytes from names: long, with digits, and no part long enough to mean
    something. They are kept whole, whatever their case."""
    if len(name) < MIN_HASH_CHARACTERS or "_" in name:
        return False
    digits = sum(character.isdigit() for character in name)
    if not digits:
        return False
    changes = sum(a.isdigit() != b.isdigit() or (a.islower() and b.isupper()) for a, b in pairwise(name))
    return changes * 5 >= len(name)


def _is_token(part: str) -> bool:
    """Tell base64url with its `-` and `_` from names that are joined by them: it changes between cases and to
    and from digits without end, and hardly holds anything as long as a word or a year."""
    if len(part) > MAX_WHOLE_CHARACTERS or not _TOKEN.fullmatch(part):
        return False
    if min(sum(map(str.islower, part)), sum(map(str.isupper, part))) * 10 < len(part):
        return False
    if not any(map(str.isdigit, part)):
        return False
    changes = sum(
        a.isalnum() and b.isalnum() and (a.isdigit() != b.isdigit() or a.islower() != b.islower())
        for a, b in pairwise(part)
    )
    return changes * 3 >= len(part) and sum(map(len, _WORDLIKE.findall(part))) * 4 <= len(part)
