"""Settings of the publisher: flag beats environment beats file beats default.

The file is TOML, its table `[publisher]`: the one `ENGRAM_CONFIG` names, else `engram.toml` in the platform's
folder for settings. Secrets come from the environment alone.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs

from embedders.errors import InvalidSpec
from embedders.spec import DEFAULT_SPEC, MAX_THREADS, parse_spec
from publisher.errors import BadSetting
from publisher.retry import DEFAULT_MAX_WAIT, MAX_SENSIBLE_WAIT
from publisher.urls import is_loopback, service_url

if TYPE_CHECKING:
    from collections.abc import Mapping

APP: Final = "garden-engram"
TABLE: Final = "publisher"
CONFIG_VARIABLE: Final = "ENGRAM_CONFIG"
API_KEY_VARIABLE: Final = "ENGRAM_EMBEDDER_API_KEY"
DEFAULT_PLC_URL: Final = "https://plc.directory"
MAX_FILE_BYTES: Final = 1_000_000  # ours


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. The name of a field is its key in the file and, upper case after `ENGRAM_`,
    its variable in the environment."""

    space: str | None = None
    embedder: str = DEFAULT_SPEC
    next_embedder: str | None = None
    embedder_threads: int | None = None
    model_cache: Path | None = None
    session: Path = field(default_factory=lambda: _folder(platformdirs.user_state_path) / "session.json")
    pds: str | None = None
    plc_url: str = DEFAULT_PLC_URL
    allow_loopback: bool = False
    max_wait: float = DEFAULT_MAX_WAIT
    embedder_api_key: str | None = field(default=None, repr=False)


def load_settings(
    flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Put the settings together; `flags` that are None do not count. Raise `BadSetting`."""
    env = os.environ if environment is None else environment
    values: dict[str, tuple[str, Any]] = {}
    for name, value in _file(env).items():
        values[name] = (f"{name} in the file", value)
    for name in names():
        if text := env.get(variable(name), ""):
            values[name] = (variable(name), text)
    for name, value in (flags or {}).items():
        if value is not None:
            values[name] = (flag(name), value)
    kwargs = {name: _read(name, where, value) for name, (where, value) in values.items()}
    settings = Settings(**kwargs, embedder_api_key=env.get(API_KEY_VARIABLE) or None)
    return _checked(settings)


def names() -> tuple[str, ...]:
    """Name every setting that a file, the environment or a flag can give."""
    return tuple(each.name for each in fields(Settings) if each.name != "embedder_api_key")


def variable(name: str) -> str:
    """Name a setting's environment variable."""
    return f"ENGRAM_{name.upper()}"


def flag(name: str) -> str:
    """Name a setting's flag."""
    return "--" + name.replace("_", "-")


def _file(env: Mapping[str, str]) -> dict[str, Any]:
    named = env.get(CONFIG_VARIABLE)
    path = Path(named).expanduser() if named else _folder(platformdirs.user_config_path) / "engram.toml"
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        if named:
            raise BadSetting(f"no file {path}", f"correct {CONFIG_VARIABLE}") from None
        return {}
    except OSError as error:
        raise BadSetting(f"{path} cannot be read: {error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise BadSetting(f"{path} has more than {MAX_FILE_BYTES} bytes")
    try:
        table = tomllib.loads(content.decode()).get(TABLE, {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"{path} is not TOML: {error}") from None
    if not isinstance(table, dict):
        raise BadSetting(f"{path}: [{TABLE}] must be a table")
    for name in table:
        if name not in names():
            raise BadSetting(f"{path}: unknown setting {name!r} in [{TABLE}]", f"known: {', '.join(names())}")
    return table


def _read(name: str, where: str, value: Any) -> Any:
    match name:
        case "allow_loopback":
            return _switch(where, value)
        case "max_wait":
            return _number(where, value, 0, MAX_SENSIBLE_WAIT)
        case "embedder_threads":
            return int(_number(where, value, 1, MAX_THREADS))
        case "model_cache" | "session":
            return Path(_text(where, value)).expanduser()
        case _:
            return _text(where, value)


def _checked(settings: Settings) -> Settings:
    loopback = settings.allow_loopback or is_loopback(settings.plc_url) or is_loopback(settings.pds or "")
    service_url(settings.plc_url, allow_loopback=loopback)
    if settings.pds is not None:
        service_url(settings.pds, allow_loopback=loopback)
    try:
        parse_spec(settings.embedder)
        if settings.next_embedder is not None:
            parse_spec(settings.next_embedder)
    except InvalidSpec as error:
        raise BadSetting(error.message, error.hint) from None
    return settings


def _text(where: str, value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise BadSetting(f"{where} must be text that is not empty")
    return value.strip()


def _switch(where: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("1", "true", "yes", "on"):
        return True
    if isinstance(value, str) and value.lower() in ("0", "false", "no", "off"):
        return False
    raise BadSetting(f"{where} must be true or false")


def _number(where: str, value: Any, low: float, high: float) -> float:
    try:
        number = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        )
    except (ValueError, TypeError):
        number = None
    if number is None or not low <= number <= high:
        raise BadSetting(f"{where} must be a number from {low:g} to {high:g}")
    return number


def _folder(kind: Any) -> Path:
    folder: Path = kind(APP, appauthor=False)
    return folder
