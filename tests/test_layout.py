"""The arrows between packages, and the size of modules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("lexicons", "embedders", "publisher", "appview")
MAX_LINES = 500

# What a package, or a part of one, may import of ours. The longest matching name decides.
BASE = {
    "appview.background",
    "appview.clock",
    "appview.collector",
    "appview.control",
    "appview.control_files",
    "appview.control_lists",
    "appview.control_rules",
    "appview.control_tokens",
    "appview.descriptors",
    "appview.errors",
    "appview.folder",
    "appview.http",
    "appview.identity",
    "appview.kept",
    "appview.logs",
    "appview.occasional",
    "appview.query_log",
    "appview.setting_kinds",
    "appview.settings",
    "appview.source_lines",
}
BASE |= {"appview.sqlite", "lexicons", "embedders"}
ALLOWED: dict[str, set[str]] = {
    "lexicons": {"lexicons"},
    "embedders": {"lexicons", "embedders"},
    "publisher": {"lexicons", "embedders", "publisher"},
    "appview": BASE | {"appview"},
    "appview.memory": BASE | {"appview.memory"},
    "appview.access": BASE | {"appview.memory", "appview.access"},
    "appview.search": BASE | {"appview.memory", "appview.search"},
    "appview.evaluation": BASE | {"appview.memory", "appview.search", "appview.evaluation"},
    "appview.ingest": BASE | {"appview.memory", "appview.access", "appview.search", "appview.ingest"},
    "appview.xrpc": BASE | {"appview.memory", "appview.access", "appview.search", "appview.xrpc"},
    "appview.web": BASE | {"appview.memory", "appview.access", "appview.search", "appview.web"},
    **{name: BASE for name in BASE if name.startswith("appview.")},
}
# Only what assembles or starts the appview may know its outermost parts.
ASSEMBLY = {"appview.service", "appview.asking", "appview.cli"}
OUTERMOST = ("appview.xrpc", "appview.web")


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path} imports relatively")
    return {name for name in found if name.split(".")[0] in PACKAGES}


def under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def allowed_for(module: str) -> set[str]:
    return ALLOWED[max((key for key in ALLOWED if under(module, key)), key=len)]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_what_its_package_may(path: Path) -> None:
    module = name_of(path)
    wrong = {
        imported
        for imported in imports_of(path)
        if not any(under(imported, allowed) for allowed in allowed_for(module))
        # `from appview import errors` names the package too
        and not any(under(allowed, imported) for allowed in allowed_for(module))
    }
    assert not wrong, f"{module} must not import {sorted(wrong)}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_nothing_but_the_assembly_imports_the_outermost_parts(path: Path) -> None:
    module = name_of(path)
    if module in ASSEMBLY or any(under(module, part) for part in OUTERMOST):
        return
    assert not [name for name in imports_of(path) if any(under(name, part) for part in OUTERMOST)]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_is_not_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


SQL_HOMES = (
    "appview.memory",
    "appview.control",
    "appview.control_files",
    "appview.control_lists",
    "appview.control_rules",
    "appview.control_tokens",
    "appview.sqlite",
)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_sql_lives_in_the_stores_alone(path: Path) -> None:
    if any(under(name_of(path), home) for home in SQL_HOMES):
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split()
            assert not (
                len(words) > 2
                and words[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "PRAGMA", "REPLACE")
            ), f"{path.name}:{node.lineno} holds SQL"


def test_the_rule_itself_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import appview.xrpc\nfrom publisher.cli import main\n", encoding="utf-8")
    assert imports_of(bad) == {"appview.xrpc", "publisher.cli", "publisher.cli.main"}
