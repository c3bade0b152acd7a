"""A model in fewer bits on a node with real vLLM: refused, compared with the original, admitted.

Replica 0 serves the tiny model as it was published. Replica 1 serves weights rounded to six
fraction bits, and later the same with one scale that is wrong. The site's config.json says that the
weights are FP8; what a CPU computes with are the rounded numbers, in bfloat16. FP8's own three bits
change 13 % of the tokens of such a model, five bits 5 % (measured): of random weights many are
nearly tied.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import tests.lab as lab
from tests.e2e.driving import ROOT, Outcome, deploy, unwatched
from tests.e2e.real_engine.test_golden_answers import NODE, WRONG, spoiled
from tests.lab import cgroups
from tests.lab.paths import lab_paths
from tests.lab.supply import models

pytestmark = pytest.mark.real_engine

B200 = ROOT / ".venv/bin/b200"
INVENTORY = """
from b200kit.operations import preflight
from tests.lab.inventory import nodes as of_lab

preflight.attach()
nodes = [(name, data | {more!r}) for name, data in of_lab()]
"""
# The two matrices of each layer's feed-forward part and its attention: all but the ends.
ROUND = """
import json, struct, sys
from array import array

source, target = sys.argv[1:3]
data = bytearray(open(source, "rb").read())
[length] = struct.unpack("<Q", data[:8])
changed = 0
for name, tensor in json.loads(data[8 : 8 + length]).items():
    if "_proj" not in name:
        continue
    begin, end = (8 + length + offset for offset in tensor["data_offsets"])
    words = array("H", bytes(data[begin:end]))
    scale = 0x80 if name in SCALED else 0
    words = array("H", (((word + 1) & 0xFFFE) + scale if word & 0x7F80 else word for word in words))
    data[begin:end] = words.tobytes()
    changed += len(words)
open(target, "wb").write(data)
print(changed)
"""
SOUND = "SCALED = ()" + ROUND
WRONG_SCALE = 'SCALED = ("model.layers.1.mlp.down_proj.weight",)' + ROUND


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """The lab's, with a config.json that says the weights are FP8."""
    config = models.config() | {"quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    more = {
        "model_config_file": str(tmp_path / "config.json"),
        "ssh_strict_host_key_checking": "yes",
    }
    path = tmp_path / "fp8.py"
    path.write_text(INVENTORY.format(more=more))
    return path


def compared(inventory: Path) -> subprocess.CompletedProcess[str]:
    """Replica 1 beside replica 0, from where their ports are."""
    ports = {0: 8001, 1: 8002}
    inside = ["nsenter", f"--target={cgroups.init_pid(NODE)}", "--net", "--"]
    asked = [
        str(B200), "quality", "compare", NODE, "-i", str(inventory), "--requests", "64",
        "--reference", f"http://127.0.0.1:{ports[1 - WRONG]}",
        "--candidate", f"http://127.0.0.1:{ports[WRONG]}",
        "--key-file", str(lab_paths().api_key), "--reference-key-file", str(lab_paths().api_key),
    ]  # fmt: skip
    done = subprocess.run(
        [*inside, *asked], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    print(done.stdout, done.stderr)
    return done


def refused(outcome: Outcome) -> str:
    """Why a run changed nothing; the node serves on."""
    assert outcome.code == 1
    assert outcome.host(NODE)["changes"] == 0
    assert lab.run(NODE, ["systemctl", "is-active", "vllm.target"]).stdout.strip() == "active"
    return outcome.described(NODE)


def test_model_in_fewer_bits_serves_once_it_was_compared(real: Outcome, inventory: Path) -> None:
    path = str(inventory)
    assert "fp8 weights of tiny-llama: not validated here" in refused(deploy(inventory=path))
    with unwatched(NODE), spoiled(SOUND) as rounded:
        near = compared(inventory)
    assert rounded > 100_000
    assert near.returncode == 0, (near.stdout, near.stderr)
    admitted = deploy(inventory=path)
    assert (admitted.code, admitted.outcome(NODE)) == (0, "live"), admitted.said[-4000:]
    with unwatched(NODE), spoiled(WRONG_SCALE):
        far = compared(inventory)
    assert far.returncode == 1, (far.stdout, far.stderr)
    assert "fp8 weights of tiny-llama: answers lie too far" in refused(deploy(inventory=path))
    back = deploy()
    assert (back.code, back.outcome(NODE)) == (0, "live"), back.said[-4000:]


def test_server_that_is_asked_twice_is_no_comparison(real: Outcome, inventory: Path) -> None:
    assert compared(inventory).returncode == 2
