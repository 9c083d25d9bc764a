"""Log lines: one JSON object or one readable line each, on stderr.

Invariant: no memory text, vector or credential is ever written. A value under a key of `SECRET_KEYS`, at any
depth, is replaced by how large it is; so are bytes, and the query of a URL; a long string is cut. What comes
from the network cannot forge a line or move a terminal's cursor: control characters are written as escapes.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from appview.settings import LogFormat, LogLevel

SECRET_KEYS: Final = frozenset(
    {
        "text",
        "content",
        "record",
        "memory",
        "vector",
        "embedding",
        "next_embedding",
        "nextembedding",
        "q",
        "query",
        "query_string",
        "token",
        "jwt",
        "password",
        "secret",
        "authorization",
        "cookie",
        "headers",
    }
)
MAX_STRING: Final = 2_000  # characters; a log line is read by people
MAX_DEPTH: Final = 6  # nested mappings and lists
MULTI_LINE_KEYS: Final = frozenset({"exception", "stack"})  # our own tracebacks keep their lines
# Loggers of libraries that write URLs, headers or frames when they are let.
TALKATIVE: Final = ("aiohttp.access", "asyncio", "httpcore", "httpx", "websockets", "casbin")
_QUERY = re.compile(r"""((?:\b[a-z][a-z+.-]*://[^\s?#"']+|/xrpc/[\w.-]+)\?)[^\s"'<>]+""", re.IGNORECASE)
_BEARER = re.compile(r"\b((?:Bearer|Basic|DPoP)\s+)[\w.~+/=-]+", re.IGNORECASE)
_CONTROLS: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}
LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:
    """Send structlog's lines, and those of the standard library's loggers, to `stream` (default: stderr)."""
    stream = sys.stderr if stream is None else stream
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    final: list[structlog.typing.Processor]
    if log_format == "json":
        final = [
            structlog.processors.format_exc_info,
            redact,
            structlog.processors.JSONRenderer(default=repr),
        ]
    else:
        colours = stream.isatty()
        final = [
            structlog.processors.format_exc_info,
            redact,
            structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback),
        ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace what must not be written: the last processor before a line is rendered."""
    for key, value in event.items():
        event[key] = _clean(key, value, MAX_DEPTH)
    return event


def _clean(key: object, value: Any, depth: int) -> Any:
    if isinstance(key, str) and key.lower().replace("-", "_") in SECRET_KEYS and not _is_count(value):
        return f"[redacted, {len(value)} long]" if hasattr(value, "__len__") else "[redacted]"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    if isinstance(value, str):
        return _clean_text(value, lines=key in MULTI_LINE_KEYS)
    if isinstance(value, Mapping):
        if depth == 0:
            return f"[{len(value)} entries]"
        return {str(inner): _clean(inner, item, depth - 1) for inner, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        if depth == 0:
            return f"[{len(value)} items]"
        return [_clean(None, item, depth - 1) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _clean_text(repr(value), lines=False)


def _is_count(value: Any) -> bool:
    """Tell whether a value is too plain to hold a secret: `vector=384` or `token=None` may be written."""
    return value is None or isinstance(value, bool | int)


def _clean_text(text: str, *, lines: bool) -> str:
    if len(text) > MAX_STRING and not lines:
        text = f"{text[:MAX_STRING]}... [{len(text)} characters]"
    text = _BEARER.sub(r"\1[redacted]", _QUERY.sub(r"\1[redacted]", text))
    text = text.encode("utf-8", "backslashreplace").decode("utf-8").translate(_CONTROLS)
    return text if lines else text.replace("\n", "\\n")
