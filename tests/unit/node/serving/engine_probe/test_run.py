"""The probe as a whole: it ends, says one line, and leaves a document of this start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import hard_timeout, program
from b200kit.node.serving.engine_probe import run
from b200kit.node.serving.engine_probe.run import STEPS, ProbeStep
from tests.messages import assert_message

INVOCATION = "0123456789abcdef0123456789abcdef"
WORDS = ["--replica", "3", "--kind", "cpu", "--ranks", "2", "--address", "127.0.0.1"]
PASSES = """echo '{"result": "passed", "seen": "well", "remedy": ""}'"""
FAILS = r"""printf %s '{"result": "failed", "seen": "a\u001b[0m\nb", "remedy": "c"}'"""


@pytest.fixture(autouse=True)
def start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a unit."""
    monkeypatch.setenv("INVOCATION_ID", INVOCATION)


def probe(
    monkeypatch: pytest.MonkeyPatch, folder: Path, second: str, within_s: float = 20.0
) -> tuple[int, dict[str, Any]]:
    """Exit code and document, where the second of three steps is a shell script."""
    scripts = {"one": PASSES, "two": second, "three": PASSES}
    limits = {"two": within_s}
    steps = tuple(ProbeStep(name, lambda _: "", limits.get(name, 20.0)) for name in scripts)
    monkeypatch.setattr(run, "STEPS", steps)
    monkeypatch.setattr(program, "argv", lambda _, name, *words: ["sh", "-c", scripts[name]])
    code = run.main([*WORDS, "--into", str(folder)])
    document: dict[str, Any] = json.loads((folder / "probe.json").read_text())
    return code, document


def test_document_is_of_this_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, document = probe(monkeypatch, tmp_path, PASSES)
    assert code == 0
    assert document["invocation"] == INVOCATION
    assert [step["result"] for step in document["steps"]] == ["passed"] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["probe.json"]


def test_start_by_hand_belongs_to_no_unit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INVOCATION_ID")
    assert probe(monkeypatch, tmp_path, PASSES)[1]["invocation"] is None


@pytest.mark.parametrize(
    ("second", "within_s"),
    [
        pytest.param(FAILS, 20.0, id="a fault, with what no terminal should get"),
        pytest.param("echo Aborted >&2; exit 134", 20.0, id="its process dies"),
        pytest.param("echo '[1]'", 20.0, id="its process says something else"),
        pytest.param("sleep 600", 0.2, id="it hangs"),
    ],
)
def test_first_failed_step_ends_the_probe(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    second: str,
    within_s: float,
) -> None:
    code, document = probe(monkeypatch, tmp_path, second, within_s)
    assert code == 1
    assert [s["result"] for s in document["steps"]] == ["passed", "failed", "not reached"]
    assert_message(capfd.readouterr().err)


def test_document_that_cannot_be_written_hides_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FileNotFoundError):
        probe(monkeypatch, tmp_path / "none", FAILS)
    assert "cannot start its engine: two" in capfd.readouterr().err


@pytest.mark.process
def test_every_step_runs_as_the_unit_runs_it(tmp_path: Path) -> None:
    """By the program itself, isolated; the stand-in needs no package of an engine."""
    done = hard_timeout.run(
        [sys.executable, "-B", "-m", "b200kit.node", "engine-probe", *WORDS[:3], "stand-in",
         *WORDS[4:], "--into", str(tmp_path)],
        60.0,
        {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path),
         "NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo",
         "PYTHONPATH": str(Path(run.__file__).parents[4])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "probe.json").read_text())["steps"]
    assert [step["name"] for step in steps] == [step.name for step in STEPS]
    assert {step["result"] for step in steps} == {"passed", "not applicable"}
