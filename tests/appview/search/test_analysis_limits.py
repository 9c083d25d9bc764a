"""How much is made of a text, whatever it holds: each limit from both sides, and the work counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appview.search import analysis as analysis_module
from appview.search import chunks, words
from appview.search.analysis import ANALYSIS, TextAnalysis
from appview.search.chunks import (
    MAX_CHUNK_WORDS,
    MAX_LETTER_CHARACTERS,
    MAX_READ_CHARACTERS,
    MAX_RUN_LETTERS,
    MAX_WHOLE_CHARACTERS,
)
from appview.search.words import MAX_WORD_CHARACTERS
from lexicons.memories import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

BLESSING = "\ufdfa"  # one character that folds to 18, four words
# Texts that a memory may hold, of what grows, joins or repeats.
GREEDY = {
    "blessings": BLESSING * 9_900,
    "joined blessings": f"{BLESSING}." * 7_500,
    "blessings apart": " ".join(f"{number}{BLESSING}" for number in range(3_400)),
    "halves": "½" * 9_900,
    "joined halves": "½." * 9_900,
    "squared kana": "㌖" * 10_000,
    "joints": "a." * 15_000,
    "humps": "aB" * 15_000,
    "underscores": "a_" * 15_000,
    "contractions": "a's" * 10_000,
    "groups": "1,000," * 5_000,
    "han": "東" * 10_000,
    "thai": "ก\u0e31" * 5_000,
    "hangul": "한" * 10_000,
    "family": "👨\u200d" * 4_200,
    "flags": "🇩🇪" * 3_700,
    "marks": "a" + "\u0301" * 14_000,
    "marks in a run": "東" + "\u0301" * 14_000,
    "soft hyphens": "a\u00ad" * 9_900,
    "paths": " ".join(f"/a{number}/b.c" for number in range(2_500)),
    "quotes": '"a ' * 9_900,
}


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The lengths of all that was folded, as it came out."""
    lengths: list[int] = []

    def counting(text: str) -> str:
        result = words.fold(text)
        lengths.append(len(result))
        return result

    monkeypatch.setattr(chunks, "fold", counting)
    yield lengths


@pytest.mark.parametrize("name", GREEDY)
def test_no_memory_takes_much_more_than_another_of_its_length(name: str, folded: list[int]) -> None:
    text = GREEDY[name]
    assert len(text.encode()) <= MAX_TEXT_BYTES
    fresh = TextAnalysis()
    document = fresh.document(text, (), None)
    assert len(document.text) + len(document.exact) <= MAX_READ_CHARACTERS + 2_000
    assert sum(folded) <= 2 * MAX_READ_CHARACTERS
    assert max(map(len, document.text.split()), default=0) <= MAX_WHOLE_CHARACTERS

    folded.clear()
    fresh.finder({"slug"}).spans(text)
    assert sum(folded) <= 2 * MAX_READ_CHARACTERS
    folded.clear()
    fresh.read(text[:1_000])
    assert sum(folded) <= 40_000


def test_a_text_is_read_until_it_has_given_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    # "ab" gives itself, its exact word with a mark, and a space after each: seven characters.
    monkeypatch.setattr(chunks, "MAX_READ_CHARACTERS", 14)
    assert [found.stems for found in ANALYSIS.read("ab cd")] == [("ab",), ("cd",)]
    assert [found.stems for found in ANALYSIS.read("ab cd ef")] == [("ab",), ("cd",)]
    monkeypatch.setattr(chunks, "MAX_READ_CHARACTERS", 15)
    assert len(ANALYSIS.read("ab cd ef gh")) == 3


def test_marks_end_where_reading_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis_module, "MAX_READ_CHARACTERS", 14)
    assert ANALYSIS.finder({"cd"}).spans("ab cd") == [(3, 5)]
    assert ANALYSIS.finder({"ef"}).spans("ab cd ef") == []
    # What repeats is read once.
    assert ANALYSIS.finder({"cd"}).spans("ab ab ab cd cd") == [(9, 11), (12, 14)]


def test_prose_of_the_longest_memory_is_read_to_its_end() -> None:
    for word in ("a ", "to be ", "a.b/c.d ", "東。", "gärten "):
        text = word * ((MAX_TEXT_BYTES - 6) // len(word.encode())) + "slug"
        assert "slug" in ANALYSIS.document(text, (), None).text.split()


def test_a_chunk_gives_so_many_words() -> None:
    joined = ".".join(["a"] * (MAX_CHUNK_WORDS - 1))
    assert "slug" in ANALYSIS.read(f"{joined}.slug")[0].words
    assert "slug" not in ANALYSIS.read(f"{joined}.b.slug")[0].words
    slashed = "/".join(["a"] * (MAX_CHUNK_WORDS - 1))
    assert "slug" in ANALYSIS.read(f"{slashed}/slug")[0].words
    assert "slug" not in ANALYSIS.read(f"{slashed}/b/slug")[0].words


def test_a_name_is_cut_before_it_is_taken_apart() -> None:
    fits = "a_" * (MAX_WHOLE_CHARACTERS // 2 - 2)
    assert "slug" in ANALYSIS.read(f"{fits}slug")[0].words
    assert "slug" not in ANALYSIS.read(f"{fits}b_slug")[0].words
    assert len(ANALYSIS.read(BLESSING * MAX_WHOLE_CHARACTERS)[0].words) == len(
        ANALYSIS.read(BLESSING * 9_900)[0].words
    )


def test_a_run_gives_as_many_letters_as_a_text_may_have() -> None:
    assert len(ANALYSIS.read("東" * MAX_RUN_LETTERS)[0].words) == MAX_RUN_LETTERS - 1
    # Five letters each.
    assert len(ANALYSIS.read("㌖" * MAX_RUN_LETTERS)[0].words) == MAX_RUN_LETTERS - 1


def test_a_letter_has_so_many_marks() -> None:
    marks = "\u1ab0" * (MAX_LETTER_CHARACTERS - 1)
    assert ANALYSIS.read(f"東{marks}")[0].words == (f"東{marks}",)
    assert ANALYSIS.read(f"東{marks}\u1ab0")[0].words == (f"東{marks}",)


def test_a_picture_of_many_is_cut() -> None:
    most = MAX_WORD_CHARACTERS // 2
    assert ANALYSIS.read("\u200d".join("👨" * most))[0].wholes == ("👨",) * most
    assert ANALYSIS.read("\u200d".join("👨" * (most + 1)))[0].wholes == ("👨",) * most


def test_memories_and_questions_are_cut_alike() -> None:
    for text in (BLESSING * 9_900, "a." * 2_000, "a_" * 2_000, "㌖" * 500):
        document = f" {ANALYSIS.document(text, (), None).text} "
        assert all(f" {term} " in document for words in ANALYSIS.read(text) for term in words.stems)
