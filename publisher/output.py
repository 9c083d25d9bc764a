"""What the command line prints. Text of memories comes from anywhere and never reaches a terminal raw."""

from __future__ import annotations

import json
import re
from typing import Any, Final

# Control characters, what reorders a line, line separators, lone surrogates. A tab and a line end are fine.
_DECEIVING: Final = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff"
_UNSAFE: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_DECEIVING}]")
_UNSAFE_IN_JSON: Final = re.compile(f"[{_DECEIVING}]")


def printable(text: str) -> str:
    """Replace what could drive or deceive a terminal by visible escapes; line ends and tabs stay."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def line(text: str) -> str:
    """Make text fit in one line of output."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def as_json(value: Any) -> str:
    """Write one JSON document that is safe to print: what could drive a terminal is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
