"""The official cases for the lexicon language and for records, and what their catalog leaves unasked."""

from __future__ import annotations

from typing import Any

import pytest

from lexicons.catalog import Catalog
from lexicons.data import from_json
from lexicons.documents import check_document
from lexicons.errors import ContractError, InvalidData, InvalidRecord, InvalidSchema
from tests.shared_data import cases, read_json, shared_path

FOLDER = "interop/atproto/lexicon"
RECORD = "example.lexicon.record"


def _cases(name: str) -> list[Any]:
    return cases(lambda: [pytest.param(case, id=case["name"]) for case in read_json(f"{FOLDER}/{name}.json")])


def _catalog() -> Catalog:
    paths = sorted(shared_path(f"{FOLDER}/catalog").glob("*.json"))
    return Catalog(read_json(f"{FOLDER}/catalog/{path.name}") for path in paths)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return _catalog()


@pytest.mark.parametrize("case", _cases("lexicon-valid"))
def test_accepts_a_valid_document(case: dict[str, Any]) -> None:
    assert check_document(case["lexicon"]) == case["lexicon"]["id"]


@pytest.mark.parametrize("case", _cases("lexicon-invalid"))
def test_refuses_an_invalid_document(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchema):
        check_document(case["lexicon"])


@pytest.mark.parametrize("case", _cases("record-data-valid"))
def test_accepts_a_valid_record(catalog: Catalog, case: dict[str, Any]) -> None:
    catalog.validate_record(RECORD, from_json(case["data"]), case["rkey"], require_type=True)


@pytest.mark.parametrize("case", _cases("record-data-invalid"))
def test_refuses_an_invalid_record(catalog: Catalog, case: dict[str, Any]) -> None:
    with pytest.raises((InvalidRecord, InvalidData)):
        catalog.validate_record(RECORD, from_json(case["data"]), case["rkey"], require_type=True)


@pytest.mark.parametrize("case", _cases("record-data-invalid"))
def test_refuses_it_for_its_own_field(catalog: Catalog, case: dict[str, Any]) -> None:
    """Some cases also lack the required field; given that, they are still refused, for their own."""
    fields = {key: value for key, value in case["data"].items() if key not in ("$type", "integer")}
    if not fields:
        return
    (field,) = fields
    with pytest.raises(ContractError) as caught:
        catalog.validate_record(RECORD, from_json({"$type": RECORD, "integer": 1, **fields}), case["rkey"])
    if isinstance(caught.value, InvalidRecord):
        assert caught.value.path.startswith(field)


@pytest.mark.parametrize("rkey", ["other", "", "demo2", "DEMO"])
def test_refuses_another_record_key(catalog: Catalog, rkey: str) -> None:
    with pytest.raises(InvalidRecord, match="does not fit the key literal:demo"):
        catalog.validate_record(RECORD, {"integer": 1}, rkey)


def test_accepts_a_missing_type_only_where_the_collection_is_known(catalog: Catalog) -> None:
    catalog.validate_record(RECORD, {"integer": 1}, "demo")
    with pytest.raises(InvalidRecord, match=r"\$type: must be example.lexicon.record"):
        catalog.validate_record(RECORD, {"integer": 1}, "demo", require_type=True)
    with pytest.raises(InvalidRecord, match=r"\$type"):
        catalog.validate_record(RECORD, {"$type": "example.lexicon.other", "integer": 1}, "demo")


def test_reads_a_methods_parameters(catalog: Catalog) -> None:
    query = "example.lexicon.query"
    pairs = [
        ("stringField", "a b"),
        ("boolean", "false"),
        ("integer", "-12"),
        ("array", "1"),
        ("array", "2"),
        ("handle", ""),
        ("strange", "kept out"),
    ]
    assert catalog.read_params(query, pairs) == {
        "stringField": "a b",
        "boolean": False,
        "integer": -12,
        "array": [1, 2],
    }


@pytest.mark.parametrize(
    ("pairs", "path"),
    [
        ([], "stringField"),
        ([("stringField", "")], "stringField"),
        ([("stringField", "a"), ("stringField", "a")], "stringField"),
        ([("stringField", "a"), ("boolean", "1")], "boolean"),
        ([("stringField", "a"), ("boolean", "True")], "boolean"),
        ([("stringField", "a"), ("integer", "1.0")], "integer"),
        ([("stringField", "a"), ("integer", "+1")], "integer"),
        ([("stringField", "a"), ("integer", "٣")], "integer"),
        ([("stringField", "a"), ("integer", "9" * 5000)], "integer"),
        ([("stringField", "a"), ("array", "1"), ("array", "x")], "array[1]"),
        ([("stringField", "a"), ("handle", "123")], "handle"),
    ],
)
def test_refuses_parameters_by_name(catalog: Catalog, pairs: list[tuple[str, str]], path: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        catalog.read_params("example.lexicon.query", pairs)
    assert caught.value.path == path


def test_checks_bodies_and_answers(catalog: Catalog) -> None:
    assert catalog.validate_output("example.lexicon.query", {"a": 1, "more": None}) == {"a": 1, "more": None}
    with pytest.raises(InvalidRecord, match="a: must be an integer"):
        catalog.validate_output("example.lexicon.query", {"a": "1"})
    with pytest.raises(InvalidRecord, match="preferences: is required"):
        catalog.validate_input("example.lexicon.procedure", {})
    with pytest.raises(InvalidSchema, match=r"no lexicon here defines app.bsky.actor.defs#preferences"):
        catalog.validate_input("example.lexicon.procedure", {"preferences": []})


def test_describes_its_methods(catalog: Catalog) -> None:
    assert [method.nsid for method in catalog.methods()] == [
        "example.lexicon.procedure",
        "example.lexicon.query",
    ]
    query = catalog.method("example.lexicon.query")
    assert (query.kind, query.errors) == ("query", ("DemoError", "AnotherDemoError"))
    assert query.parameters == ("boolean", "integer", "stringField", "handle", "array")
    with pytest.raises(InvalidSchema, match=r"no query or procedure is called example.lexicon.record"):
        catalog.method(RECORD)
    with pytest.raises(InvalidSchema, match=r"no record is called example.lexicon.query"):
        catalog.validate_record("example.lexicon.query", {})


def test_refuses_the_same_lexicon_twice() -> None:
    document = read_json(f"{FOLDER}/catalog/record.json")
    with pytest.raises(InvalidSchema, match="given twice"):
        Catalog([document, document])
