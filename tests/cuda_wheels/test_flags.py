"""Our list of the engine's flags and variables against the engine."""

from __future__ import annotations

import base64
from pathlib import Path

from b200kit.catalog.engines import snapshot
from tests.cuda_wheels.inside import Inside

LISTED = Path(snapshot.__file__).with_name("vllm-0.33.0.yaml")


def told(text: str) -> list[str]:
    """The lines but for the comment, which has a date."""
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_list_is_what_the_cuda_build_takes(with_library: Inside) -> None:
    program = base64.b64encode(Path(snapshot.__file__).read_bytes()).decode()
    done = with_library.shell(f"echo {program} | base64 -d | {with_library.venv}/bin/python - vllm")
    assert told(done.out) == told(LISTED.read_text(encoding="utf-8")), done.err
