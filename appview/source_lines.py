"""Source lines: where records come from, one line each, as an operator writes it.

    https://relay.example                       the firehose of a relay
    pds+https://pds.example                     the firehose of a PDS, believed about its own accounts alone
    jetstream+wss://jetstream.example           Jetstream; each record is then proven by its author's PDS
    jetstream+wss://jetstream.example#proof=off ... or believed
    tap+ws://127.0.0.1:2480#password-file=/run/secrets/tap

The kind stands before the URL's scheme, options behind `#`, joined by `&`. Pure: nothing is opened here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from appview.errors import ConfigurationError
from appview.http.origins import origin

Kind = Literal["firehose", "pds", "jetstream", "tap"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
OPTIONS: Final[dict[Kind, tuple[str, ...]]] = {
    "firehose": ("discover",),
    "pds": ("discover",),
    "jetstream": ("discover", "proof"),
    "tap": ("discover", "password-file", "proof"),
}
PATHS: Final[dict[Kind, str]] = {
    "firehose": "/xrpc/com.atproto.sync.subscribeRepos",
    "pds": "/xrpc/com.atproto.sync.subscribeRepos",
    "jetstream": "/subscribe",
    "tap": "/channel",
}
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_ORIGINS: Final = {"ws": "http", "wss": "https"}
_FORMS: Final = "a source is wss://relay.example, pds+https://..., jetstream+wss://... or tap+ws://..."


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One source.

    `url`: of its WebSocket, without query. `proof`: whether what it says of records is proven by asking
    their hosts (a firehose brings its own proof). `discover`: who is asked which accounts there are, as
    scheme and authority; None for nobody. `name` is what the source is called in logs and cursors.
    """

    kind: Kind
    url: str
    proof: bool = True
    discover: str | None = None
    password_file: str | None = None

    @property
    def name(self) -> str:
        """Its URL, with the kind where that is not a firehose."""
        return self.url if self.kind in ("firehose", "pds") else f"{self.kind}+{self.url}"

    @property
    def origin(self) -> str:
        """Where it is, as of HTTP."""
        parts = urlsplit(self.url)
        return origin(_ORIGINS[parts.scheme], parts.hostname or "", parts.port)

    @property
    def host(self) -> str | None:
        """The PDS that speaks here for itself; None where others are spoken of."""
        return self.origin if self.kind == "pds" else None


def parse_source(line: str) -> SourceLine:
    """Read one line; raise `ConfigurationError`."""
    kind, url = _kind_of(line.strip())
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"not a URL: {_shown(line)} ({error})", hint=_FORMS) from None
    if parts.scheme not in _SCHEMES or not host or not url.isprintable() or " " in url:
        raise ConfigurationError(f"not a source: {_shown(line)}", hint=_FORMS)
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"a source with a user name or password: {parts.scheme}://{host}",
            hint="tap takes #password-file=FILE",
        )
    options = _options(kind, parts)
    path = PATHS[kind] if parts.path in ("", "/") else parts.path
    subscription = urlunsplit((_SCHEMES[parts.scheme], parts.netloc.lower(), path, "", ""))
    line_of = SourceLine(kind, subscription)
    return SourceLine(
        kind,
        subscription,
        _proof(kind, options),
        _discover(options, line_of.origin if kind in ("firehose", "pds") else None),
        options.get("password-file"),
    )


def _kind_of(line: str) -> tuple[Kind, str]:
    scheme, _, rest = line.partition("://")
    before, plus, inner = scheme.rpartition("+")
    if not plus:
        return "firehose", line
    for kind in KINDS:
        if before.lower() == kind:
            return kind, f"{inner}://{rest}"
    raise ConfigurationError(f"an unknown kind of source: {_shown(line)}", hint="known: " + ", ".join(KINDS))


def _options(kind: Kind, parts: SplitResult) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in parts.fragment.split("&") if parts.fragment else ():
        name, equals, value = item.partition("=")
        if name not in OPTIONS[kind]:
            raise ConfigurationError(
                f"{kind} has no option {name[:40]!r}", hint="options: " + ", ".join(OPTIONS[kind])
            )
        if not equals or not value or name in options:
            raise ConfigurationError(f"the option {name} needs one value, as {name}=...")
        options[name] = unquote(value)
    return options


def _proof(kind: Kind, options: dict[str, str]) -> bool:
    """Tell whether records are proven one by one. Tap has verified them; the operator runs it."""
    value = options.get("proof", "off" if kind == "tap" else "on").lower()
    if value not in ("on", "off"):
        raise ConfigurationError("proof is on or off")
    return value == "on"


def _discover(options: dict[str, str], default: str | None) -> str | None:
    value = options.get("discover")
    if value is None:
        return default
    if value.lower() == "off":
        return None
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or parts.username or parts.path not in ("", "/"):
        raise ConfigurationError(
            f"discover={value[:80]}: must be off, or the URL of a relay or PDS, such as https://relay.example"
        )
    return origin(parts.scheme, host, parts.port)


def _shown(line: str) -> str:
    return line[:200]
