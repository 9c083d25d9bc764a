"""Who runs a command, for the log of changes: whoever may open the data folder is the operator, by name."""

from __future__ import annotations

import os
import pwd
import re
from typing import Final

SUDO_VARIABLE: Final = "SUDO_USER"  # set by sudo and doas-like programs: who has become another user
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}", re.ASCII)  # 32: what Linux takes


def actor() -> str:
    """Name the operator as `operator (USER)`: the user of the system that runs the command, or the one who
    has become that by sudo. It tells people apart who mean no harm; the data folder is theirs anyway."""
    user = os.environ.get(SUDO_VARIABLE, "")
    if not _NAME.fullmatch(user):
        user = _user()
    return f"operator ({user})"


def _user() -> str:
    """Name the user of this process by the system's own list, by number where it has no name there."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
