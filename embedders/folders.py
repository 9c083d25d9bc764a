"""A folder with an ONNX model: which file, which name, which pooling, how wide.

The name must be the same wherever the folder lies, because it becomes part of every memory: it is the one the
settings give, else `_name_or_path` of `config.json` where that is not a path, else the folder's own name.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from embedders.errors import ModelUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from embedders.spec import FolderSpec, Pooling

MAX_CONFIG_BYTES: Final = 5_000_000  # ours: real files are a few kB, generated label lists some hundred
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_POOLING_FLAGS: Final[tuple[tuple[str, Pooling], ...]] = (
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_lasttoken", "last"),
)
_NEEDED: Final = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a model folder holds. `model_file` is relative to `path`."""

    path: Path
    model_file: str
    name: str
    pooling: Pooling
    dims: int


def read_folder(spec: FolderSpec) -> ModelFolder:
    """Look into a model folder; raise `ModelUnavailable` saying what is missing or not clear."""
    path = spec.folder.resolve()
    if not path.is_dir():
        raise ModelUnavailable(f"no folder {path}")
    for needed in _NEEDED:
        if not (path / needed).is_file():
            raise ModelUnavailable(f"{path} has no {needed}", "the folder needs the tokenizer's files")
    config = _json(path / "config.json")
    width = config.get("hidden_size", config.get("d_model", config.get("dim")))
    return ModelFolder(
        path,
        _model_file(path),
        spec.name or _name(path, config),
        spec.pooling or _pooling(path),
        width if isinstance(width, int) and width > 0 else 1,  # what counts is the width of a real vector
    )


def _model_file(path: Path) -> str:
    found = sorted(file.relative_to(path).as_posix() for file in path.rglob("*.onnx"))
    for usual in ("model.onnx", "onnx/model.onnx"):
        if usual in found:
            return usual
    if len(found) != 1:
        listed = ", ".join(found) if found else "none"
        raise ModelUnavailable(
            f"{path} must hold one ONNX file or model.onnx, found: {listed}", "leave the one you want"
        )
    return found[0]


def _name(path: Path, config: dict[str, Any]) -> str:
    named = config.get("_name_or_path")
    if isinstance(named, str) and _HUB_NAME.fullmatch(named):
        return named
    return path.name


def _pooling(path: Path) -> Pooling:
    file = path / "1_Pooling" / "config.json"
    if not file.is_file():
        return "mean"
    flags = _json(file)
    chosen: list[Pooling] = [pooling for flag, pooling in _POOLING_FLAGS if flags.get(flag) is True]
    others = [key for key, value in flags.items() if key.startswith("pooling_mode_") and value is True]
    if len(chosen) != 1 or len(others) != 1:
        raise ModelUnavailable(
            f"{file} asks for a pooling that is not mean, cls or last token: {', '.join(others) or 'none'}",
            "say which one with ;pooling=",
        )
    return chosen[0]


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    if file.stat().st_size > MAX_CONFIG_BYTES:
        raise ModelUnavailable(f"{file} has {file.stat().st_size} bytes, at most {MAX_CONFIG_BYTES}")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelUnavailable(f"{file} is not JSON: {error}") from None
    return value if isinstance(value, dict) else {}
