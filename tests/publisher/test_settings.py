"""Settings: flag beats environment beats file beats default, and what makes no sense is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.errors import BadSetting
from publisher.settings import Settings, load_settings, names, variable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "engram.toml"


def test_without_anything_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = load_settings({}, {})
    assert settings == Settings()
    assert settings.embedder == "fastembed:BAAI/bge-small-en-v1.5"
    assert settings.session.name == "session.json" and settings.session.is_absolute()


def test_a_flag_beats_the_environment_beats_the_file(file: Path) -> None:
    file.write_text('[publisher]\nspace = "file"\nembedder = "hashing-1"\nnext_embedder = "hashing-2"\n')
    env = {"ENGRAM_CONFIG": str(file), "ENGRAM_SPACE": "environment", "ENGRAM_EMBEDDER": "hashing-3"}
    settings = load_settings({"space": "flag", "embedder": None}, env)
    assert (settings.space, settings.embedder, settings.next_embedder) == ("flag", "hashing-3", "hashing-2")


def test_every_setting_comes_from_each_place(file: Path) -> None:
    values = {
        "space": "did:plc:abc",
        "embedder": "hashing-8",
        "next_embedder": "hashing-9",
        "embedder_threads": 3,
        "model_cache": "/cache",
        "session": "/session.json",
        "pds": "https://pds.example.com",
        "plc_url": "https://plc.example.com",
        "allow_loopback": True,
        "max_wait": 5.5,
    }
    assert set(values) == set(names())
    lines = [f"{name} = {_toml(value)}" for name, value in values.items()]
    file.write_text("[publisher]\n" + "\n".join(lines))
    from_file = load_settings({}, {"ENGRAM_CONFIG": str(file)})
    nothing = {"ENGRAM_CONFIG": str(file.with_name("empty.toml"))}
    Path(nothing["ENGRAM_CONFIG"]).touch()
    from_environment = load_settings(
        {}, nothing | {variable(name): str(value) for name, value in values.items()}
    )
    from_flags = load_settings(values, nothing)
    assert from_file == from_environment == from_flags != load_settings({}, nothing)
    assert from_file.model_cache == Path("/cache") and from_file.max_wait == 5.5


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def test_a_file_may_hold_other_programs_tables(file: Path) -> None:
    file.write_text('[appview]\nport = 1\n[publisher]\nspace = "s.example.com"\n')
    assert load_settings({}, {"ENGRAM_CONFIG": str(file)}).space == "s.example.com"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[publisher", "not TOML"),
        ("publisher = 7", "must be a table"),
        ("[publisher]\nspcae = 'x'", "unknown setting 'spcae'"),
        ("[publisher]\nembedder_api_key = 'x'", "unknown setting 'embedder_api_key'"),
        ("[publisher]\nspace = 7", "must be text"),
        ("[publisher]\nspace = ' '", "must be text"),
        ("[publisher]\nallow_loopback = 'maybe'", "must be true or false"),
        ("[publisher]\nmax_wait = -1", "from 0 to 86400"),
        ("[publisher]\nmax_wait = 86401", "from 0 to 86400"),
        ("[publisher]\nmax_wait = nan", "from 0 to 86400"),
        ("[publisher]\nmax_wait = true", "from 0 to 86400"),
        ("[publisher]\nembedder_threads = 257", "from 1 to 256"),
        ("[publisher]\nembedder = 'nonsense'", "not an embedder"),
        ("[publisher]\nnext_embedder = 'hashing-0'", "dims"),
        ("[publisher]\nplc_url = 'http://plc.example.com'", "not a public https URL"),
        ("[publisher]\npds = 'https://10.0.0.1'", "not a public https URL"),
    ],
)
def test_what_makes_no_sense_is_refused(file: Path, content: str, told: str) -> None:
    file.write_text(content)
    with pytest.raises(BadSetting, match=told) as caught:
        load_settings({}, {"ENGRAM_CONFIG": str(file)})
    assert caught.value.exit_code == 2


def test_a_file_that_was_named_must_be_there(file: Path) -> None:
    with pytest.raises(BadSetting, match="no file"):
        load_settings({}, {"ENGRAM_CONFIG": str(file)})
    file.mkdir()
    with pytest.raises(BadSetting, match="cannot be read"):
        load_settings({}, {"ENGRAM_CONFIG": str(file)})


def test_the_api_key_comes_from_the_environment_and_is_not_shown(file: Path) -> None:
    file.touch()
    env = {"ENGRAM_CONFIG": str(file), "ENGRAM_EMBEDDER_API_KEY": "hunter2"}
    settings = load_settings({}, env)
    assert settings.embedder_api_key == "hunter2" and "hunter2" not in repr(settings)
