"""Log lines say what happened, and never a memory's text, a vector or a credential."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from appview.logs import MAX_STRING, SECRET_KEYS, configure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from appview.settings import LogFormat

SECRET = "tomatoes-need-water"


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    """Give the process its logging back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_line_has_event_level_time_and_facts(stream: io.StringIO) -> None:
    configure("json", "info", stream)
    structlog.get_logger().warning("record skipped", did="did:plc:x", reason="model", count=3)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "record skipped",
        "level": "warning",
        "did": "did:plc:x",
        "reason": "model",
        "count": 3,
    }


def test_console_line_is_readable_and_has_no_colours_in_a_file(stream: io.StringIO) -> None:
    configure("console", "info", stream)
    structlog.get_logger().info("space declared", space="at://did:plc:x/garden.engram.config/self")
    (line,) = stream.getvalue().splitlines()
    assert "space declared" in line
    assert "space=at://did:plc:x/garden.engram.config/self" in line
    assert "\x1b" not in line


def test_less_important_lines_are_left_out(stream: io.StringIO) -> None:
    configure("json", "warning", stream)
    structlog.get_logger().info("quiet")
    logging.getLogger("library").info("quiet")
    structlog.get_logger().error("loud")
    logging.getLogger("library").error("loud %d", 2)
    assert [(line["event"], line["level"]) for line in lines(stream)] == [
        ("loud", "error"),
        ("loud 2", "error"),
    ]


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("key", sorted(SECRET_KEYS))
def test_secret_is_replaced_at_any_depth(stream: io.StringIO, log_format: LogFormat, key: str) -> None:
    configure(log_format, "debug", stream)
    values: list[Any] = [SECRET, SECRET.encode(), [SECRET], {"a": SECRET}]
    for value in values:
        structlog.get_logger().info("seen", **{key: value})
        structlog.get_logger().info("seen", inner={"deep": [{key.upper(): value}]})
    assert SECRET not in stream.getvalue()
    assert stream.getvalue().count("redacted") == 2 * len(values)


def test_count_under_a_secret_key_is_written(stream: io.StringIO) -> None:
    configure("json", "info", stream)
    structlog.get_logger().info("seen", vector=384, token=None, text=True)
    (line,) = lines(stream)
    assert (line["vector"], line["token"], line["text"]) == (384, None, True)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_bytes_are_never_written(stream: io.StringIO, log_format: LogFormat) -> None:
    configure(log_format, "debug", stream)
    data = SECRET.encode()
    structlog.get_logger().info("seen", blob=data, more=[memoryview(data), bytearray(data)])
    assert SECRET not in stream.getvalue()
    assert stream.getvalue().count(f"[{len(data)} bytes]") == 3


@pytest.mark.parametrize(
    "text",
    [
        f"GET /xrpc/garden.engram.searchMemories?q={SECRET}&space=x HTTP/1.1",
        f"cannot reach https://engine.example/embed?input={SECRET}",
        f"wss://relay.example/xrpc/com.atproto.sync.subscribeRepos?cursor={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization: bearer {SECRET}",
    ],
)
def test_query_of_a_url_and_credential_in_a_sentence_are_replaced(stream: io.StringIO, text: str) -> None:
    configure("json", "debug", stream)
    structlog.get_logger().info(text, error=text)
    logging.getLogger("library").warning(text)
    assert SECRET not in stream.getvalue()
    assert "redacted" in lines(stream)[1]["event"]


def test_libraries_do_not_write_what_they_are_asked(stream: io.StringIO) -> None:
    configure("json", "debug", stream)
    for name in ("aiohttp.access", "httpx", "websockets.client"):
        logging.getLogger(name).info("> %r", SECRET)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_text_from_the_network_cannot_forge_lines_or_colours(
    stream: io.StringIO, log_format: LogFormat
) -> None:
    configure(log_format, "info", stream)
    structlog.get_logger().info("seen", handle="a\x1b[31m\r\n2026 [info] forged\x00\ud800\x9b1m")
    assert len(stream.getvalue().splitlines()) == 1
    assert not set("\x1b\r\x00\x9b") & set(stream.getvalue())
    stream.getvalue().encode("utf-8")


def test_long_string_is_cut_and_says_how_long_it_was(stream: io.StringIO) -> None:
    configure("json", "info", stream)
    structlog.get_logger().info("seen", exact="x" * MAX_STRING, longer="x" * (MAX_STRING + 1))
    (line,) = lines(stream)
    assert line["exact"] == "x" * MAX_STRING
    assert line["longer"] == "x" * MAX_STRING + f"... [{MAX_STRING + 1} characters]"


def test_endless_nesting_ends(stream: io.StringIO) -> None:
    configure("json", "info", stream)
    circle: dict[str, Any] = {}
    circle["self"] = circle
    structlog.get_logger().info("seen", circle=circle)
    assert "[1 entries]" in stream.getvalue()


def test_exception_is_written_with_its_traceback(stream: io.StringIO) -> None:
    configure("json", "info", stream)
    try:
        raise ValueError("boom")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = lines(stream)
    assert "ValueError: boom" in line["exception"]
    assert line["exception"].startswith("Traceback")
    assert "\n" in line["exception"]


def test_exception_is_readable_on_the_console(stream: io.StringIO) -> None:
    configure("console", "info", stream)
    try:
        raise ValueError("boom")
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "ValueError: boom" in stream.getvalue().splitlines()


def test_object_that_is_no_json_is_written_as_it_shows_itself(stream: io.StringIO) -> None:
    configure("json", "info", stream)
    structlog.get_logger().info("seen", error=LookupError("gone"), number=1.5, nothing=None, items={1})
    (line,) = lines(stream)
    assert (line["error"], line["number"], line["nothing"], line["items"]) == (
        "LookupError('gone')",
        1.5,
        None,
        [1],
    )
