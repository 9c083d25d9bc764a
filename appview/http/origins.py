"""The one way to write where a server is, so that two ways to say the same are equal."""

from __future__ import annotations

from typing import Final

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def origin(scheme: str, host: str, port: int | None) -> str:
    """Write an origin: in lower case, without a dot at the end of the name, and without the usual port."""
    name = host.lower().removesuffix(".")
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}" + ("" if port in (None, _PORTS.get(scheme)) else f":{port}")
