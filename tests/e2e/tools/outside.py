"""Streams from outside a node, which outlive its reboot: in its network, past its other walls."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.driving import ROOT, on
from tests.e2e.tools import streams
from tests.lab.network import namespace
from tests.lab.paths import lab_paths

_NOT_BEGUN = ("refused", "503")
"""Of an error's text: nobody had taken the request, so another node of a fleet gets it."""


@dataclass(frozen=True)
class Stream:
    """One stream of the load."""

    sent: float
    ended: float
    error: str | None

    @property
    def was_lost(self) -> bool:
        """Whether it was cut, as opposed to never begun."""
        return self.error is not None and not any(word in self.error for word in _NOT_BEGUN)


class Load:
    """A constant number of streams through a node's gateway, for as long as the block lasts."""

    def __init__(
        self, name: str, folder: Path, count: int, tokens: int, port: int | None = None
    ) -> None:
        """*port*: of another endpoint on the node than its own."""
        self.result = folder / "load.json"
        config = folder / "serving.json"
        serving: dict[str, Any] = json.loads(on(name, "cat /etc/b200kit/serving.json"))
        if port:
            serving["gateway"] = f"{serving['gateway'].rpartition(':')[0]}:{port}"
        config.write_text(json.dumps(serving | {"api_key_file": str(lab_paths().api_key)}))
        words = [str(ROOT / "deploy"), str(config), str(count), str(tokens), str(self.result)]
        inside = ["ip", "netns", "exec", namespace(name)]
        self._process = subprocess.Popen([*inside, sys.executable, "-I", streams.__file__, *words])

    def __enter__(self) -> Load:
        self.wait_for_more(4)
        return self

    def wait_for_more(self, count: int) -> None:
        """Return when so many more streams have ended."""
        before, end = self._count(), time.monotonic() + 300
        while self._count() < before + count:
            assert time.monotonic() < end, "no stream ends any more"
            time.sleep(0.05)

    def _count(self) -> int:
        try:
            return int(self.result.with_suffix(".count").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def __exit__(self, *_: object) -> None:
        self.result.with_suffix(".stop").touch()
        self._process.wait(300)

    @property
    def streams(self) -> list[Stream]:
        """Every one, after the end."""
        found = json.loads(self.result.read_text())
        return [Stream(one["sent"], one["ended"], one["error"]) for one in found]
