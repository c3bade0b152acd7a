"""Weights of one of two vLLM replicas with periodic errors of many bits, none of them NaN: found.

The file on the disk is sound, as where a GPU's memory is not; the replica alone sees another one.
Two that differ name nobody: the reference, which both made before, tells which of them is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import SHORT_SMOKE
from tests.e2e.driving import Outcome, deploy, on, unwatched

pytestmark = pytest.mark.real_engine

NODE, WRONG = "b200-1", 1
UNIT = f"vllm@{WRONG}.service"
FOLDER = f"/run/systemd/system/{UNIT}.d"
WEIGHTS = "/run/wrong.safetensors"
# One element in 64 of a matrix, 4 of its 16 bits; what would be NaN or infinite stays.
SPOIL = """
import json, struct, sys
from array import array
source, target = sys.argv[1:]
data = bytearray(open(source, "rb").read())
[length] = struct.unpack("<Q", data[:8])
tensor = json.loads(data[8 : 8 + length])["model.layers.1.mlp.down_proj.weight"]
begin, end = (8 + length + offset for offset in tensor["data_offsets"])
words, changed = array("H", bytes(data[begin:end])), 0
for at in range(5, len(words), 64):
    wrong = words[at] ^ 0b0000_0101_0100_1000
    if wrong & 0x7F80 != 0x7F80:
        words[at], changed = wrong, changed + 1
data[begin:end] = words.tobytes()
open(target, "wb").write(data)
print(changed)
"""


@contextmanager
def spoiled(program: str = SPOIL) -> Iterator[int]:
    """Replica 1 serves weights that a *program* changed until the end of the block; how many."""
    model = on(NODE, f"sed -n 's/^model: //p' /etc/vllm/replica-{WRONG}.yaml").strip('"')
    lab.run(NODE, ["sh", "-c", "cat > /run/spoil.py <<'END'\n" + program + "\nEND"])
    count = on(NODE, f"python3 -I /run/spoil.py {model}/model.safetensors {WEIGHTS}")
    line = f"[Service]\\nBindReadOnlyPaths={WEIGHTS}:{model}/model.safetensors\\n"
    on(NODE, f"mkdir -p {FOLDER}; printf '{line}' > {FOLDER}/wrong.conf; {restart()}")
    try:
        yield int(count)
    finally:
        on(NODE, f"rm -r {FOLDER} {WEIGHTS}; {restart()}")


def restart() -> str:
    """A shell line that starts the replica again, warm when it returns."""
    return f"systemctl daemon-reload; systemctl reset-failed {UNIT}; systemctl restart {UNIT}"


def golden(outcome: Outcome) -> dict[str, Any]:
    """What the smoke test says of the answers."""
    found: dict[str, Any] = outcome.host(NODE)["smoke"]["golden"]
    return found


def test_replicas_of_real_vllm_agree_and_one_with_wrong_weights_is_named(real: Outcome) -> None:
    first = golden(real)
    assert (first["agreed"], first["reference"]["outcome"]) == (True, "accepted")
    print(json.dumps({"seconds": first["seconds"], "replicas": first["replicas"]}))
    with unwatched(NODE), spoiled() as count:
        done = deploy("smoke.py", *SHORT_SMOKE)
    assert count > 500
    assert (done.code, done.outcome(NODE)) == (1, "failed"), done.said[-4000:]
    said = done.described(NODE)
    assert f"direct-{WRONG}: answers otherwise than the reference of {NODE}" in said, said
    assert f"direct-{1 - WRONG}: answers otherwise" not in said
    sound = deploy("smoke.py", *SHORT_SMOKE)
    assert sound.code == 0, sound.said[-4000:]
    assert golden(sound)["reference"]["outcome"] == "same"
    assert golden(sound)["replicas"][f"direct-{WRONG}"]["nats"] == 0
