"""The demo does what the README says it does; its own checks make it fail where an answer is missing."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from tests.network.devnet import HERE as NETWORK

ROOT = Path(__file__).parent.parent.parent
CHAPTERS = (
    "1. A network of its own",
    "2. commons.test declares a space",
    "3. Each agent publishes",
    "4. Questions",
    "5. A memory belongs to its author",
    "6. What does not fit",
    "Where to look next",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.network
@pytest.mark.timeout(240)
async def test_the_demo_publishes_and_finds(tmp_path: Path) -> None:
    assert NETWORK.is_dir()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "demo",
        "--port",
        str(free_port()),
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    text = out.decode()
    assert process.returncode == 0, f"{text}\n{err.decode()}"
    positions = [text.find(chapter) for chapter in CHAPTERS]
    assert -1 not in positions and positions == sorted(positions), text
    assert re.search(r"^    ready after \d+ s$", text, re.MULTILINE)
    assert "216 memories proven and searchable" in text
    assert "exit 5" in text and "the attribute owner is reserved" in text
    assert not [*tmp_path.iterdir()], "the demo leaves nothing behind"
