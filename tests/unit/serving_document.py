"""serving.json for tests of the node program: what must be there, and what a test changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from b200kit.node.state.serving import Serving
from tests.unit.node.client.server_thread import MODEL


def document(
    url: str, gpus: Sequence[Sequence[str]] = ((),), /, **changes: object
) -> dict[str, Any]:
    """The document of replicas that all answer at `url`, as the gateway does. gpus: of each."""
    replicas = [
        {"index": number, "url": url, "unit": f"vllm@{number}.service", "uuids": list(uuids)}
        for number, uuids in enumerate(gpus)
    ]
    sizes = {"max_num_seqs": 8, "max_model_len": 4096, "max_num_batched_tokens": 2048}
    whole = {"model": MODEL, "engine": "stand-in", "gateway": url, "replicas": replicas, **sizes}
    return {"schema": Serving.schema, **whole, **changes}


def written(
    folder: Path, url: str, gpus: Sequence[Sequence[str]] = ((),), /, **changes: object
) -> Path:
    """The file, in a folder of the test."""
    path = folder / "serving.json"
    path.write_text(json.dumps(document(url, gpus, **changes)))
    return path
