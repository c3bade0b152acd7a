"""What a fetch says of itself while it goes on."""

from __future__ import annotations

import json
import time
from pathlib import Path

from b200kit.node.weights.progress import Progress


def test_it_checks_until_a_source_has_sent_a_byte(tmp_path: Path) -> None:
    status = tmp_path / "status.json"

    def state() -> str:
        return str(json.loads(status.read_text())["state"])

    progress = Progress("0" * 64, status)
    progress.expect(total=10, have=4, files=2, done=1)
    assert (state(), json.loads(status.read_text())["have_bytes"]) == ("checking", 4)
    progress.arrived(6)
    end = time.monotonic() + 60
    while state() != "fetching":
        assert time.monotonic() < end
        time.sleep(0.01)
    progress.end("complete")
    assert state() == "complete"


def test_refusal_before_the_first_byte_is_the_last_word(tmp_path: Path) -> None:
    status = tmp_path / "status.json"
    progress = Progress("0" * 64, status)
    progress.expect(total=10, have=0, files=1, done=0)
    progress.end("refused", "401")
    assert json.loads(status.read_text())["state"] == "refused"
