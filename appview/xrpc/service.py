"""What the service says of itself: its DID document and its version."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appview.access.service_auth import SERVICE_FRAGMENT

if TYPE_CHECKING:
    from appview.settings import Settings
    from lexicons.syntax import Did

DISTRIBUTION: Final = "garden-engram"
SERVICE_TYPE: Final = "EngramAppView"


def service_url(settings: Settings) -> str:
    """Name the address under which the service is found, as its DID has it."""
    return settings.public_url or f"http://localhost:{settings.port}"


def did_document(did: Did, url: str, public_key_multibase: str) -> dict[str, Any]:
    """Write the DID document of a service that is found at `url`."""
    return {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did,
        "verificationMethod": [
            {
                "id": f"{did}#atproto",
                "type": "Multikey",
                "controller": did,
                "publicKeyMultibase": public_key_multibase,
            }
        ],
        "service": [{"id": f"#{SERVICE_FRAGMENT}", "type": SERVICE_TYPE, "serviceEndpoint": url}],
    }


@cache
def program_version() -> str:
    """Read the version of the installed distribution or, run from a checkout, of its project file."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return project_version(Path(__file__).resolve().parents[2] / "pyproject.toml")


def project_version(file: Path) -> str:
    """Read the version out of this project's `pyproject.toml`; `0+unknown` where it is not that."""
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        return str(project["version"]) if project["name"] == DISTRIBUTION else "0+unknown"
    except (OSError, ValueError, KeyError):
        return "0+unknown"
