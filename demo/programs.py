"""The two command lines, each run in a process of its own that need not import everything again.

A server process imports what the programs use, once, and forks for every command (`multiprocessing`'s
forkserver). What runs in the fork is the program's own `main`, with its arguments, environment and streams.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import tempfile
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAMS: Final = {"engram-appview": "appview.cli", "engram-publisher": "publisher.cli"}
_CONTEXT: Final = multiprocessing.get_context("forkserver")


def warm_up() -> None:
    """Start the server; it imports while something else is waited for."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process that forks should have one thread
    _CONTEXT.set_forkserver_preload(["demo.preload"])
    forkserver.ensure_running()


async def run(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], stdin: str
) -> tuple[int, str, str]:
    """Run a command to its end; answer its exit code, standard output and standard error."""
    with tempfile.TemporaryDirectory(prefix="engram-demo-") as folder:
        streams = Path(folder)
        (streams / "in").write_text(stdin, encoding="utf-8")
        process = _CONTEXT.Process(target=_child, args=(program, list(arguments), dict(environment), folder))
        process.start()
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(process.sentinel)
            if not ended.is_set():
                process.terminate()
            process.join()
        code = process.exitcode or 0
        process.close()
        out, err = ((streams / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return code, out, err


def _child(program: str, arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Run in the fork: exactly what the installed program does."""
    os.environ.update(environment)
    sys.argv[:] = [program, *arguments]
    sys.stdin = (Path(folder) / "in").open(encoding="utf-8")
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        opened = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(opened, stream.fileno())
        os.close(opened)
    import_module(PROGRAMS[program]).main()
