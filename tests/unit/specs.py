"""A valid node's inventory data and catalogue, to be broken one key at a time."""

from __future__ import annotations

import base64
from typing import Any

from b200kit.catalog import load
from b200kit.catalog.hardware.facts import Hardware
from b200kit.catalog.types import Catalogue, Model
from b200kit.inventory import openpgp

# A version 4 packet with a made-up point: no one's key.
_PACKET = bytes.fromhex("9833040000000016092b06010401da470f010107400000") + bytes(30)
VENDOR_KEY = "\n".join(
    [
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "",
        base64.b64encode(_PACKET[:48]).decode(),
        base64.b64encode(_PACKET[48:]).decode(),
        "-----END PGP PUBLIC KEY BLOCK-----",
        "",
    ]
)
[VENDOR_FINGERPRINT] = openpgp.fingerprints(VENDOR_KEY)
REVISION = "0123456789abcdef" * 4

CATALOGUE = Catalogue(
    hardware={"hgx-b200": Hardware("hgx-b200", gpu_count=8, minimum_driver="570.124.06")},
    models={"tiny-llama": Model("tiny-llama", "made on the spot")},
    settings=load.load().settings,
    engines=load.load().engines,
    systems=load.load().systems,
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
                "fingerprint": VENDOR_FINGERPRINT,
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
        "model_revision": REVISION,
        "replicas": 2,
        "tensor_parallel": 4,
    } | changes
