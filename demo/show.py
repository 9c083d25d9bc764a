"""What the demo prints. Text from the network is data: control characters never reach the terminal."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH: Final = 100
_COLOUR: Final = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _paint(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if _COLOUR else text


def clean(text: str) -> str:
    """Replace what a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in text)


def say(text: str = "") -> None:
    """Print a line at once."""
    print(text, flush=True)


def heading(text: str) -> None:
    """Begin a chapter."""
    say(f"\n{_paint('1', text)}")


def command(line: str) -> None:
    """Show a command that a user would type."""
    say(_paint("36", f"  $ {line}"))


def note(text: str) -> None:
    """Print an indented remark."""
    for paragraph in text.splitlines():
        for line in textwrap.wrap(
            clean(paragraph), WIDTH - 4, break_long_words=False, break_on_hyphens=False
        ):
            say(f"    {line}")


def question(asked: Mapping[str, Any], mode: str, milliseconds: float) -> None:
    """Show what was asked and which search ran."""
    narrowed = [f"tag {tag}" for tag in asked.get("tags", [])]
    narrowed += [f"author {asked['author']}"] if "author" in asked else []
    ran = ", ".join([mode, *narrowed, f"{milliseconds:.0f} ms"])
    say()
    say(f"  {_paint('1', '? ' + clean(asked['q']))}   ({ran})")
    say(_paint("2", f"    {asked['why']}"))


def hits(memories: Sequence[Mapping[str, Any]], names: Mapping[str, str], most: int = 2) -> None:
    """Show the first hits, each with where it is from and why it is there."""
    if not memories:
        note("nothing")
    for position, memory in enumerate(memories[:most], 1):
        match = memory.get("match", {})
        text = textwrap.shorten(clean(memory["text"]), WIDTH * 2 - 20, placeholder=" ...")
        lines = textwrap.wrap(text, WIDTH - 12) or [""]
        say(f"    {position}. {match.get('score', 0) / 1000:.2f}  {lines[0]}")
        for line in lines[1:]:
            say(f"             {line}")
        author = names.get(memory["author"], memory["author"])
        say(_paint("2", f"             {author} at {clean(memory.get('path', '/'))} · {reason(match)}"))


def reason(match: Mapping[str, Any]) -> str:
    """Put a hit's breakdown into words: what each arm saw, and what it gave to the score."""
    parts = []
    for arm, unit in (("keyword", "BM25"), ("vector", "cosine")):
        component = match.get(arm)
        if component is not None and component["contribution"]:
            raw, given = component["raw"] / 1000, component["contribution"] / 1000
            parts.append(f"{arm} {unit} {raw:.2f} gives {given:.2f}")
    words = ", ".join(clean(word) for word in match.get("words", [])[:8])
    return " + ".join(parts) + (f" · words: {words}" if words else "")
