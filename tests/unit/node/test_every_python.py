"""The node program under every Python that a supported system has: the same answers.

Each version is asked where this machine has it, on PATH as python3.N or as pyenv or uv installed
it; its own always. What is compared is what this process itself computes, or what the first version
answered.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.run import zipapp
from tests.interpreters import OWN, interpreter
from tests.unit import own_state, states
from tests.unit.lab.shim_kit import facts
from tests.unit.node.client.server_thread import running
from tests.unit.node.conftest import Nvml
from tests.unit.node.latency.test_smoke import SMOKE, config
from tests.unit.node_schema import problems

pytestmark = pytest.mark.process

VERSIONS = sorted({"3.10", "3.11", "3.12", "3.13", OWN})

# What the program itself does at its start, to call what lies in it.
LOAD = "import json, sys; sys.path.insert(0, sys.argv[1])\n"
IMPORT_ALL = """
import pkgutil, warnings
from importlib import import_module
warnings.simplefilter("error")
import b200kit.node
for module in pkgutil.walk_packages(b200kit.node.__path__, "b200kit.node."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
"""
JUDGE = """
from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
print(json.dumps([unstructure(judge(*each)) for each in json.load(sys.stdin)]))
"""


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter of each version."""
    version: str = request.param
    found = interpreter(version)
    if found is None:
        pytest.skip(f"this machine has no python{version}")
    return found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node program as it is shipped."""
    path = tmp_path_factory.mktemp("program") / "node.pyz"
    path.write_bytes(zipapp.build()[0])
    return path


def run(*argv: object, said: str | None = None) -> subprocess.CompletedProcess[str]:
    """A program with this text as its input."""
    words = [str(word) for word in argv]
    return subprocess.run(words, input=said, capture_output=True, text=True, check=False)


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    """The document that a command printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def observed(python: str, program: Path) -> dict[str, Any]:
    """One observation."""
    request = {"units": ["no.service"], "packages": ["bash"], "files": ["/no/such/file"]}
    encoded = base64.b64encode(json.dumps(request).encode()).decode()
    document: dict[str, Any] = answer(run(python, "-I", program, "observe", "--ask", encoded))
    return document


def test_every_module_loads_without_a_warning(python: str, program: Path) -> None:
    done = run(python, "-I", "-c", LOAD + IMPORT_ALL, program)
    assert (done.returncode, done.stderr) == (0, "")


def test_node_is_observed_alike(python: str, program: Path, nvml: Nvml) -> None:
    nvml("healthy")
    document, own = observed(python, program), observed(sys.executable, program)
    assert problems(document) == []
    assert sorted(document) == sorted(own)
    for part in ("gpus", "nvml", "p2p", "pci", "numa", "packages", "units", "files", "modules"):
        assert document[part] == own[part], part
    assert document["gpus"][0]["name"] == "NVIDIA B200"


def test_recorded_nodes_are_judged_alike(python: str, program: Path) -> None:
    cases = [[states.expectation(), states.recorded(name)] for name in states.NAMES]
    verdicts = answer(run(python, "-I", "-c", LOAD + JUDGE, program, said=json.dumps(cases)))
    assert verdicts == [unstructure(judge(*case)) for case in cases]
    assert {verdict["fit"] for verdict in verdicts} >= {"fit", "unfit"}


def test_process_on_a_gpu_is_found_alike(python: str, program: Path, nvml: Nvml) -> None:
    nvml(lines=f"gpu.2.processes={os.getpid()}")
    [held] = answer(run(python, "-I", program, "_gpu-holders", facts()["gpu.2.uuid"]))
    assert held["process"].startswith(f"pid {os.getpid()} ")


def test_server_is_asked_and_measured_alike(python: str, program: Path, tmp_path: Path) -> None:
    with running() as url:
        serving = config(tmp_path, url)
        asked = answer(run(python, "-I", program, "correctness-check", "--config", serving))
        done = run(python, "-I", program, "measure", "--config", serving, "--seed", 5)
    measured = json.loads(done.stdout)
    assert (asked["problems"], asked["same_text"]) == ([], True)
    main = measured["main"]
    assert (main["completed"], main["failed"]) == (SMOKE["requests"], 0), done.stderr
    assert main["total_output_tokens"] == 60
    assert measured["conditions"]["isl_measured"] == {"min": 40, "mean": 40.0, "max": 40}


def test_texts_are_measured_from_the_one_file(python: str, program: Path, tmp_path: Path) -> None:
    asked = {"prompts": "texts", "input_tokens": 120}
    with running() as url:
        serving = config(tmp_path, url, smoke=SMOKE | asked)
        done = run(python, "-I", program, "measure", "--config", serving, "--seed", 5)
    measured = json.loads(done.stdout)
    main = measured["main"]
    assert (main["completed"], main["failed"]) == (SMOKE["requests"], 0), done.stderr
    assert measured["conditions"]["isl_measured"] == {"min": 120, "mean": 120.0, "max": 120}


def test_files_are_written_alike(python: str, program: Path, tmp_path: Path) -> None:
    target = tmp_path / "etc/daemon.json"
    content = base64.b64encode(b'{"kept": 1}').decode()
    whole = {"path": str(target), "content": content, "mode": 0o640, "owner": "root:root"}
    document = json.dumps({"files": [whole]})
    state = tmp_path / "state"
    state.mkdir()
    there = (python, "-I", "-c", own_state.PROGRAM, program, state)
    assert answer(run(*there, "put_files", said=document)) == 1
    assert (target.stat().st_mode & 0o777, target.read_bytes()) == (0o640, b'{"kept": 1}')
    assert str(target) in json.loads((state / "installed.json").read_text())["files"]
