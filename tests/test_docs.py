"""The front pages say what is true: files, links and commands that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAMED_FILE = re.compile(r"`((?:tests|appview|lexicons|embedders|publisher|docs|demo)/[\w/.-]*\w/?)`")
MAKE = re.compile(r"\bmake ([a-z]+)")
COMMAND = re.compile(r"\b(engram-(?:appview|publisher)) ([a-z]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    for name in NAMED_FILE.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_verbs_and_commands_that_are_named_exist(page: Path) -> None:
    from appview.cli import cli as appview
    from publisher.cli import cli as publisher

    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    known = {"engram-appview": set(appview.commands), "engram-publisher": set(publisher.commands)}
    text = page.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text))
    for verb in MAKE.findall(code):
        assert verb in verbs, f"{page.name} says make {verb}"
    for program, name in COMMAND.findall(code):
        assert name in known[program], f"{page.name} says {program} {name}"


def test_the_first_screen_of_the_readme_has_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


def test_every_page_is_listed_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme, page.name
