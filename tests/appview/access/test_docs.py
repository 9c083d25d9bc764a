"""docs/access.md has the numbers and names of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from appview.access import callers, credentials, replays, service_auth, withheld
from appview.access.errors import FAULTS
from appview.access.policy import MAX_ROLE_LINKS
from appview.access.rules import parse_object
from appview.access.text import parse_lines
from appview.cli.tokens import DEFAULT_LIFETIME
from appview.identity import resolver
from appview.settings import Settings
from appview.xrpc import limits
from lexicons.catalog import garden
from lexicons.ids import LIST_MEMBERS, RECALL_MEMORIES

PAGE = (Path(__file__).parents[3] / "docs" / "access.md").read_text("utf-8")
SETTINGS = Settings()


@pytest.mark.parametrize(
    "text",
    [
        f"at most {service_auth.MAX_TOKEN_BYTES:,} bytes",
        f"at most {credentials.MAX_CREDENTIAL_BYTES:,} bytes",
        f"at most {service_auth.MAX_LIFETIME_SECONDS:,} seconds ahead",
        f"at most {service_auth.MAX_SKEW_SECONDS} seconds ahead",
        f"1 to {service_auth.MAX_JTI_LENGTH} printable",
        f"#{service_auth.SERVICE_FRAGMENT}`",
        f"more than {callers.KEY_SECONDS // 60} minutes ago",
        f"up to {replays.MAX_REMEMBERED:,} of them, and {replays.MAX_SHARE:,} of one account",
        f"live for more than {replays.LONG_SECONDS} seconds",
        f"it takes {replays.MAX_LONG:,} accounts",
        f"expires after {DEFAULT_LIFETIME.removesuffix('d')} days",
        f"| `rate_address` | {SETTINGS.rate_address:,} |",
        f"| `rate_subject` | {SETTINGS.rate_subject:,} |",
        f"| `rate_space` | {SETTINGS.rate_space:,} |",
        f"counts as {limits.REFUSED_COST} requests",
        f"One address may have {limits.MAX_AT_ONCE}",
        f"at most {withheld.SETTLE_SECONDS:.0f} second after the change",
        f"not followed {withheld.REFUSE_SECONDS:.0f} seconds after the change",
        "at most once a minute for each account",
        "those of the last second can be unknown",
    ],
)
def test_a_number_is_that_of_the_code(text: str) -> None:
    assert text in re.sub(r"\s+", " ", PAGE)


def test_intervals_that_the_page_has_in_words() -> None:
    assert resolver.FORCE_INTERVAL == 60_000_000
    assert callers.SAVE_SECONDS == 1
    assert callers.BELIEVED_SECONDS == 3_600  # within the last hour
    assert resolver.FAILURE_AGE == 60_000_000  # with FORCE_INTERVAL: twice a minute
    assert SETTINGS.caller_key_seconds == callers.KEY_SECONDS
    assert callers.LAST_USED_STEP == 60_000_000


def test_the_rules_that_the_page_shows_can_be_followed() -> None:
    (place,) = set(re.findall(r"'(p, [^']*)'", PAGE))
    assert parse_lines([place])
    assert f"a chain of more than {MAX_ROLE_LINKS} of them" in PAGE
    shown = re.findall(r"^\| `((?:path|tag):[^`]*)` \|", PAGE, re.MULTILINE)
    assert len(shown) == 5
    for text in shown:
        assert parse_object(text.replace("DID", "did:web:bob.example"))


def test_every_method_that_governs_is_on_the_page() -> None:
    section = PAGE.partition("## Governing a space")[2].partition("\n## ")[0]
    procedures = {str(method.nsid) for method in garden().methods() if method.kind == "procedure"}
    for nsid in {*procedures, str(LIST_MEMBERS)} - {str(RECALL_MEMORIES)}:
        assert f"queries.md#{nsid.lower().replace('.', '')}" in section


def test_every_fault_is_on_the_page_and_no_other() -> None:
    told = set(re.findall(r"`((?:BadJwt|Jwt|Auth)\w*)`", PAGE)) - {"Authorization"}
    assert told == set(FAULTS) - {"AuthMissing"}


def test_every_inactive_status_is_on_the_page() -> None:
    told = PAGE.replace("taken down", "takendown")
    assert all(status in told for status in callers.INACTIVE)
