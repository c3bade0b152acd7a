"""deploy/tune.py through the real CLI: announced, deployed, measured, put back, written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake.fleet import Fleet
from tests.fake.machine import measured
from tests.messages import assert_message

TUNE = {"layouts": ["configured", "A", "Z"], "requests": 60, "seconds": 1, "resolution": 0.5}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """One node that b200.py took live; it meets the objective below 8 requests a second."""
    fleet = Fleet(tmp_path)
    fleet.add("n01")
    assert fleet.run("b200.py").code == 0
    machine = fleet.machine("n01")
    machine.answers = {
        r"measure .*--rate 8 ": (False, answer(good=12)),
        r"measure .*--rate ": (True, answer(good=60)),
    }
    machine.log.clear()
    machine.save()
    return fleet


def answer(good: int, of: int = 60) -> str:
    """A smoke test with so many good requests."""
    found = measured()
    found["main"] |= {"num_prompts": of, "goodput_share": good / of, "request_goodput": 3.9}
    return json.dumps(found)


def test_dry_run_tells_it_and_a_run_does_it_and_puts_the_node_back(fleet: Fleet) -> None:
    asked = ("--data", f"tune={json.dumps(TUNE)}")
    dry = fleet.run("tune.py", "--dry", *asked, yes=False)
    message = [line for line in dry.stderr.splitlines() if "would tune" in line]
    assert len(message) == 2
    assert_message(*message, *[line for line in dry.stderr.splitlines() if "not tried" in line])
    assert not fleet.machine("n01").ran(r"measure |systemctl stop")
    assert not (fleet.folder / "tuning").exists()

    before = fleet.machine("n01").text("/etc/vllm/replica-0.yaml")
    run = fleet.run("tune.py", *asked)
    assert run.code == 0, run.stderr
    found = run.hosts["n01"]["tuning"]
    assert [("/".join(cell["layout"]["names"]), cell["rate"]) for cell in found["cells"]] == [
        (name, rate) for name in ("configured", "A") for rate in (4, 8, 5.66)
    ]
    assert [one["knee"]["rate"] for one in found["knees"]] == [5.66] * 2
    assert found["chosen"]["layout"]["names"] == ["configured"]
    assert "tensor_parallel = 4\n" in run.report
    assert "# Why: goal latency" in run.report
    assert "at most about 0 s left" in run.stderr

    machine = fleet.machine("n01")
    assert machine.text("/etc/vllm/replica-0.yaml") == before
    assert machine.is_active("haproxy.service")
    assert not machine.is_active("vllm@2.service")
    assert run.outcomes == {"n01": "live"}
