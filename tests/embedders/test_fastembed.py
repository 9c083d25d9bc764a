"""Models in this process: a real one from a folder, and folders that are not one."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedders.errors import ModelUnavailable
from embedders.fastembed import FastembedEmbedder
from embedders.folders import MAX_CONFIG_BYTES, read_folder
from embedders.packaged import DIMS, MODEL_SHA256, NAME, assemble, spec_text
from embedders.select import open_embedder
from embedders.spec import FastembedSpec, FolderSpec
from lexicons.embeddings import normalise
from lexicons.models import ModelKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
async def embedder(minilm: FolderSpec) -> AsyncIterator[FastembedEmbedder]:
    made = FastembedEmbedder(minilm)
    yield made
    await made.close()


def cosine(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(normalise(left), normalise(right), strict=True))


async def test_the_key_names_the_file_and_not_its_place(
    embedder: FastembedEmbedder, minilm: FolderSpec
) -> None:
    file = minilm.folder / "model.onnx"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == MODEL_SHA256
    assert await embedder.key() == ModelKey(NAME, f"sha256:{MODEL_SHA256}", DIMS)


async def test_meaning_is_near(embedder: FastembedEmbedder) -> None:
    near, far = await embedder.embed_documents(
        ["The cat sat on the windowsill all afternoon.", "Deploys go through the release workflow."]
    )
    question = await embedder.embed_query("Where was the kitten?")
    assert cosine(question, near) > cosine(question, far) + 0.2


async def test_order_is_kept_though_batches_are_sorted_by_length(embedder: FastembedEmbedder) -> None:
    texts = ["word " * (1 + index * 7 % 40) + str(index) for index in range(70)]
    together = await embedder.embed_documents(texts)
    alone = [(await embedder.embed_documents([text]))[0] for text in (texts[0], texts[33], texts[69])]
    for one, many in zip(alone, (together[0], together[33], together[69]), strict=True):
        assert cosine(one, many) > 0.99
    assert await embedder.embed_documents([]) == []


async def test_the_event_loop_stays_free_and_the_model_is_loaded_once(
    minilm: FolderSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = FastembedEmbedder(minilm)
    threads: list[str] = []
    load = made._load

    def counted() -> ModelKey:
        threads.append(threading.current_thread().name)
        return load()

    monkeypatch.setattr(made, "_load", counted)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    await asyncio.gather(made.key(), made.embed_query("a"), made.embed_documents(["b"] * 64))
    ticking.cancel()
    assert len(threads) == 1 and threads[0].startswith("embed")
    assert ticks > 10, "the loop kept running while the model was loaded"
    await made.close()


async def test_a_model_that_no_list_has_is_refused() -> None:
    made = FastembedEmbedder(FastembedSpec("no/such-model"))
    with pytest.raises(ModelUnavailable, match="no model 'no/such-model'"):
        await made.key()
    await made.close()


async def test_a_download_without_a_network_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made = FastembedEmbedder(FastembedSpec("BAAI/bge-small-en-v1.5"), cache=tmp_path)
    with pytest.raises(ModelUnavailable) as caught:
        await made.key()
    assert "fastembed:/path/to/folder" in caught.value.hint
    await made.close()


async def test_a_damaged_model_is_refused(minilm: FolderSpec, tmp_path: Path) -> None:
    shutil.copytree(minilm.folder, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.onnx").write_bytes(b"not a model")
    made = FastembedEmbedder(replace(minilm, folder=tmp_path / "damaged"))
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        await made.key()
    await made.close()


async def test_two_folders_of_one_name_are_two_models(minilm: FolderSpec, tmp_path: Path) -> None:
    shutil.copytree(minilm.folder, tmp_path / "copy")
    one, two = FastembedEmbedder(minilm), open_embedder(spec_text(tmp_path / "copy"))
    assert await one.key() == await two.key()
    cls = FastembedEmbedder(replace(minilm, pooling="cls"))
    assert cosine(await cls.embed_query("sun"), await one.embed_query("sun")) < 0.99
    assert await two.embed_query("sun") == pytest.approx(await one.embed_query("sun"))
    for each in (one, two, cls):
        await each.close()


def test_assembling_again_keeps_what_is_there(minilm: FolderSpec) -> None:
    before = (minilm.folder / "model.onnx").stat().st_mtime_ns
    assert assemble(minilm.folder) == minilm
    assert (minilm.folder / "model.onnx").stat().st_mtime_ns == before


def test_assembling_notices_a_changed_model(minilm: FolderSpec, tmp_path: Path) -> None:
    shutil.copytree(minilm.folder, tmp_path / "changed")
    model = tmp_path / "changed" / "model.onnx"
    model.write_bytes(bytes(model.stat().st_size))
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        assemble(tmp_path / "changed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that has everything but a real model."""
    made = tmp_path / "my-model"
    made.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        (made / name).write_text("{}")
    (made / "model.onnx").touch()
    return made


def test_the_name_is_given_or_the_configs_or_the_folders(folder: Path) -> None:
    assert read_folder(FolderSpec(folder)).name == "my-model"
    (folder / "config.json").write_text(json.dumps({"_name_or_path": "org/model-1", "hidden_size": 7}))
    read = read_folder(FolderSpec(folder))
    assert (read.name, read.dims) == ("org/model-1", 7)
    assert read_folder(FolderSpec(folder, name="given")).name == "given"
    for path in ("/home/me/model", "./model", "C:\\model", "../x/y", ""):
        (folder / "config.json").write_text(json.dumps({"_name_or_path": path}))
        assert read_folder(FolderSpec(folder)).name == "my-model", path


def test_the_pooling_is_given_or_the_folders_or_the_mean(folder: Path) -> None:
    assert read_folder(FolderSpec(folder)).pooling == "mean"
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert read_folder(FolderSpec(folder)).pooling == "cls"
    assert read_folder(FolderSpec(folder, pooling="last")).pooling == "last"
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ModelUnavailable, match="pooling_mode_max_tokens"):
        read_folder(FolderSpec(folder))


def test_the_model_file_must_be_clear(folder: Path) -> None:
    (folder / "other.onnx").touch()
    assert read_folder(FolderSpec(folder)).model_file == "model.onnx"
    (folder / "model.onnx").unlink()
    assert read_folder(FolderSpec(folder)).model_file == "other.onnx"
    (folder / "third.onnx").touch()
    with pytest.raises(ModelUnavailable, match=r"other\.onnx, third\.onnx"):
        read_folder(FolderSpec(folder))


@pytest.mark.parametrize("missing", ["tokenizer.json", "tokenizer_config.json", "model.onnx"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelUnavailable, match="none" if missing == "model.onnx" else missing):
        read_folder(FolderSpec(folder))


def test_a_config_that_is_no_config_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelUnavailable, match="not JSON"):
        read_folder(FolderSpec(folder))
    (folder / "config.json").write_text(" " * (MAX_CONFIG_BYTES + 1))
    with pytest.raises(ModelUnavailable, match=f"at most {MAX_CONFIG_BYTES}"):
        read_folder(FolderSpec(folder))


async def test_no_folder_is_an_error() -> None:
    made = FastembedEmbedder(FolderSpec(Path("/no/such/folder")))
    with pytest.raises(ModelUnavailable, match="no folder /no/such/folder"):
        await made.key()
    await made.close()


def test_the_runtime_is_kept_from_reporting_home(minilm: FolderSpec, tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from embedders.select import open_embedder\n"
        "asyncio.run(open_embedder(sys.argv[1]).embed_query('a secret'))\n"
    )
    spec = f"fastembed:{minilm.folder};name={minilm.name};pooling=mean"
    switches = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY")
    environment = {key: value for key, value in os.environ.items() if key not in switches}
    subprocess.run(
        [sys.executable, "-c", script, spec],
        check=True,
        env=environment | {"TMPDIR": str(tmp_path)},
        cwd=ROOT,
    )
    assert not [*tmp_path.iterdir()]  # its reporter leaves a session file there
