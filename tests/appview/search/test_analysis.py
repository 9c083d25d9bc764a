"""What text is taken to say: words, stems, identifiers, scripts without spaces."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from appview.search import chunks
from appview.search.analysis import ANALYSIS, FIELD_BORDER, TextAnalysis
from appview.search.chunks import EXACT_MARK, PREFIX_MARK
from appview.search.words import MAX_WORD_CHARACTERS, Stems, fold

# What the keyword index splits or reads as syntax: no analysed word may hold it.
SPLITTING = re.compile('[\x00-\x20"\x7f]')
SHAPES = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(
            [
                "engram_space_uri",
                "ModelMismatch",
                "a/b.go",
                "did:plc:abc",
                "v1.2.3",
                "東京都庁",
                "ภาษาไทย",
                "C++",
            ]
        ),
        st.sampled_from(
            ["https://x.org/a?b=c#d", "Caroline's", "don't", "👩🏽‍💻", "é́", "ﬁ", "İı", "1,000", "_"]
        ),
    ),
    max_size=8,
).map(" ".join)


def terms(text: str) -> list[str]:
    return ANALYSIS.document(text, (), None).text.split()


def exact(text: str) -> list[str]:
    return [word.removeprefix(EXACT_MARK) for word in ANALYSIS.document(text, (), None).exact.split()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Tomatoes, watered daily!", ["tomatoes", "watered", "daily"]),
        ("CAFÉ Straße Ørsted Łódź", ["cafe", "strasse", "orsted", "lodz"]),
        ("naïve cafe\u0301", ["naive", "cafe"]),
        ("ﬁne \uff21\uff22\uff23", ["fine", "abc"]),
        ("Ёлка мой", ["елка", "мой"]),
        ("שָׁלוֹם", ["שלום"]),
        ("كِتَاب", ["كتاب"]),
        ("हिन्दी", ["हिन्दी"]),
        ("Ελληνικά", ["ελληνικα"]),
        ("soft\u00adhyphen", ["softhyphen"]),
        ("engram_space_uri", ["engram", "space", "uri"]),
        ("ModelMismatch", ["model", "mismatch"]),
        ("HTTP2Server getURL utf8", ["http2", "server", "get", "url", "utf8"]),
        ("internal/spacestore/search.go", ["internal", "spacestore", "search", "go"]),
        ("Caroline's we'll don't", ["caroline", "we", "dont"]),
        ("Caroline\u2019s don\u2019t", ["caroline", "dont"]),
        ("l'avion O'Brien", ["l", "avion", "o", "brien"]),
        ("1,234,567 1,2", ["1234567", "1", "2"]),
        ("C++ and C#", ["c++", "and", "c#"]),
        ("std::Vector++ F# a#b", ["std", "vector++", "f#", "a", "b"]),
        ("東京都", ["東京", "京都", "都"]),
        ("서울에서", ["서울", "울에", "에서", "서"]),
        ("ｶﾞｲﾄﾞ", ["ガイ", "イド", "ド"]),
        ("iPhone用户", ["i", "phone", "用户", "户"]),
        ("👍🏽 ❤️ 🇩🇪", ["👍", "❤", "🇩🇪"]),
        ("", []),
        ("?!… -- __", []),
    ],
)
def test_exact_words_are_folded_and_in_order(text: str, words: list[str]) -> None:
    assert exact(text) == words


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("engram_space_uri", "engram_space_uri"),
        ("raise ModelMismatch", "modelmismatch"),
        ("see internal/spacestore/search.go:12", "internal/spacestore/search.go:12"),
        ("in internal/spacestore/search.go.", "internal/spacestore/search.go"),
        ("in internal/spacestore/search.go.", "search.go"),
        ("(did:plc:ewvi7nxzyoun6zhxrhs64oiz)", "did:plc:ewvi7nxzyoun6zhxrhs64oiz"),
        ("at://did:plc:abc234/garden.engram.memory/3l6o", "did:plc:abc234"),
        ("at://did:plc:abc234/garden.engram.memory/3l6o", "garden.engram.memory"),
        ("at://did:plc:abc234/garden.engram.memory/3l6o", "at://did:plc:abc234/garden.engram.memory/3l6o"),
        ("https://example.com/a/b?x=1", "https://example.com/a/b?x=1"),
        ("HTTP2Server", "http2server"),
        ("upgrade to v1.2.3", "v1.2.3"),
        ("upgrade to v1.2.3", "1.2.3"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("std::vector", "std::vector"),
        ("__init__", "__init__"),
        ("priority=high", "priority=high"),
        ("alice@example.com", "alice@example.com"),
        ("well-known", "well-known"),
        ("👩🏽‍💻", "👩\u200d💻"),
        ("👩🏽‍💻", "💻"),
    ],
)
def test_identifiers_are_kept_whole_besides_their_parts(text: str, whole: str) -> None:
    assert whole in terms(text)


@pytest.mark.parametrize(
    "key",
    [
        "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsh2uhujsda",
        "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "3l6oveex3ii2l",
        "550e8400-e29b-41d4-a716-446655440000",
        "dGhpcyBpcyBhIHRlc3Q0MTIz",
        "kR3x-9QfLw2_Zt7BvYc0Hn5sJd8",
        "Vb8_qX2nT-5kLz0RwYc7PjM4hGd1sF9aEu3iKo6tNxB",
    ],
)
def test_hashes_and_record_keys_are_never_shredded(key: str) -> None:
    assert terms(key) == exact(key) == [key.lower()]


def test_encoded_bytes_and_uuids_stay_whole_inside_of_more() -> None:
    token, uuid = "Vb8_qX2nT-5kLz0RwYc7PjM4hGd1sF9aEu3iKo6tNxB", "550e8400-e29b-41d4-a716-446655440000"
    assert exact(f"/d/{token}/edit?key={token}") == ["d", token.lower(), "edit", "key", token.lower()]
    assert exact(f"runs/{uuid}.json") == ["runs", uuid, "json"]
    long = f"{token}_{token[::-1]}"
    assert exact(long) == [long.lower()[:MAX_WORD_CHARACTERS]]
    assert long.lower() in terms(long)


def test_most_encoded_bytes_are_told_from_names() -> None:
    pick = Random(7)
    whole = 0
    for _ in range(500):
        token = urlsafe_b64encode(pick.randbytes(32)).rstrip(b"=").decode().strip("-_").replace("--", "-A")
        whole += len(exact(token)) == 1
    assert whole >= 450


@pytest.mark.parametrize(
    "name",
    [
        "Meeting-Notes-2024-05-12-Final",
        "iPhone14ProMax-A2894-US5G",
        "Sony-WH1000XM4-Headphones-V2",
        "HTTP2Server_v3_getURL2Parser",
        "X-Amz-Content-Sha256-V4-Header",
        "UTF8_to_UTF16LE_BOM2_Converter",
        "test_A1_B2_c3_D4_e5_F6",
        "250cf8b51c773f3f8dc8b4be867a9a02-Abstract",
        "Some_Very_Long_Name_of_a_Class_2",
        "engram_space_uri_of_the_garden_v2",
    ],
)
def test_names_of_many_parts_are_taken_apart(name: str) -> None:
    assert len(exact(name)) > 1
    assert name.lower() in terms(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("painting", "paints"),
        ("memories", "memory"),
        ("книги", "книгу"),
        ("كتاب", "الكتاب"),
        ("getMemories", "getmemories"),
        ("running", "runs"),
    ],
)
def test_word_forms_share_a_term(one: str, other: str) -> None:
    assert set(terms(one)) & set(terms(other))


def test_the_language_of_latin_words_can_be_chosen() -> None:
    german = TextAnalysis("german")
    assert german.version != ANALYSIS.version
    assert german.document("Häuser", (), None).text == german.document("Häusern", (), None).text
    with pytest.raises(ValueError, match="klingon"):
        TextAnalysis("klingon")


@pytest.mark.parametrize(
    ("run", "part"),
    [
        ("東京都庁舎", "都庁"),
        ("ภาษาไทย", "ไท"),
        ("こんにちは世界", "世界"),
        ("대한민국", "민국"),
        ("ភាសាខ្មែរ", "ភាសា"),
    ],
)
def test_two_letters_of_an_unspaced_script_find_a_longer_run(run: str, part: str) -> None:
    assert set(ANALYSIS.read(part)[0].stems) <= set(terms(run))


def test_fields_are_kept_apart() -> None:
    document = ANALYSIS.document("water them", ("/garden/tomatoes", "k=v"), "https://a.example/")
    assert "water" in document.text.split()
    assert {"garden/tomatoes", "tomato", "k=v"} <= set(document.tags.split())
    assert "a.example" in document.source.split()
    assert document.exact.split().count(FIELD_BORDER) == 3


def test_long_words_and_identifiers_are_cut_alike() -> None:
    long = "x" * 5_000
    assert terms(long) == ["x" * MAX_WORD_CHARACTERS]
    assert terms(long + "y") == terms(long)
    assert all(len(term) <= 256 for term in terms("ab." * 10_000 + "c"))


@given(SHAPES)
@example("a\x00b\ud800c")
def test_no_term_holds_what_the_keyword_index_splits_at(text: str) -> None:
    document = ANALYSIS.document(text, (text[:100],), text[:100])
    for column in document.columns:
        for term in column.split(" "):
            assert not SPLITTING.search(term)
            term.encode()  # no lone surrogates
    for word in (*document.text.split(), *document.tags.split()):
        assert not word.startswith(EXACT_MARK)
        assert PREFIX_MARK not in word


@given(st.text())
@example("İ")
@example("ΐ")
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text_is_read_alike_alone_and_beside_other_scripts(text: str) -> None:
    assert [*terms(text), "ж"] == terms(text + " ж")


@given(SHAPES)
def test_spans_by_a_texts_own_terms_leave_nothing_out(text: str) -> None:
    spans = ANALYSIS.finder(set(terms(text))).spans(text)
    assert all(low < high for low, high in spans)
    assert all(high <= low for (_, high), (low, _) in pairwise(spans))
    rest = text
    for low, high in spans:
        rest = rest[:low] + " " * (high - low) + rest[high:]
    assert terms(rest) == []


def test_spans_name_matches_as_they_stand() -> None:
    text = "Painted the ModelMismatch, in 東京都庁 for don't-care"
    wanted = {*terms("paints"), *terms("mismatch"), "京都", "都庁"}
    assert [text[start:end] for start, end in ANALYSIS.finder(wanted).spans(text)] == [
        "Painted",
        "ModelMismatch",
        "京都庁",
    ]
    assert [text[start:end] for start, end in ANALYSIS.finder({"=pain" + PREFIX_MARK}).spans(text)] == [
        "Painted"
    ]


def test_stems_are_safe_to_share_between_threads() -> None:
    stems = Stems()
    words = ["painting", "memories", "книги", "generalizations"] * 200
    expected = [stems.stem(word) for word in words]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [stems.stem(word) for word in words], range(8)))
    assert all(result == expected for result in found)


def test_what_was_read_is_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_CACHED_CHUNKS", 3)
    reader = chunks.ChunkReader(Stems())
    words = [reader.read(f"gardens{number}") for number in range(5)]
    assert list(reader._known) == ["gardens2", "gardens3", "gardens4"]
    assert reader.read("gardens0") == words[0]
    assert list(reader._known) == ["gardens3", "gardens4", "gardens0"]
