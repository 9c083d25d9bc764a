"""Service-auth tokens: what is taken, and every way we know of to pass off something else as one."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import string
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from appview.access.errors import CredentialRefused
from appview.access.service_auth import (
    MAX_JTI_LENGTH,
    MAX_LIFETIME_SECONDS,
    MAX_SKEW_SECONDS,
    MAX_TOKEN_BYTES,
    WrongKey,
    check_signature,
    read_token,
)
from appview.identity.keys import PublicKey
from lexicons.syntax import Did
from tests.appview.access.minting import (
    ABSENT,
    ISSUER,
    K256,
    METHOD,
    NOW,
    P256,
    SERVICE,
    encode,
    mint,
    unsigned,
)

KEY = K256()


def prove(token: str, key: Any = KEY, *, now: int = NOW) -> Did:
    """Take a token as the service does, but for its memory of used ones."""
    read = read_token(token, service=SERVICE, method=METHOD, now=now)
    check_signature(read, PublicKey.from_multikey(key.multibase))
    return read.issuer


def fault(token: str, key: Any = KEY, *, now: int = NOW) -> str:
    """Tell why a token is refused."""
    with pytest.raises(CredentialRefused) as caught:
        prove(token, key, now=now)
    assert token[-20:] not in str(caught.value)
    return caught.value.fault


@pytest.mark.parametrize("key", [K256(), P256()], ids=["k256", "p256"])
def test_a_token_proves_its_account(key: Any) -> None:
    assert prove(mint(key), key) == ISSUER


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": f"{SERVICE}#engram_appview"},
        {"exp": NOW + MAX_LIFETIME_SECONDS},
        {"exp": NOW + 1},
        {"iat": ABSENT},
        {"iat": NOW + MAX_SKEW_SECONDS},
        {"nbf": NOW + MAX_SKEW_SECONDS},
        {"nonce": "x", "scope": ["whatever"]},
        {"iss": "did:web:alice.example.com"},
        {"jti": "x" * MAX_JTI_LENGTH},
    ],
)
def test_what_a_token_may_say(claims: dict[str, Any]) -> None:
    prove(mint(KEY, claims=claims))


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"aud": "did:web:other.example.org"}, "BadJwtAudience"),
        ({"aud": f"{SERVICE}#bsky_appview"}, "BadJwtAudience"),
        ({"aud": f"{SERVICE}#"}, "BadJwtAudience"),
        ({"aud": SERVICE.upper()}, "BadJwtAudience"),
        ({"aud": f"{SERVICE} "}, "BadJwtAudience"),
        ({"aud": [SERVICE]}, "BadJwtAudience"),
        ({"aud": f"{SERVICE}.evil.example"}, "BadJwtAudience"),
        ({"aud": ""}, "BadJwtAudience"),
        ({"aud": ABSENT}, "BadJwtAudience"),
        ({"aud": None}, "BadJwtAudience"),
        ({"lxm": "garden.engram.getMemory"}, "BadJwtLexiconMethod"),
        ({"lxm": "garden.engram.searchmemories"}, "BadJwtLexiconMethod"),
        ({"lxm": "*"}, "BadJwtLexiconMethod"),
        ({"lxm": f"{METHOD}#main"}, "BadJwtLexiconMethod"),
        ({"lxm": [METHOD]}, "BadJwtLexiconMethod"),
        ({"lxm": None}, "BadJwtLexiconMethod"),
        ({"lxm": ABSENT}, "BadJwtLexiconMethod"),
        ({"iss": f"{ISSUER}#atproto_labeler"}, "BadJwtIss"),
        ({"iss": f"{ISSUER}#atproto"}, "BadJwtIss"),
        ({"iss": "role:operator"}, "BadJwtIss"),
        ({"iss": "alice.example.com"}, "BadJwtIss"),
        ({"iss": f"at://{ISSUER}"}, "BadJwtIss"),
        ({"iss": f" {ISSUER}"}, "BadJwtIss"),
        ({"iss": f"{ISSUER}\n"}, "BadJwtIss"),
        ({"iss": "did:plc:\uff41"}, "BadJwtIss"),
        ({"iss": ""}, "BadJwtIss"),
        ({"iss": [ISSUER]}, "BadJwtIss"),
        ({"iss": ABSENT}, "BadJwtIss"),
        ({"exp": NOW}, "JwtExpired"),
        ({"exp": NOW - 1}, "JwtExpired"),
        ({"exp": 0}, "JwtExpired"),
        ({"exp": ABSENT}, "BadJwt"),
        ({"exp": None}, "BadJwt"),
        ({"exp": NOW + MAX_LIFETIME_SECONDS + 1}, "BadJwt"),
        ({"exp": (NOW + 60) * 1000}, "BadJwt"),  # milliseconds
        ({"exp": 2**63}, "BadJwt"),
        ({"exp": float(NOW + 60)}, "BadJwt"),
        ({"exp": str(NOW + 60)}, "BadJwt"),
        ({"exp": True}, "BadJwt"),
        ({"exp": -1}, "BadJwt"),
        ({"iat": NOW + MAX_SKEW_SECONDS + 1}, "BadJwt"),
        ({"iat": "now"}, "BadJwt"),
        ({"nbf": NOW + MAX_SKEW_SECONDS + 1}, "BadJwt"),
        ({"nbf": None}, "BadJwt"),
        ({"jti": ABSENT}, "BadJwt"),
        ({"jti": ""}, "BadJwt"),
        ({"jti": 7}, "BadJwt"),
        ({"jti": "x" * (MAX_JTI_LENGTH + 1)}, "BadJwt"),
        ({"jti": "a b"}, "BadJwt"),
        ({"jti": "\ud800"}, "BadJwt"),
    ],
    ids=lambda value: repr(value)[:60].encode("ascii", "backslashreplace").decode(),
)
def test_what_a_token_may_not_say(claims: dict[str, Any], expected: str) -> None:
    assert fault(mint(KEY, claims=claims)) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"typ": "at+jwt"}, "BadJwtType"),
        ({"typ": "refresh+jwt"}, "BadJwtType"),
        ({"typ": "dpop+jwt"}, "BadJwtType"),
        ({"typ": "AT+JWT"}, "BadJwtType"),
        ({"typ": "application/at+jwt"}, "BadJwtType"),
        ({"typ": ABSENT}, "BadJwtType"),
        ({"typ": ["JWT"]}, "BadJwtType"),
        ({"alg": "none"}, "BadJwtSignature"),
        ({"alg": "None"}, "BadJwtSignature"),
        ({"alg": ""}, "BadJwtSignature"),
        ({"alg": "HS256"}, "BadJwtSignature"),
        ({"alg": "RS256"}, "BadJwtSignature"),
        ({"alg": "ES256"}, "BadJwtSignature"),  # the other curve's
        ({"alg": "es256k"}, "BadJwtSignature"),
        ({"alg": ["ES256K"]}, "BadJwtSignature"),
        ({"alg": ABSENT}, "BadJwtSignature"),
        ({"crit": ["exp"]}, "BadJwt"),
        ({"crit": []}, "BadJwt"),
        ({"b64": False, "crit": ["b64"]}, "BadJwt"),
        ({"kid": "../../dev/null"}, "BadJwt"),
        ({"kid": "x' UNION SELECT 'key'--"}, "BadJwt"),
        ({"jwk": {"kty": "EC", "crv": "secp256k1", "x": "", "y": ""}}, "BadJwt"),
        ({"jku": "https://evil.example/keys"}, "BadJwt"),
        ({"x5u": "https://evil.example/cert"}, "BadJwt"),
        ({"x5c": ["MII="]}, "BadJwt"),
        ({"zip": "DEF"}, "BadJwt"),
    ],
    ids=repr,
)
def test_what_a_header_may_not_say(header: dict[str, Any], expected: str) -> None:
    assert fault(mint(KEY, header=header)) == expected


def test_an_unsigned_token_is_none() -> None:
    text = unsigned(KEY, header={"alg": "none"})
    assert fault(f"{text}.") == "BadJwt"
    assert fault(f"{text}") == "BadJwt"
    assert fault(f"{text}.{encode(bytes(64))}") == "BadJwtSignature"


@pytest.mark.parametrize("algorithm", ["HS256", "ES256K"])
def test_the_public_key_is_no_secret(algorithm: str) -> None:
    for secret in (KEY.point(), KEY.point(compressed=False), KEY.multibase.encode(), KEY.did_key.encode()):

        def sign(message: bytes, secret: bytes = secret) -> bytes:
            return hmac.new(secret, message, hashlib.sha256).digest()

        assert fault(mint(KEY, header={"alg": algorithm}, sign=sign)) == "BadJwtSignature"
        padded = mint(KEY, header={"alg": algorithm}, sign=lambda message: sign(message) * 2)
        assert fault(padded) == "BadJwtSignature"


@pytest.mark.parametrize("key", [K256(), P256()], ids=["k256", "p256"])
def test_a_signature_has_one_form(key: Any) -> None:
    def der(message: bytes) -> bytes:
        raw = key.sign(message)
        return encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))

    assert fault(mint(key, sign=key.sign_high_s), key) == "BadJwtSignature"
    assert fault(mint(key, sign=der), key) == "BadJwtSignature"
    assert fault(mint(key, sign=lambda message: key.sign(message) + b"\0"), key) == "BadJwtSignature"
    assert fault(mint(key, sign=lambda message: key.sign(message)[:-1]), key) == "BadJwtSignature"
    for wrong in (bytes(64), b"\xff" * 64, key.order.to_bytes(32, "big") * 2, (1).to_bytes(32, "big") * 2):

        def sign(_: bytes, wrong: bytes = wrong) -> bytes:
            return wrong

        assert fault(mint(key, sign=sign), key) == "BadJwtSignature"


def test_a_signature_covers_every_byte() -> None:
    token = mint(KEY)
    header, claims, signature = token.split(".")
    altered = encode(json.dumps({"typ": "JWT", "alg": "ES256K", "x": 1}).encode())
    assert fault(f"{altered}.{claims}.{signature}") == "BadJwtSignature"
    assert fault(f"{header}.{mint(KEY).split('.')[1]}.{signature}") == "BadJwtSignature"


def test_only_another_key_of_the_account_can_help() -> None:
    """Whether the key is asked for anew depends on the token alone being sound."""
    for token, key in ((mint(K256()), KEY), (mint(P256()), KEY), (mint(KEY), P256())):
        with pytest.raises(WrongKey):
            prove(token, key)
    for sign in (KEY.sign_high_s, lambda _: bytes(70)):
        with pytest.raises(CredentialRefused) as caught:
            prove(mint(KEY, sign=sign))
        assert not isinstance(caught.value, WrongKey)


@pytest.mark.parametrize(
    "claims",
    [
        b'{"iss":"did:plc:aaa","iss":"did:plc:bbb"}',
        b'{"a":{"b":1,"b":2}}',
        b'{"iss":"did:plc:aaa",}',
        b"[]",
        b'"text"',
        b"1",
        b"null",
        b"{}{}",
        b"\xef\xbb\xbf{}",
        b'{"iss":"\xff"}',
        b'{"exp":NaN}',
        b'{"exp":Infinity}',
        b'{"exp":' + b"9" * 5_000 + b"}",
        b"[" * 5_000,
        b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
        b"\0",
    ],
    ids=lambda value: repr(value[:30]),
)
def test_json_is_strict(claims: bytes) -> None:
    assert fault(mint(KEY, claims=claims)) in ("BadJwt", "BadJwtIss")
    assert fault(mint(KEY, header=claims)) in ("BadJwt", "BadJwtType")


def test_a_duplicated_claim_is_refused_even_when_both_are_right() -> None:
    text = json.dumps({"iss": ISSUER, "aud": SERVICE, "exp": NOW + 60, "lxm": METHOD, "jti": "x"})
    prove(mint(KEY, claims=text.encode()))
    assert fault(mint(KEY, claims=f'{text[:-1]}, "exp": {NOW + 60}}}'.encode())) == "BadJwt"


def test_base64_has_one_form() -> None:
    token = mint(KEY)
    head, _, signature = token.rpartition(".")
    assert len(signature) == 86  # the last character has four bits to spare
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    twins = [c for c in alphabet if c != signature[-1] and encodes_alike(signature[-1], c, alphabet)]
    assert len(twins) == 15
    for twin in twins:
        assert fault(f"{head}.{signature[:-1]}{twin}") == "BadJwt"
    for other in (f"{token}==", f"{token}=", token.replace(".", " ."), f"{token}\n", f" {token}"):
        assert fault(other) == "BadJwt"
    assert fault(f"{head}.{signature[:40]}+{signature[41:]}") == "BadJwt"
    assert fault(f"{head}.{signature[:40]}/{signature[41:]}") == "BadJwt"


def encodes_alike(one: str, other: str, alphabet: str) -> bool:
    """Tell whether two last characters give the same bytes where four bits are spare."""
    return alphabet.index(one) >> 4 == alphabet.index(other) >> 4


@pytest.mark.parametrize("token", ["", ".", "..", "...", "a.b", "a.b.c.d", "eyJ.eyJ.eyJ", "\u0430.b.c"])
def test_what_is_no_jwt_at_all(token: str) -> None:
    with pytest.raises(CredentialRefused) as caught:
        prove(token)
    assert caught.value.fault == "BadJwt"


def test_the_size_is_bounded() -> None:
    def sized(padding: int) -> str:
        return mint(KEY, claims={"x": "x" * padding})

    padding = next(n for n in range(5_800, 6_000) if len(sized(n)) >= MAX_TOKEN_BYTES - 1)
    assert MAX_TOKEN_BYTES - 2 < len(sized(padding)) <= MAX_TOKEN_BYTES
    prove(sized(padding))
    assert len(sized(padding + 2)) > MAX_TOKEN_BYTES
    assert fault(sized(padding + 2)) == "BadJwt"


@pytest.mark.parametrize(("length", "too_long"), [(MAX_TOKEN_BYTES, False), (MAX_TOKEN_BYTES + 1, True)])
def test_the_limit_is_where_it_says(length: int, too_long: bool) -> None:
    with pytest.raises(CredentialRefused) as caught:
        prove("A" * length)
    assert ("more than" in str(caught.value)) == too_long


def test_the_longest_names_fit() -> None:
    service, issuer = Did("did:web:" + "a" * 2_040), Did("did:plc:" + "b" * 2_040)
    claims = {"aud": f"{service}#engram_appview", "iss": issuer, "jti": "j" * MAX_JTI_LENGTH}
    read_token(mint(KEY, claims=claims), service=service, method=METHOD, now=NOW)


def test_two_tokens_differ_in_what_they_are_remembered_by() -> None:
    def digest(**claims: Any) -> bytes:
        token = mint(KEY, claims=claims)
        return read_token(token, service=SERVICE, method=METHOD, now=NOW).digest

    one = digest(jti="a", iss="did:plc:a")
    assert one == digest(jti="a", iss="did:plc:a", exp=NOW + 30)
    assert len({one, digest(jti="b", iss="did:plc:a"), digest(jti="a", iss="did:plc:b")}) == 3


@given(st.one_of(st.text(), st.text(alphabet=string.ascii_letters + "._-", max_size=300)))
def test_no_text_does_anything_but_be_refused(text: str) -> None:
    with pytest.raises(CredentialRefused):
        prove(text)


@given(data=st.data())
def test_a_token_changed_anywhere_is_refused(data: st.DataObject) -> None:
    token = mint(KEY, claims={"jti": secrets.token_hex(8)})
    position = data.draw(st.integers(0, len(token) - 1))
    change = data.draw(st.sampled_from(string.ascii_letters + string.digits + "-_.=+/ \n\0"))
    changed = token[:position] + change + token[position + 1 :]
    if changed != token:
        with pytest.raises(CredentialRefused):
            prove(changed)
