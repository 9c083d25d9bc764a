"""Where a server is, in one way of writing."""

from __future__ import annotations

import pytest

from appview.http.origins import origin
from appview.identity.documents import read_document
from appview.source_lines import parse_source
from lexicons.syntax import Did
from tests.network.synthetic import Account


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("https", "H.example", None), "https://h.example"),
        (("https", "h.example", 443), "https://h.example"),
        (("https", "h.example.", None), "https://h.example"),
        (("https", "h.example", 80), "https://h.example:80"),
        (("http", "h.example", 80), "http://h.example"),
        (("wss", "h.example", 443), "wss://h.example"),
        (("https", "::1", 8443), "https://[::1]:8443"),
    ],
)
def test_an_origin_is_written_in_one_way(parts: tuple[str, str, int | None], text: str) -> None:
    assert origin(*parts) == text


@pytest.mark.parametrize(
    "endpoint",
    ["https://pds.example", "https://PDS.example/", "https://pds.example:443", "https://pds.example."],
)
@pytest.mark.parametrize(
    "line",
    ["pds+https://pds.example", "pds+wss://pds.example:443/", "pds+https://Pds.example./"],
)
def test_a_document_and_a_source_line_mean_the_same_host(endpoint: str, line: str) -> None:
    account = Account("alice.test", pds=endpoint)
    identity = read_document(Did(account.did), account.document())
    assert identity.pds == parse_source(line).host == "https://pds.example"


@pytest.mark.parametrize("host", ["pds.example.", "PDS.example:443", "pds.example"])
def test_lists_are_asked_of_one_host_however_it_is_written(host: str) -> None:
    line = parse_source(f"jetstream+wss://jetstream.example#discover=https://{host}")
    assert line.discover == "https://pds.example"
