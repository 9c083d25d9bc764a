"""Settings: flag beats environment beats file beats default, and nothing wrong passes in silence."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from appview.errors import ConfigurationError
from appview.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    """An empty configuration file."""
    path = tmp_path / "engram.toml"
    path.write_text("")
    return path


def load(toml: Path, flags: dict[str, object] | None = None, **environ: str) -> Settings:
    return Settings.load(flags, environ=environ, config_file=toml)


class TestPrecedence:
    def test_default_where_nothing_is_said(self, toml: Path) -> None:
        settings = load(toml)
        assert settings == Settings()
        assert (settings.host, settings.port, settings.registration) == ("127.0.0.1", 8420, "open")
        assert settings.data.is_absolute()

    def test_file_beats_default(self, toml: Path) -> None:
        toml.write_text("[appview]\nport = 1001")
        assert load(toml).port == 1001

    def test_environment_beats_file(self, toml: Path) -> None:
        toml.write_text("[appview]\nport = 1001")
        assert load(toml, ENGRAM_PORT="1002").port == 1002

    def test_flag_beats_environment(self, toml: Path) -> None:
        toml.write_text("[appview]\nport = 1001")
        assert load(toml, {"port": "1003"}, ENGRAM_PORT="1002").port == 1003

    def test_flag_that_is_not_given_and_empty_variable_say_nothing(self, toml: Path) -> None:
        toml.write_text('[appview]\nport = 1001\nsource = ["wss://relay.example"]')
        settings = load(toml, {"port": None, "source": ()}, ENGRAM_PORT=" ")
        assert settings.port == 1001
        assert settings.source == ("wss://relay.example",)

    def test_false_flag_is_given(self, toml: Path) -> None:
        assert load(toml, {"allow_loopback": False}, ENGRAM_ALLOW_LOOPBACK="true").allow_loopback is False

    def test_variable_names_the_file(self, toml: Path, tmp_path: Path) -> None:
        toml.write_text("[appview]\nport = 1001")
        assert Settings.load(environ={"ENGRAM_CONFIG": str(toml)}).port == 1001
        other = tmp_path / "other.toml"
        other.write_text("[appview]\nport = 2002")
        assert Settings.load(environ={"ENGRAM_CONFIG": str(toml)}, config_file=other).port == 2002

    def test_every_setting_can_be_given_in_every_place(self, toml: Path, tmp_path: Path) -> None:
        values: dict[str, tuple[Any, str]] = {
            "source": (
                ["wss://a.example", "https://b.example:8443/x"],
                "wss://a.example https://b.example:8443/x",
            ),
            "data": (str(tmp_path), str(tmp_path)),
            "host": ("::1", "::1"),
            "port": (0, "0"),
            "public_url": ("https://engram.example", "https://engram.example/"),
            "metrics": ("127.0.0.1:9420", " 127.0.0.1:9420 "),
            "plc_url": ("http://127.0.0.1:2582", "http://127.0.0.1:2582"),
            "allow_loopback": (True, "TRUE"),
            "registration": ("closed", "Closed"),
            "prove_ahead": (False, "off"),
            "reading": ("members", "Members"),
            "space_rules": (
                ["g, did:web:a.example, role:x, SPACE", "p, role:x, SPACE, path:/*, admin, allow"],
                "g, did:web:a.example, role:x, SPACE; p, role:x, SPACE, path:/*, admin, allow",
            ),
            "embedder": ("hashing-64", "hashing-64"),
            "log_format": ("json", "json"),
            "log_level": ("debug", "DEBUG"),
            "max_open_spaces": (1, "1"),
            "language": ("french", "French"),
            "fusion": ("rank", "rank"),
            "query_timeout_ms": (1, "1"),
            "index_memory_mb": (0, "0"),
            "caller_key_seconds": (60, "60"),
            "rate_address": (0, "0"),
            "rate_subject": (1, "1"),
            "rate_space": (100_000_000, "100000000"),
            "query_log": (
                ["did:plc:7iza6de2dwap2sbkpav7c6c6"],
                "at://did:plc:7iza6de2dwap2sbkpav7c6c6/garden.engram.config/self",
            ),
            "query_log_subjects": (True, "on"),
            "query_log_days": (3_650, "3650"),
            "query_log_mb": (1, "1"),
            "trusted_proxies": (["10.0.0.0/8", "::1"], "10.0.0.0/8, ::1"),
        }
        assert set(values) == {setting.name for setting in SETTINGS}
        by_flag = Settings.load(
            {name: value for name, (value, _) in values.items()}, environ={}, config_file=toml
        )
        by_environ = load(toml, **{f"ENGRAM_{name.upper()}": text for name, (_, text) in values.items()})
        lines = [
            f"{name} = {str(v).lower() if isinstance(v, bool) else repr(v)}"
            for name, (v, _) in values.items()
        ]
        toml.write_text("\n".join(["[appview]", *lines]).replace("'", '"'))
        assert by_flag == by_environ == load(toml)
        default = Settings()
        for field in dataclasses.fields(Settings):
            assert getattr(by_flag, field.name) != getattr(default, field.name), field.name


class TestRefusals:
    @pytest.mark.parametrize(
        ("variable", "value", "says"),
        [
            ("ENGRAM_PORT", "65536", "0 to 65535"),
            ("ENGRAM_PORT", "-1", "0 to 65535"),
            ("ENGRAM_METRICS", "9420", "an address and a port"),
            ("ENGRAM_METRICS", "127.0.0.1:65536", "an address and a port"),
            ("ENGRAM_PORT", "8_420", "whole number"),
            ("ENGRAM_PORT", "\u0663", "whole number"),
            ("ENGRAM_MAX_OPEN_SPACES", "0", "1 to 10000"),
            ("ENGRAM_MAX_OPEN_SPACES", "10001", "1 to 10000"),
            ("ENGRAM_RATE_ADDRESS", "-1", "0 to 100000000"),
            ("ENGRAM_RATE_SPACE", "100000001", "0 to 100000000"),
            ("ENGRAM_TRUSTED_PROXIES", "proxy.example", "addresses or networks"),
            ("ENGRAM_TRUSTED_PROXIES", "10.0.0.1/8", "host bits set"),
            ("ENGRAM_ALLOW_LOOPBACK", "maybe", "true or false"),
            ("ENGRAM_REGISTRATION", "closd", "open or closed"),
            ("ENGRAM_LOG_LEVEL", "loud", "debug or info"),
            ("ENGRAM_LANGUAGE", "klingon", "english"),
            ("ENGRAM_FUSION", "sum", "convex or rank"),
            ("ENGRAM_SOURCE", "relay.example", "wss://"),
            ("ENGRAM_SOURCE", "wss://relay.example ftp://x", "wss://"),
            ("ENGRAM_SOURCE", "wss://me:secret@relay.example", "password"),
            ("ENGRAM_SOURCE", "wss://relay.example:99999", "URL"),
            ("ENGRAM_PUBLIC_URL", "https://engram.example/under", "path"),
            ("ENGRAM_PUBLIC_URL", "engram.example", "https://"),
            ("ENGRAM_PLC_URL", "https://", "https://"),
        ],
    )
    def test_value_out_of_range_names_the_place(
        self, toml: Path, variable: str, value: str, says: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=says) as caught:
            load(toml, **{variable: value})
        assert variable in str(caught.value)
        assert caught.value.hint

    @pytest.mark.parametrize(
        ("variable", "value"), [("ENGRAM_PORT", "65535"), ("ENGRAM_MAX_OPEN_SPACES", "10000")]
    )
    def test_largest_value_is_taken(self, toml: Path, variable: str, value: str) -> None:
        settings = load(toml, **{variable: value})
        assert str(getattr(settings, variable.removeprefix("ENGRAM_").lower())) == value

    @pytest.mark.parametrize("line", ['port = "x"', "port = true", "port = 1.5", "source = 3", "data = []"])
    def test_wrong_type_in_the_file_names_file_and_key(self, toml: Path, line: str) -> None:
        toml.write_text(f"[appview]\n{line}")
        with pytest.raises(ConfigurationError) as caught:
            load(toml)
        assert f"{toml}: {line.split(' ', 1)[0]}" in str(caught.value)

    def test_unknown_key_of_the_file_is_refused_with_the_nearest(self, toml: Path) -> None:
        toml.write_text('[appview]\nregistraton = "closed"')
        with pytest.raises(
            ConfigurationError, match=r"registraton is not a setting of \[appview\]"
        ) as caught:
            load(toml)
        assert "registration" in caught.value.hint

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("ENGRAM_REGISTRATON", "ENGRAM_REGISTRATION"),
            ("ENGRAM_SOURCES", "ENGRAM_SOURCE"),
            ("engram_registration", "ENGRAM_REGISTRATION"),
            ("ENGRAM_CONFG", "ENGRAM_CONFIG"),
        ],
    )
    def test_misspelt_variable_is_refused_with_the_nearest(self, toml: Path, name: str, meant: str) -> None:
        with pytest.raises(ConfigurationError, match=name) as caught:
            load(toml, **{name: "closed"})
        assert meant in caught.value.hint

    @pytest.mark.parametrize(
        "name", ["ENGRAM_HANDLE", "ENGRAM_PASSWORD", "ENGRAM_SPACE", "ENGRAM_SHARED", "HOME"]
    )
    def test_variable_of_another_program_is_left_alone(self, toml: Path, name: str) -> None:
        assert load(toml, **{name: "x"}) == Settings()

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ('registration = "closed"', r"registration stands outside of \[appview\]"),
            ('port = 1\n[appview]\nhost = "::1"', "port stands outside"),
            ('[apview]\nregistration = "closed"', r"\[apview\] is unknown"),
            ("appview = 3", "appview stands outside"),
        ],
    )
    def test_setting_outside_of_the_table_is_refused(self, toml: Path, content: str, says: str) -> None:
        toml.write_text(content)
        with pytest.raises(ConfigurationError, match=says):
            load(toml)

    def test_table_of_another_program_is_left_alone(self, toml: Path) -> None:
        toml.write_text('[publisher]\nspace = "did:web:a.example"\n[appview]\nport = 1')
        assert load(toml).port == 1

    def test_file_that_is_named_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="there is no file"):
            load(tmp_path / "absent.toml")

    @pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe"])
    def test_file_that_is_not_toml_is_refused(self, toml: Path, content: bytes) -> None:
        toml.write_bytes(content)
        with pytest.raises(ConfigurationError, match="cannot read"):
            load(toml)

    def test_folder_in_place_of_the_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="cannot read"):
            load(tmp_path)


class TestServiceDid:
    @pytest.mark.parametrize(
        ("url", "did"),
        [
            ("https://engram.example", "did:web:engram.example"),
            ("https://Engram.Example/", "did:web:engram.example"),
            ("https://engram.example:8443", "did:web:engram.example%3A8443"),
        ],
    )
    def test_follows_the_public_address(self, toml: Path, url: str, did: str) -> None:
        assert load(toml, {"public_url": url}).service_did == did

    def test_is_that_of_this_machine_without_one(self, toml: Path) -> None:
        assert load(toml, {"port": "9"}).service_did == "did:web:localhost%3A9"
