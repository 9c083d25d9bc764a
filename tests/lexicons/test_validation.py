"""Each rule of the lexicon language from both sides of its limit, and what an error says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons.catalog import Catalog
from lexicons.data import Link, cid_of
from lexicons.errors import InvalidRecord, InvalidSchema
from lexicons.measures import exceeds_bytes, exceeds_graphemes, grapheme_count, utf8_length

LINK = Link(cid_of(b"\xa0"))
FAMILY = "👩‍👩‍👦‍👦"  # one grapheme of 7 code points, 25 bytes


def _blob(mime: str = "image/png", size: int = 10) -> dict[str, Any]:
    return {"$type": "blob", "ref": LINK, "mimeType": mime, "size": size}


def _catalog(schema: dict[str, Any], **more: Any) -> Catalog:
    record = {"type": "object", "properties": {"x": schema}}
    main = {"type": "record", "key": "any", "record": record}
    return Catalog([{"lexicon": 1, "id": "com.example.test", "defs": {"main": main, **more}}])


def _check(schema: dict[str, Any], value: Any, **more: Any) -> None:
    _catalog(schema, **more).validate_record("com.example.test", {"x": value})


BOTH_SIDES: list[tuple[dict[str, Any], Any, Any, str]] = [
    ({"type": "string", "maxLength": 4}, "abcd", "abcde", "5 bytes, at most 4"),
    ({"type": "string", "maxLength": 4}, "éé", "ééa", "5 bytes, at most 4"),
    ({"type": "string", "maxLength": 4}, "🌱", "🌱a", "5 bytes, at most 4"),
    ({"type": "string", "minLength": 4}, "éé", "abc", "3 bytes, at least 4"),
    ({"type": "string", "maxGraphemes": 2}, FAMILY * 2, FAMILY * 3, "3 graphemes, at most 2"),
    ({"type": "string", "maxGraphemes": 2}, "a\r\n", "a\n\r", "3 graphemes, at most 2"),
    ({"type": "string", "maxGraphemes": 2}, "e\u0301e\u0301", "e\u0301e\u0301e", "3 graphemes, at most 2"),
    ({"type": "string", "minGraphemes": 2}, FAMILY * 2, FAMILY, "1 graphemes, at least 2"),
    ({"type": "string", "enum": ["a", "b"]}, "b", "c", "must be one of a, b, not 'c'"),
    ({"type": "string", "const": "a"}, "a", "b", "must be 'a', not 'b'"),
    ({"type": "string", "format": "did"}, "did:a:b", "a", "not a valid did: 'a'"),
    ({"type": "integer", "maximum": 3}, 3, 4, "4, at most 3"),
    ({"type": "integer", "minimum": -1}, -1, -2, "-2, at least -1"),
    ({"type": "integer", "enum": [0, 2]}, 0, 1, "must be one of 0, 2, not 1"),
    ({"type": "integer", "const": 0}, 0, 1, "must be 0, not 1"),
    ({"type": "integer"}, 1, True, "must be an integer"),
    ({"type": "boolean", "const": False}, False, True, "must be false"),
    ({"type": "boolean"}, True, 1, "must be true or false"),
    ({"type": "bytes", "maxLength": 2}, b"ab", b"abc", "3 bytes, at most 2"),
    ({"type": "bytes", "minLength": 2}, b"ab", b"a", "1 bytes, at least 2"),
    ({"type": "bytes"}, b"", "", "must be bytes"),
    ({"type": "cid-link"}, LINK, LINK.cid_bytes, "must be a CID link"),
    ({"type": "blob", "maxSize": 10}, _blob(), _blob(size=11), "11 bytes, at most 10"),
    ({"type": "blob", "accept": ["image/*"]}, _blob(), _blob("video/png"), "not accepted"),
    ({"type": "blob", "accept": ["image/*"]}, _blob(), _blob("imagery/png"), "not accepted"),
    ({"type": "blob", "accept": ["text/plain", "*/*"]}, _blob(), {"ref": LINK}, "must be a blob"),
    ({"type": "blob", "accept": ["image/png"]}, _blob(), _blob("image/pngs"), "not accepted"),
    ({"type": "unknown"}, {"a": 1}, _blob(), "must be an object"),
    ({"type": "unknown"}, {}, [], "must be an object"),
    ({"type": "array", "items": {"type": "integer"}, "maxLength": 2}, [1, 2], [1, 2, 3], "3 items, at most"),
    ({"type": "array", "items": {"type": "integer"}, "minLength": 2}, [1, 2], [1], "1 items, at least 2"),
    ({"type": "array", "items": {"type": "integer"}}, [], (), "must be an array"),
]


@pytest.mark.parametrize(("schema", "good", "bad", "reason"), BOTH_SIDES)
def test_each_rule_holds_on_both_sides(schema: dict[str, Any], good: Any, bad: Any, reason: str) -> None:
    _check(schema, good)
    with pytest.raises(InvalidRecord) as caught:
        _check(schema, bad)
    assert caught.value.path == "x"
    assert reason in caught.value.reason


def test_known_values_are_a_hint_and_no_limit() -> None:
    _check({"type": "string", "knownValues": ["a"]}, "b")


def test_null_is_a_value_only_where_it_may_be() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with pytest.raises(InvalidRecord, match=r"x\.a: must be an integer"):
        _check(schema, {"a": None})
    _check({**schema, "nullable": ["a"]}, {"a": None})
    with pytest.raises(InvalidRecord, match=r"x\.a: is required"):
        _check({**schema, "nullable": ["a"]}, {})


def test_an_error_names_its_place_from_the_top() -> None:
    thing = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    schema = {"type": "array", "items": {"type": "ref", "ref": "#thing"}}
    with pytest.raises(InvalidRecord, match=r"^x\[1\]\.n\[2\]: must be an integer$"):
        _check(schema, [{}, {"n": [1, 2, "3"]}], thing=thing)


def test_an_error_shows_a_short_piece_of_the_value() -> None:
    with pytest.raises(InvalidRecord) as caught:
        _check({"type": "string", "format": "did"}, "x" * 100_000)
    assert len(str(caught.value)) < 120


def test_references_may_be_local_global_and_circular() -> None:
    tree = {
        "type": "object",
        "properties": {
            "leaf": {"type": "integer"},
            "left": {"type": "ref", "ref": "#tree"},
            "right": {"type": "ref", "ref": "com.example.test#tree"},
        },
    }
    _check({"type": "ref", "ref": "#tree"}, {"left": {"right": {"leaf": 1}}}, tree=tree)
    with pytest.raises(InvalidRecord, match=r"x\.left\.right\.leaf: must be an integer"):
        _check({"type": "ref", "ref": "#tree"}, {"left": {"right": {"leaf": "1"}}}, tree=tree)
    whole = {"type": "ref", "ref": "com.example.test"}
    _check(whole, {"x": {"x": {}}})
    with pytest.raises(InvalidRecord, match=r"x\.x: must be an object"):
        _check(whole, {"x": 1})


def test_a_reference_to_nothing_is_a_fault_of_the_schema() -> None:
    with pytest.raises(InvalidSchema, match=r"no lexicon here defines com.example.other"):
        _check({"type": "ref", "ref": "com.example.other"}, {})
    query = {"type": "query"}
    other = {"lexicon": 1, "id": "com.example.query", "defs": {"main": query}}
    catalog = Catalog([other])
    with pytest.raises(InvalidSchema, match="no value has that type"):
        catalog.validate("com.example.query", {})


def test_a_token_is_its_own_name() -> None:
    token = {"type": "token"}
    _check({"type": "ref", "ref": "#t"}, "com.example.test#t", t=token)
    with pytest.raises(InvalidRecord, match=r"must be the token com.example.test#t"):
        _check({"type": "ref", "ref": "#t"}, "com.example.test#u", t=token)


UNION = {"type": "union", "refs": ["#a", "com.example.test"]}
A = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    "value",
    [
        {"$type": "com.example.test#a", "n": 1},
        {"$type": "com.example.test"},
        {"$type": "com.example.test#main"},
        {"$type": "com.example.unheard#of", "n": "?"},
    ],
)
def test_an_open_union_takes_its_members_and_strangers(value: Any) -> None:
    _check(UNION, value, a=A)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"$type": "com.example.test#a"}, "n: is required"),
        ({"$type": "com.example.test", "x": 1}, "must be an object"),
        ({"n": 1}, "must be an object with a $type"),
        ({"$type": 1}, "must be an object with a $type"),
        ([], "must be an object with a $type"),
    ],
)
def test_a_union_refuses(value: Any, reason: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        _check(UNION, value, a=A)
    assert reason in str(caught.value)


def test_a_closed_union_takes_no_strangers() -> None:
    with pytest.raises(InvalidRecord, match=r"x\.\$type: must be one of com.example.test#a"):
        _check({**UNION, "closed": True}, {"$type": "com.example.unheard#of"}, a=A)


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("any", "a:b~c", "a/b"),
        ("tid", "3jzfcijpj2z2a", "self"),
        ("nsid", "com.example.a", "self"),
        ("literal:self", "self", "SELF"),
    ],
)
def test_a_record_key_follows_its_rule(key: str, good: str, bad: str) -> None:
    record = {"type": "record", "key": key, "record": {"type": "object", "properties": {}}}
    catalog = Catalog([{"lexicon": 1, "id": "com.example.test", "defs": {"main": record}}])
    catalog.validate_record("com.example.test", {}, good)
    with pytest.raises(InvalidRecord, match=r"rkey: .* does not fit the key"):
        catalog.validate_record("com.example.test", {}, bad)


def test_defaults_fill_a_copy_of_a_body_and_leave_records_alone() -> None:
    inner = {"type": "object", "properties": {"n": {"type": "integer", "default": 0}}}
    body = {"type": "object", "properties": {"o": {"type": "ref", "ref": "#inner"}, "s": {"type": "string"}}}
    main = {"type": "procedure", "input": {"encoding": "application/json", "schema": body}}
    catalog = Catalog([{"lexicon": 1, "id": "com.example.do", "defs": {"main": main, "inner": inner}}])
    given_body: dict[str, Any] = {"o": {"kept": 1}}
    assert catalog.validate_input("com.example.do", given_body) == {"o": {"kept": 1, "n": 0}}
    assert given_body == {"o": {"kept": 1}}
    untouched = {"s": "x"}
    assert catalog.validate_input("com.example.do", untouched) is untouched


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength is above maxLength"),
        ({"type": "string", "maxLength": -1}, "a length not below 0"),
        ({"type": "string", "maxLength": True}, "must be an integer"),
        ({"type": "string", "format": "email"}, "unknown format 'email'"),
        ({"type": "string", "enum": [1]}, "enum must be an array of string values"),
        ({"type": "string", "default": "abc", "maxLength": 2}, "default breaks the schema: 3 bytes"),
        ({"type": "integer", "default": 1, "const": 1}, "exclude each other"),
        ({"type": "integer", "default": "1"}, "default must be a integer"),
        ({"type": "float"}, "type must be one of"),
        ({"type": ["string"]}, "type must be one of"),
        ("string", "type must be one of"),
        ({"type": "string", "description": 1}, "description must be a string"),
        ({"type": "array"}, "type must be one of"),
        ({"type": "ref", "ref": "x"}, "not a reference"),
        ({"type": "ref", "ref": "#"}, "not a reference"),
        ({"type": "ref"}, "not a reference"),
        ({"type": "union"}, "refs must be"),
        ({"type": "union", "refs": [], "closed": True}, "a closed union needs refs"),
        ({"type": "object"}, "properties must be an object"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "required names a, not a property"),
        ({"type": "object", "properties": {}, "nullable": ["a"]}, "nullable names a, not a property"),
        ({"type": "blob", "accept": "image/*"}, "accept must be an array of strings"),
        ({"type": "blob", "maxSize": "1"}, "maxSize must be"),
    ],
)
def test_a_schema_that_breaks_the_language_is_refused_with_its_place(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        _catalog(schema)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("com.example.test#main.record.x")


@pytest.mark.parametrize(
    ("main", "reason"),
    [
        ({"type": "record", "record": {"type": "object", "properties": {}}}, "key must be"),
        ({"type": "record", "key": "literal:", "record": {}}, "key must be"),
        ({"type": "record", "key": "literal:a/b", "record": {}}, "key must be"),
        ({"type": "query", "input": {"encoding": "a/b"}}, "a query has no input"),
        ({"type": "query", "output": {}}, "output needs an encoding"),
        ({"type": "query", "parameters": {"type": "object", "properties": {}}}, "type must be one of params"),
        ({"type": "query", "parameters": {"type": "params", "properties": {"a": UNION}}}, "type must be one"),
        ({"type": "query", "errors": [{"name": "No Such"}]}, "an error needs a name"),
        ({"type": "subscription", "message": {"schema": {"type": "object"}}}, "type must be one of union"),
        ({"type": "permission-set"}, "permissions must be an array"),
        ({"type": "permission-set", "permissions": [{"type": "permission"}]}, "resource must be"),
        (
            {"type": "permission-set", "permissions": [{"type": "permission", "resource": "repo"}]},
            "collection must name at least one",
        ),
    ],
)
def test_a_main_definition_that_breaks_the_language_is_refused(main: Any, reason: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        Catalog([{"lexicon": 1, "id": "com.example.test", "defs": {"main": main}}])
    assert reason in str(caught.value)


@pytest.mark.parametrize("kind", ["record", "query", "procedure", "subscription", "permission-set"])
def test_what_stands_for_the_lexicon_is_its_main_definition(kind: str) -> None:
    shape = {
        "type": kind,
        "key": "any",
        "record": {"type": "object", "properties": {}},
        "permissions": [],
    }
    Catalog([{"lexicon": 1, "id": "com.example.test", "defs": {"main": shape}}])
    with pytest.raises(InvalidSchema, match=f"a {kind} must be the main definition"):
        Catalog([{"lexicon": 1, "id": "com.example.test", "defs": {"other": shape}}])


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"lexicon": True, "id": "com.example.test", "defs": {"a": {"type": "token"}}},
        {"lexicon": 1, "id": "com.example.test", "defs": {}},
        {"lexicon": 1, "id": "com.example.test", "defs": {"a-b": {"type": "token"}}},
        {"lexicon": 1, "id": "com.example.test"},
    ],
)
def test_a_document_has_its_frame(document: Any) -> None:
    with pytest.raises(InvalidSchema):
        Catalog([document])


@given(st.text(st.sampled_from("aé漢🌱\u200d\u0301\r\n👩🇩\ud800"), max_size=12), st.integers(0, 12))
def test_the_fast_ways_agree_with_counting(text: str, limit: int) -> None:
    import regex

    assert grapheme_count(text) == len(regex.findall(r"\X", text))
    assert exceeds_graphemes(text, limit) == (grapheme_count(text) > limit)
    assert utf8_length(text) == len(text.encode("utf-8", "surrogatepass"))
    assert exceeds_bytes(text, limit) == (utf8_length(text) > limit)
