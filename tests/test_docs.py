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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_variables_that_are_named_exist(page: Path) -> None:
    from appview import settings as appview

    packages = ("publisher", "embedders", "appview", "tests", "demo")
    code = "".join(
        path.read_text(encoding="utf-8") for name in packages for path in (ROOT / name).rglob("*.py")
    )
    known = {*re.findall(r"ENGRAM_[A-Z_]*[A-Z]", code)}
    known |= {f"ENGRAM_{field.upper()}" for field in appview.Settings.__dataclass_fields__}
    known |= {f"ENGRAM_{name.upper()}" for name in publisher_settings()}
    assert {*re.findall(r"ENGRAM_[A-Z_]*[A-Z]", page.read_text(encoding="utf-8"))} <= known


def publisher_settings() -> list[str]:
    from publisher.settings import names

    return list(names())


def test_a_network_of_ones_own_is_described_as_it_is() -> None:
    text = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    section = text.split("## On a network of your own\n")[1]
    script = (ROOT / "tests" / "network" / "devnet.mjs").read_text(encoding="utf-8")
    [command] = re.findall(r"^node tests/network/devnet\.mjs (.*?) +#", section, re.MULTILINE)
    ports = dict(re.findall(r"--([a-z-]+) (\d+)", command))
    assert set(ports) == {"plc-port", "pds-port"} and all(f"'{name}': {{" in script for name in ports)
    exported = dict(re.findall(r"^export (ENGRAM_\w+)=(\S+)", section, re.MULTILINE))
    assert exported == {
        "ENGRAM_PLC_URL": f"http://localhost:{ports['plc-port']}",
        "ENGRAM_ALLOW_LOOPBACK": "true",
        "ENGRAM_PDS": f"http://localhost:{ports['pds-port']}",
        "ENGRAM_SOURCE": f"http://localhost:{ports['pds-port']}",
    }
    in_containers = dict(
        line.split("=", 1) for line in (ROOT / "docker-compose.dev.env").read_text(encoding="utf-8").split()
    )
    assert in_containers.items() <= exported.items(), "the containers listen where the page says"


def test_the_first_screen_of_the_readme_has_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


def test_every_page_is_listed_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme, page.name
