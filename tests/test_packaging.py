"""The two halves stay apart: in what they declare, in what is locked, and in what they import."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lexicons.configs import Config
from lexicons.hashing import model_key
from lexicons.ids import CONFIG, CONFIG_RKEY
from publisher.repo import cid_of_value
from tests.appview.process import Appview, environment
from tests.publisher.fake_pds import HANDLE, PASSWORD, FakePds

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parent.parent
PROJECT: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS: Final = sorted((ROOT / "locks").glob("*.txt"))
ONLY_PUBLISHER: Final = {"atproto", "fastembed", "httpx", "huggingface-hub", "onnxruntime", "tokenizers"}
ONLY_APPVIEW: Final = {
    "aiohttp",
    "coincurve",
    "numkong",
    "pycasbin",
    "pysqlite3",
    "pystemmer",
    "sqlite-vec",
    "structlog",
}

# Run in a process of its own: the blocked modules are not found, whoever asks.
BLOCK: Final = """
import sys
class WithoutTheOtherHalf:
    finders = sys.meta_path[:]
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in BLOCKED:
            for finder in self.finders:
                if spec := finder.find_spec(name, path, target):
                    return spec
    def find_distributions(self, *arguments):
        for finder in self.finders:
            if hasattr(finder, "find_distributions"):
                yield from finder.find_distributions(*arguments)
sys.meta_path[:] = [WithoutTheOtherHalf()]
"""


def locked(half: str) -> dict[str, list[str]]:
    """Read a lock: the lines of each requirement, by the distribution's name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (ROOT / "locks" / f"{half}.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)", line):
            name = canonicalize_name(match[1])
        if line.strip() and not line.lstrip().startswith("#"):
            found.setdefault(name, []).append(line.strip().removesuffix("\\").strip())
    return found


def modules_of_the_other_half(half: str) -> set[str]:
    """Name the modules of distributions that are locked for the other half alone."""
    other = {"publisher": "appview", "appview": "publisher"}[half]
    names = set(locked(other)) - set(locked(half))
    return {
        module
        for module, distributions in packages_distributions().items()
        if {canonicalize_name(each) for each in distributions} <= names
    }


def script_of(half: str, code: str) -> list[str]:
    blocked = modules_of_the_other_half(half)
    return [sys.executable, "-c", f"BLOCKED = {sorted(blocked)!r}\n{BLOCK}\n{code}"]


# --- what is declared and locked


def test_each_half_is_locked_without_the_others_packages() -> None:
    appview, publisher = set(locked("appview")), set(locked("publisher"))
    assert publisher >= ONLY_PUBLISHER and not appview & ONLY_PUBLISHER
    assert appview >= ONLY_APPVIEW and not publisher & ONLY_APPVIEW


@pytest.mark.parametrize("half", ["appview", "publisher"])
def test_what_a_half_declares_is_what_is_locked(half: str) -> None:
    extra = PROJECT["project"]["optional-dependencies"][half]
    lock = locked(half)
    for text in [*PROJECT["project"]["dependencies"], *extra]:
        requirement = Requirement(text)
        pins = [
            Requirement(line)
            for line in lock[canonicalize_name(requirement.name)]
            if not line.startswith("--hash")
        ]
        for pin in pins:
            [version] = [each.version for each in pin.specifier]
            assert requirement.specifier.contains(version), f"{text} is locked as {pin}"


def test_every_package_of_a_half_is_in_the_development_lock() -> None:
    development = locked("dev")
    for half in ("appview", "publisher"):
        for name, lines in locked(half).items():
            assert {line.split(" ;")[0] for line in lines} <= {
                line.split(" ;")[0] for line in development[name]
            }, name


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_is_pinned_and_has_hashes(lock: Path) -> None:
    packages = locked(lock.stem)
    assert packages
    for name, lines in packages.items():
        pins = [line for line in lines if not line.startswith("--hash=")]
        hashes = [line for line in lines if line.startswith("--hash=")]
        assert pins and all(re.match(r"[\w.-]+(\[[\w,-]+\])?==[\w.!+-]+( ;.*)?$", pin) for pin in pins), name
        assert hashes and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name


# --- what is imported


def test_the_blocked_names_are_those_that_matter() -> None:
    blocked = modules_of_the_other_half("publisher")
    assert blocked >= {"aiohttp", "casbin", "coincurve", "numkong", "pysqlite3", "sqlite_vec", "structlog"}
    blocked = modules_of_the_other_half("appview")
    assert blocked >= {"atproto", "atproto_client", "fastembed", "httpx", "onnxruntime", "tokenizers"}
    refused = subprocess.run(script_of("appview", "import fastembed"), capture_output=True, text=True)
    assert refused.returncode == 1 and "No module named 'fastembed'" in refused.stderr


@pytest.mark.parametrize(("package", "half"), [("publisher", "publisher"), ("appview", "appview")])
def test_no_import_anywhere_names_the_others_packages(package: str, half: str) -> None:
    blocked = modules_of_the_other_half(half)
    for folder in (package, "lexicons"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                wrong = {name.split(".")[0] for name in names} & blocked
                assert not wrong, f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


async def test_a_memory_is_published_without_any_package_of_the_appview(tmp_path: Path) -> None:
    """Login, model, remember and list, each in a process that cannot import them; and fastembed loads."""

    async def run(*arguments: str) -> str:
        code = f"from publisher.cli import main; main({list(arguments)!r})"
        process = await asyncio.create_subprocess_exec(
            *script_of("publisher", code),
            cwd=ROOT,
            env=variables,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async with FakePds() as pds:
        config = Config.declare(model_key(16), created_at="2026-11-30T09:15:00.000Z").to_record()
        pds.records[CONFIG, CONFIG_RKEY] = (cid_of_value(config), config)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
        variables |= {
            "ENGRAM_SESSION": str(tmp_path / "session.json"),
            "ENGRAM_PASSWORD": PASSWORD,
            "ENGRAM_PDS": pds.url,
            "ENGRAM_PLC_URL": pds.url,
            "ENGRAM_EMBEDDER": "hashing-16",
        }
        assert "remember" in await run("--help")
        await run("login", HANDLE)
        made = json.loads(await run("remember", "on its own", "--json"))
        assert json.loads(await run("list", "--json"))["memories"][0]["uri"] == made["uri"]
        assert pds.texts() == ["on its own"]
    await asyncio.to_thread(subprocess.run, script_of("publisher", "import fastembed"), check=True)


def test_every_module_of_the_appview_loads_without_any_package_of_the_publisher() -> None:
    code = """
import importlib, pkgutil, appview, appview.service
for found in pkgutil.walk_packages(appview.__path__, "appview."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
assert "publisher" not in sys.modules
"""
    subprocess.run(script_of("appview", code), cwd=ROOT, check=True)


async def test_the_appview_serves_without_any_package_of_the_publisher(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    service = Appview(
        await asyncio.create_subprocess_exec(
            *script_of("appview", "from appview.cli import main; main()"),
            "serve",
            cwd=ROOT,
            env=environment(tmp_path / "data", nowhere, nowhere),
            stderr=asyncio.subprocess.PIPE,
        )
    )
    try:
        assert (await service.url()).startswith("http://")
        assert await service.stop() == 0, service.log
    finally:
        await service.kill()
