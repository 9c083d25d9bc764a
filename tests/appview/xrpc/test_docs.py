"""docs/queries.md against the lexicons and the code: nothing is missing, nothing is made up."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest

from appview import descriptors
from appview.search import signals, trace
from appview.xrpc import admission, bodies, parameters, server
from appview.xrpc.errors import ERRORS
from lexicons.catalog import Method, garden

PAGE = (Path(__file__).parents[3] / "docs" / "queries.md").read_text("utf-8")
METHODS = garden().methods()


def definition(nsid: str, name: str) -> dict[str, Any]:
    """Read a definition of a lexicon."""
    folder = resources.files("lexicons") / "schemas" / "garden" / "engram"
    document = json.loads((folder / f"{nsid.rsplit('.', 1)[1]}.json").read_text("utf-8"))
    found: dict[str, Any] = document["defs"][name]
    return found


def section(title: str) -> str:
    """Cut out what is under a heading, its subsections included."""
    match = re.search(rf"^(#+) {re.escape(title)}$(.*?)(?=^\1 |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, f"no heading {title!r}"
    return match[2]


def rows(text: str, heading: str) -> list[str]:
    """List the names in the first column of the table with this heading, in order."""
    found = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return re.findall(r"^\| \[?`([^`]+)`", found[1], re.MULTILINE) if found else []


def test_the_overview_names_every_method_and_no_other() -> None:
    assert sorted(rows(PAGE, "method")) == sorted(method.nsid for method in METHODS)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.nsid)
def test_every_parameter_output_and_error_of_a_method_is_there(method: Method) -> None:
    text = section(method.nsid)
    assert sorted(rows(text, "parameter")) == sorted(method.parameters)
    taken = definition(method.nsid, "main").get("input", {}).get("schema", {}).get("properties", {})
    assert sorted(rows(text, "input")) == sorted(taken)
    declared = definition(method.nsid, "main")["output"]["schema"]["properties"]
    assert sorted(rows(text, "output")) == sorted(declared)
    errors = re.search(r"^Errors: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    assert errors is not None
    assert sorted(re.findall(r"`(\w+)`", errors[1])) == sorted(method.errors)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.nsid)
def test_ranges_and_defaults_are_those_of_the_lexicon(method: Method) -> None:
    limit = definition(method.nsid, "main").get("parameters", {}).get("properties", {}).get("limit")
    if limit is not None:
        told = f"| `limit` | {limit['minimum']} to {limit['maximum']}, default {limit['default']} |"
        assert told in section(method.nsid)


def test_every_error_is_there_with_its_status() -> None:
    told = re.findall(r"^\| `(\w+)` \| (\d{3}) \|", section("Errors"), re.MULTILINE)
    assert sorted(told) == sorted((error.name, str(error.status)) for error in ERRORS)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.nsid)
def test_every_error_that_a_lexicon_declares_has_a_class(method: Method) -> None:
    assert set(method.errors) <= {error.name for error in ERRORS}


def test_the_fields_of_a_memory_view_are_there() -> None:
    fields = definition("garden.engram.defs", "memoryView")["properties"]
    assert sorted(rows(section("Memory views"), "field")) == sorted(fields)


def test_the_fields_of_a_match_and_the_reasons_are_there() -> None:
    match = definition("garden.engram.defs", "match")["properties"]
    assert {*rows(section("Memory views"), "field of a match"), *signals.NAMES, "context", "score"} == set(
        match
    )
    assert rows(section("Memory views"), "reason") == list(get_args(trace.Reason))
    assert set(definition("garden.engram.defs", "missing")["properties"]["reason"]["knownValues"]) == set(
        get_args(trace.Reason)
    )
    told = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \|", section("Traces"), re.MULTILINE)
    assert {name for pair in told for name in pair if name} == set(
        definition("garden.engram.defs", "trace")["properties"]
    )


@pytest.mark.parametrize(
    "limit",
    [
        f"{server.MAX_REQUEST_LINE_BYTES:,} bytes",
        f"{server.MAX_HEADER_BYTES:,} bytes",
        f"| parameters | {parameters.MAX_PAIRS},",
        f"{bodies.MAX_BODY_BYTES:,} bytes",
        f"for a body to arrive | {bodies.BODY_SECONDS:g} s",
        f"| time for one answer | {admission.DEADLINE_SECONDS:g} s",
        f"{admission.MAX_RUNNING} running, {admission.MAX_WAITING} waiting",
        f"between two requests | {server.KEEPALIVE_SECONDS:g} s",
        f"an answer left unread | {server.STALL_SECONDS:g} s",
        f"| connections | {descriptors.MAX_CONNECTIONS:,} |",
    ],
)
def test_the_limits_are_those_of_the_code(limit: str) -> None:
    assert limit in section("Limits")
