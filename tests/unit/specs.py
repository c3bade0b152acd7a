"""A valid node's inventory data and catalogue, to be broken one key at a time."""

from __future__ import annotations

from typing import Any

from b200kit.catalog import load
from b200kit.catalog.types import Catalogue, Hardware, Model

CATALOGUE = Catalogue(
    hardware={"hgx-b200": Hardware("hgx-b200", gpu_count=8, minimum_driver="570.133.20")},
    models={"tiny-llama": Model("tiny-llama", "made on the spot")},
    settings=load.load().settings,
    engines=load.load().engines,
)


def data(**changes: Any) -> dict[str, Any]:
    """Inventory data of a sound node, with *changes* on top."""
    return {
        "driver": "580.126.20",
        "repositories": [
            {
                "name": "vendor",
                "url": "https://mirror.example.internal/apt/",
                "key": "keys/vendor.asc",
                "fingerprint": "A" * 40,
            }
        ],
        "engine": {
            "kind": "cpu",
            "version": "0.32.0",
            "requirements": "requirements/engine.txt",
            "wheelhouse": "https://mirror.example.internal/wheels/",
        },
        "model": "tiny-llama",
        "model_store": "https://models.example.internal",
        "model_revision": "0123456789ab",
        "replicas": 2,
        "tensor_parallel": 4,
    } | changes
