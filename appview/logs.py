"""Log lines: one JSON object or one readable line each, on stderr.

Invariant: no memory text, vector or credential is ever written. A value under a key of `SECRET_KEYS`, at any
depth, is replaced by how large it is; bytes are never written; a long string is cut.
"""

from __future__ import annotations

import logging
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
            structlog.processors.JSONRenderer(ensure_ascii=False, default=repr),
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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace what must not be written: the last processor before a line is rendered."""
    for key, value in event.items():
        event[key] = _clean(key, value, MAX_DEPTH)
    return event


def _clean(key: object, value: Any, depth: int) -> Any:
    if isinstance(key, str) and key.lower().replace("-", "_") in SECRET_KEYS and value is not None:
        return f"[redacted, {len(value)} long]" if hasattr(value, "__len__") else "[redacted]"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    if isinstance(value, str):
        return value if len(value) <= MAX_STRING else f"{value[:MAX_STRING]}... [{len(value)} characters]"
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
    return _clean(None, repr(value) if not isinstance(value, BaseException) else f"{value!r}", depth)
