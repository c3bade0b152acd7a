"""A node of two fails in five ways, each cured by its level, and in one that nothing cures, while
clients stream through the fleet's endpoint on the other.

One boot for all of it. Each level may be tried once on a node: what was tried for the fault before
is history, so each fault escalates past it, as on a node that fails again and again. In CI the
fault that only a new image cures is tried a reboot, a power cycle and that, in one run.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit import cli
from b200kit.reprovision.actions import evidence
from b200kit.store import database
from tests.e2e.conftest import SHORT_SMOKE, Boot, Live
from tests.e2e.driving import Outcome, deploy, on, wait_for_boot
from tests.e2e.tools import agent_file, streams
from tests.lab.lab import bmc_up

GOOD, BAD = "b200-1", "b200-2"
PROGRAM = "/usr/local/lib/b200kit/node.pyz"
FLEET_PORT = 8100
# As many as keep one open at any time: each more takes CPUs of this machine from the work.
STREAMS, TOKENS = 2, 60
LEVELS = ("restart_services", "reset_gpus", "reboot", "power_cycle", "reimage")
# Six faults on real vLLM take most of half an hour: `make test-reprovision`. What is tested, the
# way out and back under streams, is the same on the stand-in.
STAND_IN = "stand-in"
ENGINE = os.environ.get("B200_E2E_ENGINE", STAND_IN)
DATA: dict[str, Any] = {
    "fleet": {"port": FLEET_PORT},
    "gateway_bind": "0.0.0.0",
    "gateway": {"tls": "off"},
    "reprovision": {
        "budgets": dict.fromkeys(LEVELS, 1),
        "repair_drain_s": 120,
    },
    "rollout": {"share_percent": 10, "watch_s": 3},
    # As a site has it: a node returns by the proof that its looks issue.
    "watchdog": {
        "health_check_s": 10,
        "health_check_deadline_s": 60,
        "deadline_s": 120,
        "stall_s": 600,
    },
    "proof": {"issue": "on"},
}
FAULTS = [
    pytest.param("cured-by-restart", "restart-services", marks=pytest.mark.long),
    pytest.param("cured-by-gpu-reset", "reset-gpus", marks=pytest.mark.long),
    pytest.param("cured-by-reboot", "reboot", marks=pytest.mark.long),
    pytest.param("cured-by-power-cycle", "power-cycle", marks=pytest.mark.long),
    ("cured-by-reimage", "reimage"),
]


def words() -> list[str]:
    """The inventory's keys of this module, as arguments."""
    given = [w for k, v in DATA.items() for w in ("--data", f"{k}={json.dumps(v)}")]
    return given if ENGINE == STAND_IN else [*given, *SHORT_SMOKE]


def put(path: str, content: bytes) -> None:
    """Write a file on the node that the load comes from."""
    on(GOOD, f"echo {base64.b64encode(content).decode()} | base64 -d > {path}")


class Load:
    """Streams from the good node through its endpoint before both, until stopped."""

    def __init__(self, name: str) -> None:
        self.result = f"/run/{name}.json"
        base = f"/run/{name}"
        on(
            GOOD,
            f"rm -f {base}.*; systemd-run --quiet --collect python3 -I /opt/streams.py {PROGRAM} "
            f"/opt/fleet.json {STREAMS} {TOKENS} {self.result}",
        )
        self.base = base
        self.wait_for_more()

    def wait_for_more(self, streams: int = 2 * STREAMS) -> None:
        """Return when so many more streams have ended."""
        before, end = self._count(), time.monotonic() + 600
        while self._count() < before + streams:
            assert time.monotonic() < end, "no stream ends any more"
            time.sleep(0.2)

    def _count(self) -> int:
        return int(on(GOOD, f"cat {self.base}.count 2>/dev/null || echo 0"))

    def end(self) -> list[dict[str, Any]]:
        """Every stream of this load."""
        waiting = f"while ! test -e {self.result}; do sleep 0.1; done"
        on(GOOD, f"touch {self.base}.stop; timeout 600 sh -c '{waiting}'")
        found: list[dict[str, Any]] = json.loads(on(GOOD, f"cat {self.result}"))
        return found


@dataclass(frozen=True)
class Reprovisioned:
    """A run under load, and every stream that was sent meanwhile."""

    run: Outcome
    streams: list[dict[str, Any]]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The steps that were taken."""
        found: list[dict[str, Any]] = self.run.host(BAD)["reprovision"]["history"]
        return found

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Streams that failed after the node was taken out."""
        return [stream for stream in self.streams if stream["error"]]


@pytest.fixture(scope="module")
def served(boot: Boot, live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Two nodes that serve, each with the fleet's endpoint, and a controller for their power."""
    folder = tmp_path_factory.mktemp("mending")
    try:
        if ENGINE == STAND_IN:
            live(2)
        else:
            boot("healthy", "healthy", engine=ENGINE)
    except lab.NoEngineError as error:
        pytest.skip(str(error))
    bmc_up()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(database.VARIABLE, str(folder / "b200.db"))
        patch.setenv(evidence.VARIABLE, str(folder / "evidence"))
        outcome = deploy("b200.py", *words())
        assert outcome.code == 0, outcome.said[-4000:]
        put("/opt/streams.py", Path(streams.__file__).read_bytes())
        config = json.loads(on(GOOD, "cat /etc/b200kit/serving.json"))
        config["gateway"] = f"http://127.0.0.1:{FLEET_PORT}"
        put("/opt/fleet.json", json.dumps(config).encode())
        yield outcome


def reprovisioned(scenario: str, confirmed: bool = False) -> Reprovisioned:
    """The fault, and one run over both nodes, under load.

    *confirmed*: the agent has taken the replicas out by then, as where a person comes later.
    """
    load = Load(scenario)
    lab.inject(BAD, scenario)
    if confirmed:
        agent_file.look(BAD, 3)
    run = deploy("reprovision.py", *words())
    load.wait_for_more()
    return Reprovisioned(run, load.end())


@pytest.mark.parametrize(("scenario", "level"), FAULTS)
def test_fault_is_mended_by_its_level_and_no_stream_fails(
    served: Outcome, scenario: str, level: str
) -> None:
    found = reprovisioned(scenario, confirmed=level in ("restart-services", "reset-gpus"))
    assert found.run.code == 0, found.run.said[-6000:]
    assert found.run.outcome(BAD) == "live"
    assert found.run.outcome(GOOD) == "fit"
    acts = [step["action"] for step in found.history if step["action"].startswith("action")]
    assert acts[-1] == f"action: {level}", found.history
    assert [step["after"] for step in found.history][-4:] == [
        "provisioned",
        "proven",
        "canary",
        "serving",
    ]
    assert found.failed == []
    assert Path(found.run.host(BAD)["reprovision"]["evidence"]).exists()
    assert found.run.host(BAD)["smoke"]["verdict"] == "pass"


@pytest.mark.long
def test_of_two_controllers_at_once_one_holds_its_node(served: Outcome) -> None:
    """Each would change a node that serves, and one of the two nodes must serve."""
    floor = json.dumps({**DATA["rollout"], "floor": 1})
    change = ("--data", f"rollout={floor}", "--data", "max_num_seqs=9")

    def changed(name: str) -> Outcome:
        return deploy("b200.py", "--limit", name, *words(), *change)

    with ThreadPoolExecutor() as pool:
        runs = dict(zip((GOOD, BAD), pool.map(changed, (GOOD, BAD)), strict=True))
    by_outcome = {run.outcome(name): name for name, run in runs.items()}
    assert by_outcome.keys() == {"live", "held"}, [run.said[-3000:] for run in runs.values()]
    held = by_outcome["held"]
    assert f"not serving: {by_outcome['live']}" in runs[held].described(held)
    assert changed(held).outcome(held) == "live"
    back = deploy("b200.py", *words())
    assert back.code == 0, back.said[-4000:]


def test_fault_that_nothing_cures_ends_quarantined_with_its_part(served: Outcome) -> None:
    found = reprovisioned("cured-by-nothing")
    assert found.run.code == 1
    assert found.run.outcome(BAD) == "quarantined", found.run.said[-4000:]
    assert "replace GPU 5" in found.run.described(BAD)
    assert found.failed == []
    assert on(BAD, "systemctl is-active vllm@0.service || true") != "active"
    assert cli.main(["audit", "verify"]) == 0


def test_nothing_serves_on_it_after_a_reboot_either(served: Outcome) -> None:
    before = on(BAD, "cat /proc/sys/kernel/random/boot_id")
    on(BAD, "systemctl --no-block reboot")
    wait_for_boot(BAD, before)
    # Joins the gate's own job of this boot and ends as it does.
    assert lab.run(BAD, ["systemctl", "start", "b200-gate.service"]).returncode != 0
    assert "quarantined by " in on(BAD, "journalctl -b -o cat -u b200-gate.service")
    lab.run(BAD, ["systemctl", "start", "vllm@0.service"])
    serving = on(BAD, "systemctl is-active haproxy vllm@0 vllm@1 || true").split()
    assert not {*serving} & {"active", "activating"}
