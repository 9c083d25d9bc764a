"""The container files name what exists, and run as little as they may."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parent.parent
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def stages() -> list[list[tuple[str, str]]]:
    """Read the Dockerfile: the instructions of each stage, in order."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    found: list[list[tuple[str, str]]] = []
    for line in joined.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            if word == "FROM":
                found.append([])
            found[-1].append((word, rest.strip()))
    return found


def only(stage: list[tuple[str, str]], word: str) -> str:
    [rest] = [rest for name, rest in stage if name == word]
    return rest


def test_what_is_copied_exists_and_reaches_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    allowed = {line[1:].rstrip("/") for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    copied: set[str] = set()
    for word, rest in stages()[0]:
        if word == "COPY" and "--from" not in rest:
            copied |= set(rest.split()[:-1])
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(name == each or name.startswith(f"{each}/") for each in allowed), f"{name} is ignored"
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert copied >= {*wheel["targets"]["wheel"]["packages"], "pyproject.toml", PROJECT["readme"]}
    assert copied >= {"locks/appview.txt", *PROJECT["license-files"]}
    assert "--require-hashes" in DOCKERFILE and "publisher.txt" not in DOCKERFILE


def test_the_appview_runs_unprivileged_watched_and_keeps_its_data() -> None:
    final = stages()[-1]
    user = only(final, "USER")
    assert user not in ("root", "0") and re.search(rf"useradd .*--uid [1-9]\d+ .*\b{user}\b", DOCKERFILE)
    names = [word for word, _ in final]
    assert names.index("USER") < names.index("ENTRYPOINT") and names.count("USER") == 1
    assert "/xrpc/_health" in only(final, "HEALTHCHECK")
    volume = only(final, "VOLUME")
    assert f"ENGRAM_DATA={volume}" in only(final, "ENV") and f"chown {user}:" in DOCKERFILE
    assert f"ENGRAM_PORT={only(final, 'EXPOSE')}" in only(final, "ENV")
    [program] = re.findall(r'"([^"]+)"', only(final, "ENTRYPOINT"))
    assert program in PROJECT["scripts"]


def test_compose_names_files_volumes_and_settings_that_exist() -> None:
    from appview.settings import Settings

    assert set(COMPOSE["services"]) == {"appview", "devnet"}
    for service in COMPOSE["services"].values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in COMPOSE["volumes"]
    appview = COMPOSE["services"]["appview"]
    assert (ROOT / appview["build"] / "Dockerfile").is_file()
    assert appview["image"] == f"{PROJECT['name']}:{PROJECT['version']}"
    known = {f"ENGRAM_{name.upper()}" for name in Settings.__dataclass_fields__}
    assert set(appview["environment"]) <= known
    assert any(mount.endswith(f":{only(stages()[-1], 'VOLUME')}") for mount in appview["volumes"])
    assert all(port.startswith("127.0.0.1:") for port in appview["ports"])
    development = (ROOT / "docker-compose.dev.env").read_text(encoding="utf-8")
    assert {line.split("=")[0] for line in development.split()} <= set(appview["environment"])


def test_the_network_of_ones_own_is_for_development_alone() -> None:
    devnet = COMPOSE["services"]["devnet"]
    assert devnet["profiles"] == ["dev"] and "profiles" not in COMPOSE["services"]["appview"]
    script = (ROOT / "tests" / "network" / "devnet.mjs").read_text(encoding="utf-8")
    for option in re.findall(r"--([a-z]+(?:-port)?) ", devnet["command"][-1].split("devnet.mjs")[1]):
        assert re.search(rf"^ +'?{option}'?: {{ type", script, re.MULTILINE), option
