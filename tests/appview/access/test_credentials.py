"""The Authorization header: one credential, or none, or a refusal."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appview.access.credentials import MAX_CREDENTIAL_BYTES, read_credential
from appview.access.errors import CredentialRefused
from appview.access.service_auth import MAX_TOKEN_BYTES


def test_no_header_is_no_credential() -> None:
    assert read_credential([]) is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(scheme: str) -> None:
    assert read_credential([f"{scheme} a.b-c_d~e+f/g="]) == "a.b-c_d~e+f/g="


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ([""], "AuthMissing"),
        (["Bearer"], "AuthMissing"),
        (["Bearer "], "AuthMissing"),
        (["Basic YWRtaW46YWRtaW4="], "AuthMissing"),
        (["DPoP a.b.c"], "AuthMissing"),
        (["a.b.c"], "AuthMissing"),
        (["Bearer\ta.b.c"], "AuthMissing"),
        (["Bearer\u00a0a.b.c"], "AuthMissing"),
        (["Bearer:a.b.c"], "AuthMissing"),
        ([" Bearer a.b.c"], "AuthMissing"),
        (["\u0412earer a.b.c"], "AuthMissing"),  # a Cyrillic letter
        (["Bearer  a.b.c"], "BadJwt"),
        (["Bearer a.b.c "], "BadJwt"),
        (["Bearer a.b.c\n"], "BadJwt"),
        (["Bearer a.b.c, Bearer d.e.f"], "BadJwt"),
        (["Bearer a.b.c,d.e.f"], "BadJwt"),
        (["Bearer a.b.c\0"], "BadJwt"),
        (['Bearer "a.b.c"'], "BadJwt"),
        (["Bearer a.b.\u0441"], "BadJwt"),
        (["Bearer \udcff"], "BadJwt"),  # a byte that is not UTF-8
        (["Bearer a.b.c", "Bearer a.b.c"], "BadJwt"),
        (["Bearer a.b.c", "Basic eDp5"], "BadJwt"),
        (["", ""], "BadJwt"),
    ],
)
def test_what_is_refused_and_never_taken_for_none(headers: list[str], fault: str) -> None:
    with pytest.raises(CredentialRefused) as caught:
        read_credential(headers)
    assert caught.value.fault == fault


def test_the_size_is_bounded() -> None:
    assert MAX_CREDENTIAL_BYTES >= MAX_TOKEN_BYTES
    assert read_credential(["Bearer " + "a" * MAX_CREDENTIAL_BYTES])
    with pytest.raises(CredentialRefused):
        read_credential(["Bearer " + "a" * (MAX_CREDENTIAL_BYTES + 1)])


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_a_header_is_never_anonymous(headers: list[str]) -> None:
    with suppress(CredentialRefused):
        assert read_credential(headers)
