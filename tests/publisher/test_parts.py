"""The pure parts: retry, pace, batches, lines, output, passwords, addresses, keys."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexicons.syntax import Tid
from publisher.answers import error_of, refused
from publisher.batches import MAX_BODY_BYTES, Prepared, commits, most_now
from publisher.drafts import Draft
from publisher.errors import BadSetting, PublisherError, Refused
from publisher.jsonl import MAX_LINE_BYTES, read_lines
from publisher.output import as_json, line, printable
from publisher.passwords import MAX_PASSWORD_BYTES, find_password
from publisher.retry import MAX_SENSIBLE_WAIT, Budget, RetryPolicy, read_budget, read_wait
from publisher.spaces import authority_of
from publisher.tids import TidClock
from publisher.urls import is_loopback, service_url

if TYPE_CHECKING:
    from pathlib import Path

# --- retry


def test_backoff_doubles_up_to_its_cap_and_ends() -> None:
    policy = RetryPolicy(attempts=8, base=0.5, cap=10)
    assert [policy.pause(attempt, None, 1.0) for attempt in range(1, 9)] == [0.5, 1, 2, 4, 8, 10, 10, None]
    assert policy.pause(1, None, 0.0) == 0, "full jitter"


def test_what_is_asked_for_is_waited_and_no_less() -> None:
    policy = RetryPolicy(max_wait=60)
    assert policy.pause(1, 30, 0.0) == 30 and 30 < (policy.pause(1, 30, 0.9) or 0) < 31
    assert policy.pause(1, 60, 0.0) == 60 and policy.pause(1, 60.1, 0.0) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "9999999"}, MAX_SENSIBLE_WAIT),
        ({"retry-after": "Sat, 01 Jan 2000 00:00:10 GMT"}, 10),
        ({"retry-after": "Fri, 31 Dec 1999 00:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "soon", "ratelimit-reset": "946684805"}, 5),
        ({"ratelimit-reset": "-1"}, None),
    ],
)
def test_a_wait_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert read_wait(headers, 946_684_800.0) == seconds


def test_a_budget_is_read_and_delays_what_does_not_fit() -> None:
    budget = read_budget({"ratelimit-remaining": "5", "ratelimit-reset": "100"})
    assert budget == Budget(5, 100.0)
    assert (budget.delay(5, 90), budget.delay(6, 90), budget.delay(6, 101)) == (0, 10, 0)
    assert read_budget({"ratelimit-remaining": "5"}) is None
    assert read_budget({"ratelimit-remaining": "x", "ratelimit-reset": "1"}) is None


@pytest.mark.parametrize(
    ("status", "name", "kind", "unclear"),
    [
        (400, "InvalidRequest", "RefusedByPds", False),
        (400, "ExpiredToken", "NotSignedIn", False),
        (401, "", "NotSignedIn", False),
        (403, "", "NotAllowed", False),
        (401, "AccountTakedown", "NotAllowed", False),
        (413, "", "RefusedByPds", False),
        (429, "RateLimitExceeded", "TooManyRequests", False),
        (500, "", "Temporary", True),
        (501, "MethodNotImplemented", "RefusedByPds", False),
        (503, "", "Temporary", True),
    ],
)
def test_an_answer_means_what_it_means(status: int, name: str, kind: str, unclear: bool) -> None:
    failure = refused("https://pds", "m", status, {"error": name, "message": "why"}, {}, 0.0)
    assert (failure.error.code, failure.unclear) == (kind, unclear)
    assert failure.retryable is failure.error.retryable


@pytest.mark.parametrize("body", [None, b"x", [], {}, {"error": 7, "message": []}, "text"])
def test_an_error_body_may_be_anything(body: Any) -> None:
    assert error_of(body) == ("", "")


# --- batches


def _records(sizes: list[int]) -> list[Prepared]:
    return [Prepared(index, str(index), {"text": "x" * size}) for index, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 60_000), max_size=40), st.integers(1, 10))
def test_commits_keep_order_and_fit(sizes: list[int], most: int) -> None:
    batches = list(commits(_records(sizes), most=most))
    assert [record.index for batch in batches for record in batch] == list(range(len(sizes)))
    for batch in batches:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(record.size for record in batch) <= MAX_BODY_BYTES


def test_a_record_is_measured_as_it_travels() -> None:
    assert Prepared(0, "k", {"v": bytes(3000), "t": "é"}).size > 4000 + 2


def test_what_is_left_bounds_a_batch() -> None:
    assert [most_now(Budget(left, 10.0), 0.0) for left in (0, 5, 30, 6000)] == [1, 1, 10, 200]
    assert most_now(None, 0.0) == most_now(Budget(0, 10.0), 11.0) == 200


# --- JSON Lines


def test_lines_are_numbered_and_blank_ones_skipped() -> None:
    content = b'\xef\xbb\xbf{"text": "a"}\n\n{"text": "b", "tags": ["x"], "source": "s", "rkey": "k", '
    content += b'"createdAt": "c"}\r\n   \n{"text": "last", "tags": null}'
    assert list(read_lines(io.BytesIO(content))) == [
        (1, Draft("a")),
        (3, Draft("b", ("x",), "s", "c", "k")),
        (5, Draft("last")),
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"\xff", "not UTF-8"),
        (b"{}", "text must be a string"),
        (b'{"text": 7}', "text must be a string"),
        (b'{"text": null}', "text must be a string"),
        (b'{"text": "a", "source": 7}', "source must be a string"),
        (b'{"text": "a", "tags": "x"}', "tags must be a list of strings"),
        (b'{"text": "a", "tags": [7]}', "tags must be a list of strings"),
        (b'{"text": "a", "tag": ["x"]}', "unknown field 'tag'"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_line_that_cannot_be_used_is_an_error_in_its_place(content: bytes, told: str) -> None:
    first, second = read_lines(io.BytesIO(content + b'\n{"text": "next"}'))
    assert isinstance(first[1], Refused) and told in first[1].message
    assert second == (2, Draft("next"))


def test_a_line_has_a_largest_size() -> None:
    frame = len(b'{"text": ""}\n')
    fits = json.dumps({"text": "x" * (MAX_LINE_BYTES - frame)}).encode() + b"\n"
    too_long = json.dumps({"text": "x" * (MAX_LINE_BYTES * 3)}).encode() + b"\n"
    assert len(fits) == MAX_LINE_BYTES
    outcomes = list(read_lines(io.BytesIO(fits + too_long + fits)))
    assert [type(each).__name__ for _, each in outcomes] == ["Draft", "Refused", "Draft"]
    assert [number for number, _ in outcomes] == [1, 2, 3]


# --- output


@given(st.text(st.characters(codec=None)))
def test_nothing_that_drives_a_terminal_comes_out(text: str) -> None:
    for safe in (printable(text), line(text), as_json({"text": text})):
        safe.encode()  # no lone surrogates
        assert not any(char in safe for char in "\x1b\x07\x08\r\x7f\x9b\u202e\u2066\u2028")
    assert "\n" not in line(text) and "\t" not in line(text)
    assert json.loads(as_json({"text": text})) == {"text": text}


def test_letters_and_emoji_stay_as_they_are() -> None:
    text = "naïve 日本語 สวัสดี 👩‍🌾 עברית"
    assert printable(text) == line(text) == text and text in as_json(text)


# --- passwords


def test_a_password_comes_from_where_it_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from file\n")
    other = tmp_path / "other"
    other.write_text("from other")
    env = {"ENGRAM_PASSWORD": "from env", "ENGRAM_PASSWORD_FILE": str(other)}
    assert find_password(env, file=file, stdin=io.BytesIO(b"from stdin\r\n")) == "from stdin"
    assert find_password(env, file=file, stdin=None) == "from file"
    assert find_password(env, file=None, stdin=None) == "from other"
    assert find_password({"ENGRAM_PASSWORD": "from env"}, file=None, stdin=None) == "from env"
    assert find_password({}, file=None, stdin=None) is None


@pytest.mark.parametrize("content", [b"", b"\n", b" \n", b"\xff", b"x" * (MAX_PASSWORD_BYTES + 1)])
def test_a_source_without_a_password_is_an_error(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadSetting):
        find_password({"ENGRAM_PASSWORD": "not used"}, file=None, stdin=io.BytesIO(content))
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(BadSetting):
        find_password({}, file=file, stdin=None)


def test_a_password_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="cannot be read"):
        find_password({}, file=tmp_path / "none", stdin=None)


# --- addresses


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://pds.example.com", "https://pds.example.com"),
        ("https://pds.example.com/", "https://pds.example.com"),
        ("https://pds.example.com:8443", "https://pds.example.com:8443"),
        ("https://8.8.8.8", "https://8.8.8.8"),
    ],
)
def test_public_https_is_fine(url: str, base: str) -> None:
    assert service_url(url, allow_loopback=False) == base


@pytest.mark.parametrize(
    "url",
    [
        "http://pds.example.com",
        "ftp://pds.example.com",
        "https://",
        "https://pds",
        "https://10.0.0.1",
        "https://169.254.169.254",
        "https://[fd00::1]",
        "https://user@pds.example.com",
        "https://pds.example.com/path",
        "https://pds.example.com?x=1",
        "https://pds.example.com:99999",
        "https://[::1",
        "pds.example.com",
        "",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    for allow in (False, True):
        with pytest.raises(BadSetting):
            service_url(url, allow_loopback=allow)


@pytest.mark.parametrize(
    "url", ["http://localhost:2583", "http://127.0.0.1:1", "http://[::1]:2", "http://a.localhost"]
)
def test_loopback_is_allowed_when_it_is(url: str) -> None:
    assert is_loopback(url) and service_url(url, allow_loopback=True) == url
    with pytest.raises(BadSetting, match="on this machine"):
        service_url(url, allow_loopback=False)


@pytest.mark.parametrize(
    ("space", "account"),
    [
        ("did:plc:abc", "did:plc:abc"),
        ("@garden.example.com", "garden.example.com"),
        ("at://did:plc:abc/garden.engram.config/self", "did:plc:abc"),
    ],
)
def test_a_space_is_named_in_three_ways(space: str, account: str) -> None:
    assert authority_of(space) == account


@pytest.mark.parametrize(
    "space", ["at://did:plc:abc", "at://a.example.com/garden.engram.config/self", "x", ""]
)
def test_what_names_no_space_is_refused(space: str) -> None:
    with pytest.raises(BadSetting):
        authority_of(space)


# --- keys


def test_keys_only_go_up_even_when_the_clock_does_not() -> None:
    times = iter([1000, 1000, 500, 2000])
    clock = TidClock(lambda: next(times), clock_id=7)
    keys = [clock.next() for _ in range(4)]
    assert keys == sorted(keys) and [key.micros for key in keys] == [1000, 1001, 1002, 2000]
    assert all(isinstance(key, Tid) for key in keys)


def test_every_error_has_a_code_and_a_status() -> None:
    codes = {0: "", 1: "", 2: "", 3: "", 4: "", 5: "", 6: "", 7: ""}

    def all_of(kind: type[PublisherError]) -> list[type[PublisherError]]:
        return [kind, *(each for sub in kind.__subclasses__() for each in all_of(sub))]

    for kind in all_of(PublisherError):
        error = kind("m", "h")
        assert error.exit_code in codes
        assert error.to_json() == {
            "code": kind.__name__,
            "message": "m",
            "hint": "h",
            "retryable": error.retryable,
        }


@pytest.mark.parametrize(
    ("relation", "most"), [("supersedes", 39), ("derived-from", 37), ("contradicts", 38), ("caused-by", 40)]
)
def test_a_link_has_room_for_so_long_a_did(relation: str, most: int) -> None:
    def draft(length: int) -> Draft:
        did = f"did:web:{'a' * (length - 13)}.test"
        assert len(did) == length
        return Draft("x", tags=("/p", f"{relation}={did}/3l6oveex3ii2l"))

    draft(most).check()
    with pytest.raises(Refused) as refused:
        draft(most + 1).check()
    assert str(refused.value) == (
        f"tags[1]: 65 graphemes, at most 64; {relation}= can name a record of an account whose DID has"
        f" at most {most} characters, this one has {most + 1}: mention the record in the text, as at://..."
    )


def test_other_long_tags_are_no_links() -> None:
    for tag in ("a" * 65, f"note={'a' * 60}", f"supersedes=did:web:{'a' * 50}.test"):
        with pytest.raises(Refused, match=r"at most 64$"):
            Draft("x", tags=(tag,)).check()
