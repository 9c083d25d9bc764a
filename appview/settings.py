"""The appview's settings: each is declared once; flags, environment, file and documentation follow from that.

A flag beats an `ENGRAM_*` variable, that beats the table `[appview]` of a TOML file, that beats the default.
What is unknown or out of range is a `ConfigurationError` that names where it came from; nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import urlsplit

import platformdirs

from appview import setting_kinds as kinds
from appview.errors import ConfigurationError
from appview.folder import CONTROL_FILE, QUERIES_FOLDER, SPACES_FOLDER
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

APPLICATION: Final = "garden-engram"  # name of the folder inside the platform's data and config folders
PREFIX: Final = "ENGRAM_"
CONFIG_VARIABLE: Final = "ENGRAM_CONFIG"  # names the TOML file
CONFIG_FILE: Final = "engram.toml"  # its name where it is not told
TABLE: Final = "appview"  # our part of that file
TYPO_SIMILARITY: Final = 0.8  # difflib ratio from which an unknown variable is taken for a misspelt one
MAX_QUERY_MS: Final = 600_000
MAX_INDEX_MEMORY_MB: Final = 1_000_000
MAX_OPEN_SPACES: Final = 10_000  # each costs several file descriptors and page caches
MAX_LOG_DAYS: Final = 3_650
MAX_LOG_MB: Final = 1_000_000
MAX_RATE: Final = 100_000_000  # requests a minute; more than any machine answers

Registration = Literal["open", "closed"]
Reading = Literal["everyone", "members"]
Fusion = Literal["convex", "rank"]
LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: how it is called, what it takes, and what it is for."""

    name: str
    kind: str
    default: str
    description: str
    parse: Callable[[object], Any]
    repeats: bool = False

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")


def _setting(
    default: Any, kind: str, parse: Callable[[object], Any], description: str, *, shown: str = ""
) -> Any:
    metadata = {"kind": kind, "parse": parse, "description": description, "shown": shown}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def default_data_folder() -> Path:
    """Name the folder for an appview's databases on this platform."""
    return platformdirs.user_data_path(APPLICATION, appauthor=False) / "appview"


def default_config_file() -> Path:
    """Name the TOML file that is read where it exists and no other is named."""
    return platformdirs.user_config_path(APPLICATION, appauthor=False) / CONFIG_FILE


def _has_processors() -> bool:
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an appview runs with."""

    source: tuple[str, ...] = _setting(
        (),
        "sources",
        kinds.sources,
        "Where records come from: relays, PDSs, Jetstream, Tap, as [Sources](#sources) has it. Several are"
        " separated by spaces in the environment, are a list in the file, and repeat the flag.",
        shown="none; `serve` needs at least one",
    )
    data: Path = _setting(
        default_data_folder,
        "folder",
        kinds.folder,
        "Folder of the databases. One running appview a folder.",
        shown="`garden-engram/appview` in the platform's data folder",
    )
    host: str = _setting("127.0.0.1", "address", kinds.plain, "Address to listen on.")
    port: int = _setting(
        8420,
        "number",
        kinds.number(0, kinds.MAX_PORT),
        "Port to listen on; 0 takes any that is free, and the log names it.",
    )
    public_url: str | None = _setting(
        None,
        "URL",
        kinds.url("https", "http", bare=True),
        "Address under which others reach this service. The service's DID is made from it.",
        shown="none; the DID is that of `localhost` and the port",
    )
    metrics: tuple[str, int] | None = _setting(
        None,
        "address:port",
        kinds.address,
        "Address and port of `/metrics`, for Prometheus. Not for the public: it names sources and hosts.",
        shown="none; there are no metrics",
    )
    plc_url: str = _setting(
        "https://plc.directory",
        "URL",
        kinds.url("https", "http", bare=True),
        "The did:plc directory that is asked for keys and hosts of accounts.",
    )
    allow_loopback: bool = _setting(
        False,
        "true or false",
        kinds.flag,
        "Let directory, PDSs and sources be on this machine, and without TLS. For development and tests.",
    )
    registration: Registration = _setting(
        "open",
        "open or closed",
        kinds.one_of("open", "closed"),
        "Which config records make a space: everybody's, or only those of spaces that were added by"
        " `engram-appview space add`.",
    )
    reading: Reading = _setting(
        "everyone",
        "everyone or members",
        kinds.one_of("everyone", "members"),
        "Who reads a space that is declared from now on, until its rules say otherwise.",
    )
    space_rules: tuple[str, ...] = _setting(
        (),
        "rules",
        kinds.lines,
        "Further rules for a space that is declared from now on; SPACE in a rule stands for its URI.",
        shown="none",
    )
    embedder: str | None = _setting(
        None,
        "embedder",
        kinds.plain,
        "Model that turns the words of a query into a vector, so that a client may send words alone. Spaces"
        " of another model are then searched by keyword.",
        shown="none; queries without a vector are searched by keyword",
    )
    log_format: LogFormat = _setting(
        "console", "json or console", kinds.one_of("json", "console"), "How log lines are written to stderr."
    )
    log_level: LogLevel = _setting(
        "info",
        "debug, info, warning or error",
        kinds.one_of("debug", "info", "warning", "error"),
        "The least important lines that are written.",
    )
    max_open_spaces: int = _setting(
        64,
        "number",
        kinds.number(1, MAX_OPEN_SPACES),
        "How many spaces' files are open at once. Others are opened when they are needed.",
    )
    language: str = _setting(
        "english",
        "language",
        kinds.language,
        "Language of the words in Latin letters, by which word forms are known: `french`, `german` and so on."
        " Other scripts tell theirs. After a change the words of every space are made anew, in the"
        " background.",
    )
    fusion: Fusion = _setting(
        "convex",
        "convex or rank",
        kinds.one_of("convex", "rank"),
        "How scores by words and by meaning are put together: their weighted sum, or that of their ranks.",
    )
    query_timeout_ms: int = _setting(
        3_000,
        "number",
        kinds.number(1, MAX_QUERY_MS),
        "How long a search may take, in milliseconds. Past it the best so far is the answer, marked"
        " `approximate`.",
    )
    index_memory_mb: int = _setting(
        2_048,
        "number",
        kinds.number(0, MAX_INDEX_MEMORY_MB),
        "How much memory the indexes of all spaces together may take, in MiB: about 1.4 kB a memory at 384"
        " dimensions. Spaces that find no room are searched in their files.",
    )
    prove_ahead: bool = _setting(
        _has_processors,
        "true or false",
        kinds.flag,
        "Prove commits in a second process while they queue up. It is started when it is needed, and takes"
        " some 40 MB.",
        shown="true, on a machine of several processors",
    )
    caller_key_seconds: int = _setting(
        300,
        "number",
        kinds.number(60, 43_200),
        "How old an account's key may be that a caller is known by, in seconds. It is then asked for again.",
    )
    rate_address: int = _setting(
        12_000,
        "number",
        kinds.number(0, MAX_RATE),
        "Requests a minute from one network address (IPv6: one /64 network); 0 sets no limit.",
    )
    rate_subject: int = _setting(
        6_000,
        "number",
        kinds.number(0, MAX_RATE),
        "Requests a minute of one account or token; 0 sets no limit.",
    )
    rate_space: int = _setting(
        30_000,
        "number",
        kinds.number(0, MAX_RATE),
        "Requests a minute to one space, by all who may read it together; 0 sets no limit.",
    )
    trusted_proxies: tuple[kinds.Network, ...] = _setting(
        (),
        "addresses",
        kinds.networks,
        "Addresses or networks of the reverse proxies in front of this service. Only what they say in"
        " `X-Forwarded-For` is taken for a caller's address.",
        shown="none; the caller's address is that of the connection",
    )

    query_log: tuple[str, ...] = _setting(
        (),
        "spaces",
        kinds.spaces,
        "Spaces whose questions are kept, to be judged and measured: `all`, or their URIs or authorities'"
        " DIDs. What is kept is told in [Evaluation](evaluation.md#a-log-of-questions).",
        shown="none; no question is kept",
    )
    query_log_subjects: bool = _setting(
        False, "true or false", kinds.flag, "Keep with each question of `query_log` who asked it."
    )
    query_log_days: int = _setting(
        30, "number", kinds.number(1, MAX_LOG_DAYS), "How long questions are kept, in days."
    )
    query_log_mb: int = _setting(
        16,
        "number",
        kinds.number(1, MAX_LOG_MB),
        "How much is kept of one space's questions, in MiB; the oldest go first. A question takes about"
        " 1.2 kB at 384 dimensions.",
    )

    @classmethod
    def load(
        cls,
        flags: Mapping[str, object] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        config_file: Path | None = None,
    ) -> Self:
        """Gather the settings from flags (by field name; None and () mean not given), environment and file.

        Raises `ConfigurationError`.
        """
        environ = os.environ if environ is None else environ
        _refuse_misspelt(environ)
        path, must_exist = _config_path(config_file, environ)
        document = _read_file(path, must_exist=must_exist)
        values: dict[str, Any] = {}
        for setting in SETTINGS:
            given = (flags or {}).get(setting.name)
            if given is not None and given != ():
                values[setting.name] = _parse(setting, given, setting.flag)
            elif environ.get(setting.variable, "").strip():
                values[setting.name] = _parse(setting, environ[setting.variable], setting.variable)
            elif setting.name in document:
                values[setting.name] = _parse(setting, document[setting.name], f"{path}: {setting.name}")
        return cls(**values)

    @property
    def service_did(self) -> Did:
        """The DID of this service: `did:web:` and the host of its public address."""
        if self.public_url is None:
            return Did(f"did:web:localhost%3A{self.port}")
        parts = urlsplit(self.public_url)
        return Did(f"did:web:{parts.hostname}" + (f"%3A{parts.port}" if parts.port else ""))

    @property
    def control_file(self) -> Path:
        """The database of spaces, repos and rules."""
        return self.data / CONTROL_FILE

    @property
    def queries_folder(self) -> Path:
        """The folder with the kept questions, one file a space."""
        return self.data / QUERIES_FOLDER

    @property
    def spaces_folder(self) -> Path:
        """The folder with one file a space."""
        return self.data / SPACES_FOLDER


def _declarations() -> tuple[Setting, ...]:
    settings = []
    for field in dataclasses.fields(Settings):
        about = field.metadata
        shown = (
            about["shown"] or f"`{str(field.default).lower() if field.default is False else field.default}`"
        )
        settings.append(
            Setting(
                field.name,
                about["kind"],
                shown,
                about["description"],
                about["parse"],
                isinstance(field.default, tuple),
            )
        )
    return tuple(settings)


SETTINGS: Final = _declarations()


def _parse(setting: Setting, value: object, place: str) -> Any:
    try:
        return setting.parse(value)
    except ValueError as error:
        raise ConfigurationError(
            f"{place} {error}, got {_shown(value)}", hint=f"{setting.name}: {setting.description}"
        ) from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _refuse_misspelt(environ: Mapping[str, str]) -> None:
    """Refuse a variable that is nearly one of ours: `ENGRAM_REGISTRATON=closed` must not leave the door open.

    Other `ENGRAM_*` variables belong to other programs, such as the publisher.
    """
    known = {setting.variable.removeprefix(PREFIX): setting.variable for setting in SETTINGS}
    known[CONFIG_VARIABLE.removeprefix(PREFIX)] = CONFIG_VARIABLE
    for name in sorted(environ):
        rest = name.upper().removeprefix(PREFIX)
        if not name.upper().startswith(PREFIX) or name in known.values():
            continue
        near = difflib.get_close_matches(rest, known, n=1, cutoff=TYPO_SIMILARITY)
        if near:
            raise ConfigurationError(
                f"{name} is not a setting", hint=f"did you mean {known[near[0]]}? Unset it if not"
            )


def _config_path(config_file: Path | None, environ: Mapping[str, str]) -> tuple[Path, bool]:
    if config_file is not None:
        return config_file, True
    if named := environ.get(CONFIG_VARIABLE, "").strip():
        return Path(named).expanduser(), True
    return default_config_file(), False


def _read_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """Read our table of the file. Other tables are other programs', what stands in none is nobody's."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise ConfigurationError(
                f"there is no file {path}", hint=f"see --config and {CONFIG_VARIABLE}"
            ) from None
        return {}
    except (OSError, ValueError) as error:  # ValueError: not TOML, or not UTF-8
        raise ConfigurationError(f"cannot read {path}: {error}", hint="it must be a TOML file") from None
    for name, value in document.items():
        if not isinstance(value, dict):
            raise ConfigurationError(
                f"{path}: {name} stands outside of [{TABLE}]", hint=f"write the line [{TABLE}] above it"
            )
        if name != TABLE and difflib.get_close_matches(name, [TABLE], cutoff=TYPO_SIMILARITY):
            raise ConfigurationError(f"{path}: [{name}] is unknown", hint=f"did you mean [{TABLE}]?")
    table: dict[str, Any] = document.get(TABLE, {})
    known = [setting.name for setting in SETTINGS]
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "known are: " + ", ".join(known)
            raise ConfigurationError(f"{path}: {key} is not a setting of [{TABLE}]", hint=hint)
    return table
