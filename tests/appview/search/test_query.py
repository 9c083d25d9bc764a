"""What a question's text asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.memory.scope import EVERYTHING
from appview.search.analysis import ANALYSIS, TextAnalysis
from appview.search.engine import SearchRequest
from appview.search.query import MAX_PHRASES, MAX_TERMS, Phrase, Prefix, Question, read_question

if TYPE_CHECKING:
    from appview.search.engine import Searcher
    from tests.appview.search.support import Filler


def ask(text: str) -> Question:
    return read_question(ANALYSIS, text)


def test_plain_text_is_words() -> None:
    assert ask("Ripe tomatoes watered?") == Question(("ripe", "tomato", "water"))


def test_words_that_hold_a_question_together_are_left_out() -> None:
    assert ask("How are the tomatoes watered?").terms == ("tomato", "water")
    assert ask("What did they do about the blight?").terms == ("blight",)
    assert ask("What's Caroline's idea").terms == ("carolin", "idea")


def test_words_of_place_and_time_tell_something() -> None:
    assert ask("before the meeting").terms == ("befor", "meet")


@pytest.mark.parametrize("text", ["to be or not to be", "who are you", "The The", "it", "it _", "A!_"])
def test_a_question_of_nothing_else_keeps_them(text: str) -> None:
    assert ask(text).terms == tuple(dict.fromkeys(re.findall("[a-z]+", text.lower())))


def test_a_word_in_capitals_is_a_name() -> None:
    assert ask("what does the WHO say").terms == ("who", "say")
    assert ask("When did Will call").terms == ("will", "call")
    assert ask("WHO IS CALLING").terms == ("call",)
    assert ask("where did I park").terms == ("park",)


def test_an_identifier_is_whole_whatever_it_is_made_of() -> None:
    assert {"who_is_it", "who", "it"} <= set(ask("call who_is_it now").terms)


def test_each_language_has_its_own() -> None:
    assert read_question(TextAnalysis("german"), "Wann war der Termin?").terms == ("termin",)
    assert ask("war der termin").terms == ("war", "der", "termin")
    assert read_question(TextAnalysis("finnish"), "the moon").terms == ("the", "moon")


def test_a_phrase_is_required_and_its_words_count() -> None:
    question = ask('who said "water the Tomatoes" first')
    assert question.required == (Phrase(("=water", "=the", "=tomatoes")),)
    assert {"water", "tomato", "first"} <= set(question.terms)


def test_words_and_phrases_can_be_left_out() -> None:
    question = ask('tomatoes -blight -"too much water"')
    assert question.terms == ("tomato",)
    assert question.excluded == (Phrase(("=blight",)), Phrase(("=too", "=much", "=water")))


def test_an_identifier_is_left_out_as_its_words_in_order() -> None:
    assert ask("uri -space_uri").excluded == (Phrase(("=space", "=uri")),)


def test_what_ends_a_name_counts_in_phrases_and_left_out_words() -> None:
    assert ask("rewritten -C#").excluded == (Phrase(("=c#",)),)
    assert ask('rewritten -"in C++"').excluded == (Phrase(("=in", "=c++")),)
    assert ask('"C"').required == (Phrase(("=c",)),)
    assert set(ask("C#").terms) == {"c", "c#"}


async def test_names_that_differ_in_their_ends_are_told_apart(space: Filler, searcher: Searcher) -> None:
    names = ("C", "C++", "C#", "Rust")
    await space.add(*[f"rewritten in {name}" for name in names])

    async def found(text: str) -> set[str]:
        hits = (await searcher.search(space.store, SearchRequest(text), EVERYTHING)).hits
        return {hit.fact.text.removeprefix("rewritten in ") for hit in hits}

    assert await found("rewritten -C#") == {"C", "C++", "Rust"}
    assert await found("rewritten -c++") == {"C", "C#", "Rust"}
    assert await found("rewritten -C") == {"C++", "C#", "Rust"}
    assert await found('rewritten -"in C#"') == {"C", "C++", "Rust"}
    assert await found('"C#"') == {"C#"}
    assert await found('"in C++"') == {"C++"}
    assert await found('"C"') == {"C"}
    assert await found("c+*") == {"C++"}
    assert await found("C#") == {"C", "C++", "C#"}


def test_a_beginning_is_looked_for() -> None:
    assert ask("toma* soup").prefixes == (Prefix("toma"),)
    assert ask("engram_Sp*").prefixes == (Prefix("engram_sp"),)


@pytest.mark.parametrize(
    "text",
    [
        "a*",
        "*",
        "**",
        "to*ma",
        "x -",
        "- x",
        "rm --force",
        "at -5 degrees",
        'an "open quote',
        'in"side"out',
        "a-b",
    ],
)
def test_everything_else_is_plain_text(text: str) -> None:
    question = ask(text)
    assert not (question.prefixes or question.required or question.excluded)


def test_nothing_but_left_out_words_is_plain_text() -> None:
    assert ask("-rf") == ask("rf")
    assert ask('-"x b"').terms == ("x", "b")


@pytest.mark.parametrize("text", ["", "   ", "?!", '""', "\x00", "-", '"\x00"', "*"])
def test_a_question_that_says_nothing_is_empty(text: str) -> None:
    assert ask(text).is_empty


def test_a_run_asks_for_its_pairs_and_one_letter_for_itself() -> None:
    assert ask("東京都").terms == ("東京", "京都")
    assert ask("都").terms == ("都",)
    phrase = Phrase(("=東京", "=京都", "=都", "=abc"))
    assert ask('"東京都 abc"').required == (phrase,)


def test_long_questions_are_cut_and_say_so() -> None:
    assert not ask(" ".join(f"w{number}" for number in range(MAX_TERMS))).cut
    question = ask(" ".join(f"w{number}" for number in range(MAX_TERMS + 1)))
    assert question.cut
    assert len(question.terms) == MAX_TERMS
    assert not ask("x " + " ".join(f"-w{number}" for number in range(MAX_PHRASES))).cut
    assert ask("x " + " ".join(f"-w{number}" for number in range(MAX_PHRASES + 1))).cut


@given(st.text(max_size=300))
def test_no_text_is_an_error(text: str) -> None:
    assert len(ask(text).terms) <= MAX_TERMS


@given(st.text(max_size=100))
def test_every_chunk_of_a_document_finds_it(text: str) -> None:
    held = set(ANALYSIS.document(text, (), None).text.split())
    for chunk in ANALYSIS.read(text):
        assert {*chunk.stems, *chunk.wholes} <= held
