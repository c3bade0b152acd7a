"""A checkpoint of two shards, and the lab's small Hub with it, which the real client asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.lab.supply import models
from tests.lab.supply.internet.hub import Hub, Repository, served
from tests.lab.supply.safetensors import write_safetensors

REPOSITORY, TOKEN = "org/Tiny-Llama", "hf_canary_token"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The lab's model in two shards with their index, and what repositories have beside."""
    folder = tmp_path_factory.mktemp("made")
    weights = list(models.weights().items())
    halves = (weights[: len(weights) // 2], weights[len(weights) // 2 :])
    for name, half in zip(SHARDS, halves, strict=True):
        write_safetensors(folder / name, dict(half))
    named = {t: name for name, half in zip(SHARDS, halves, strict=True) for t, _ in half}
    return {
        **{name: (folder / name).read_bytes() for name in SHARDS},
        "config.json": json.dumps(models.config()).encode(),
        "tokenizer_config.json": json.dumps(models.tokenizer_config()).encode(),
        INDEX: json.dumps({"metadata": {}, "weight_map": named}).encode(),
        "README.md": b"# Tiny\n",
        ".gitattributes": b"*.safetensors filter=lfs\n",
    }


@pytest.fixture
def hub(made: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The Hub, as huggingface_hub's endpoint; nobody is logged in."""
    with served(Hub({REPOSITORY: Repository(dict(made))})) as hub:
        # As HF_ENDPOINT would, which is read when the library is imported.
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nonexistent/token")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield hub


@pytest.fixture
def checkpoint(made: dict[str, bytes], tmp_path: Path) -> Path:
    """The same in a directory."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return folder
