"""A node is drained, checked, repaired and returned to service, step by step, over one reboot."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api.host import Host
from pyinfra.connectors.util import CommandOutput, OutputLine

import tests.lab as lab
from b200kit.reprovision.actions import ActionFailed, evidence, quarantine
from b200kit.reprovision.actions.daemons import RESET, RESTART
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.traffic.haproxy import TRAFFIC
from b200kit.run.node import Node
from b200kit.run.remote import Remote
from tests.e2e.conftest import Live
from tests.e2e.driving import deploy, on, wait_for_boot
from tests.e2e.tools import streams
from tests.lab.paths import lab_paths
from tests.unit import nodes

pytestmark = pytest.mark.long

NODE = "b200-1"
PROGRAM = "/usr/local/lib/b200kit/node.pyz"
STREAMS, TOKENS = 4, 120
HOLDER = "holder.service"
GATE = f"python3 -I {PROGRAM} gate --expect /etc/b200kit/expect.json --deadline 0"
LEAK = "canary-in-a-journal"


@pytest.fixture(scope="module")
def node(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A node that serves, as the acts see it."""
    live(1)
    ssh = ["ssh", "-F", str(lab_paths().ssh_config), NODE]

    def shell(command: Any, **arguments: Any) -> tuple[bool, CommandOutput]:
        message = arguments.get("_stdin") or ""
        done = subprocess.run(
            [*ssh, command.get_raw_value()],
            input=message, capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        lines = [OutputLine("stdout", line) for line in done.stdout.splitlines()]
        lines += [OutputLine("stderr", line) for line in done.stderr.splitlines()]
        return done.returncode == 0, CommandOutput(lines)

    found = Node(NODE, nodes.spec(tmp_path_factory.mktemp("spec"), replicas=2))
    found.remote = Remote(cast(Host, SimpleNamespace(run_shell_command=shell, data={})), 300)
    return found


def said(line: str) -> None:
    """What an act tells a person."""
    print(line)


def intent(number: int) -> IntentLine:
    """An act's intent, as the transaction writes it."""
    return IntentLine(step="action", id=f"e2e-{number}", why="GPU 2 asks for a reset")


@pytest.fixture(scope="module")
def archive(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The node's evidence, while its key stands in a journal."""
    folder = tmp_path_factory.mktemp("evidence")
    script = f"echo {LEAK}; echo key $(cat /etc/b200kit/secrets/api_key)"
    on(NODE, f"systemd-run --quiet --wait --unit=b200-leak sh -c '{script}'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(evidence.VARIABLE, str(folder))
        found = evidence.collect(node, intent(1), said)
        assert evidence.collect(node, intent(1), said) == found
        yield Path(found.path)


def test_evidence_is_complete_and_holds_no_secret(archive: Path) -> None:
    key = on(NODE, "cat /etc/b200kit/secrets/api_key").encode()
    with tarfile.open(archive) as packed:
        files = {m.name.partition("/")[2]: packed.extractfile(m) for m in packed.getmembers()}
        contents = {name: file.read() for name, file in files.items() if file}
    parts = json.loads(contents["manifest.json"])["parts"]
    without = {name for name, entry in parts.items() if "unmeasured" in entry}
    assert without <= {
        *("nvidia-bug-report.sh.log.gz", "journal-before-reboot.log", "apt-history.log"),
        *(
            "nvidia-smi.txt",
            "notes/watchdog-mark.json",
            "notes/quarantine.json",
            "notes/bandwidth.json",
        ),
        *("notes/reboot.json", "notes/packages.json"),
    }, parts
    assert LEAK.encode() in contents["journal.log"]
    assert len(key) >= 8
    assert [name for name, content in contents.items() if key in content] == []
    assert archive.stat().st_mode & 0o777 == 0o600
    assert archive.stat().st_size < 8 << 20


@pytest.fixture(scope="module")
def drained(node: Node, archive: Path) -> list[dict[str, Any]]:
    """The node is taken out while streams are open; every stream that was sent before."""
    source = Path(streams.__file__).read_text()
    lab.run(NODE, ["sh", "-c", 'printf %s "$0" > /opt/streams.py', source])
    words = f"{PROGRAM} /etc/b200kit/serving.json {STREAMS} {TOKENS} /run/load.json"
    on(NODE, f"systemd-run --quiet --collect python3 -I /opt/streams.py {words}")
    on(NODE, "timeout 600 sh -c 'until [ -e /run/load.count ]; do sleep 0.05; done'")
    assert TRAFFIC.status(node)
    out = float(on(NODE, "date +%s.%N"))
    quarantine.put(node, "tester@ops", "GPU 2 asks for a reset")
    assert "drained" in TRAFFIC.drain(node, "why")
    count = f"python3 -I {PROGRAM} drain count"
    on(NODE, f'timeout 600 sh -c \'until [ "$({count})" = "{{\\"open\\": 0}}" ]; do :; done\'')
    assert TRAFFIC.status(node) == 0
    on(NODE, "touch /run/load.stop; timeout 600 sh -c 'until [ -e /run/load.json ]; do :; done'")
    found: list[dict[str, Any]] = json.loads(on(NODE, "cat /run/load.json"))
    return [stream for stream in found if stream["sent"] < out]


def test_drain_loses_no_open_stream(drained: list[dict[str, Any]]) -> None:
    assert len(drained) >= STREAMS
    assert [stream for stream in drained if stream["error"]] == []


def test_check_refuses_a_node_that_was_taken_out(drained: object) -> None:
    found = deploy("check.py")
    assert found.outcome(NODE) == "unfit"
    assert "quarantined by tester@ops since 2" in found.described(NODE)


@pytest.fixture(scope="module")
def refused(node: Node, drained: object) -> str:
    """A process that nobody knows of holds a GPU when all of them are to be reset."""
    lab.inject(NODE, "cured-by-gpu-reset")
    on(NODE, f"systemd-run --quiet --unit={HOLDER} sh -c 'exec 3</dev/nvidia2; exec sleep 600'")
    assert quarantine.close(node) == "nothing serves"
    with pytest.raises(ActionFailed) as failed:
        RESET.perform(node, intent(2), said)
    return str(failed.value)


def test_reset_is_refused_while_somebody_holds_a_gpu(node: Node, refused: str) -> None:
    pid = on(NODE, f"systemctl show -p MainPID --value {HOLDER}")
    assert f"pid {pid} sleep of {HOLDER}" in refused
    assert resets() == 0
    assert on(NODE, "systemctl is-active nvidia-fabricmanager nvidia-persistenced").split() == [
        "active",
        "active",
    ]
    assert RESET.probe(node, intent(2)) is None


def resets() -> int:
    """How often the simulated GPUs were reset."""
    return on(NODE, "cat /var/lib/b200-lab/events").count("gpu-reset")


def test_reset_mends_what_asks_for_it_once_for_an_act(node: Node, refused: str) -> None:
    asks = "GPU 2's driver asks for"
    assert asks in on(NODE, f"{GATE}; true") or "reset" in on(NODE, f"{GATE}; true")
    on(NODE, f"systemctl stop {HOLDER}")
    message = RESET.perform(node, intent(2), said)
    assert "all GPUs reset" in message
    assert "the fabric is up" in message
    assert RESET.perform(node, intent(2), said) == message
    assert resets() == 1
    assert "done at" in str(RESET.probe(node, intent(2)))
    lines = on(NODE, f"{GATE}; true").splitlines()
    assert lines[0].startswith("gate: unfit")
    assert ["quarantined by tester@ops" in line for line in lines[1:]] == [True]


def test_services_start_again_in_their_order(node: Node, refused: str) -> None:
    lab.inject(NODE, "cured-by-restart")
    state = "systemctl is-active nvidia-fabricmanager.service || true"
    assert on(NODE, state) == "inactive"
    assert "daemons restarted; the fabric is up" in RESTART.perform(node, intent(3), said)
    assert on(NODE, state) == "active"


@pytest.fixture(scope="module")
def rebooted(node: Node, refused: str) -> None:
    """The node came back from a reboot."""
    before = on(NODE, "cat /proc/sys/kernel/random/boot_id")
    on(NODE, "systemctl reboot")
    wait_for_boot(NODE, before)
    on(NODE, "timeout 600 systemctl is-system-running --wait || true")


def test_nothing_serves_after_a_reboot_until_it_is_released(node: Node, rebooted: None) -> None:
    assert "quarantined by tester@ops" in on(NODE, "journalctl -b -o cat -u b200-gate.service")
    serving = "systemctl is-active haproxy vllm@0 vllm@1 || true"
    assert set(on(NODE, serving).split()) & {"active", "activating"} == set()
    on(NODE, "systemctl start vllm@0.service; true")
    assert set(on(NODE, serving).split()) & {"active", "activating"} == set()
    assert "on trial by tester@ops" in quarantine.admit(node, "tester@ops")
    on(NODE, "systemctl start vllm.target haproxy.service")
    assert "active" in on(NODE, serving)
    assert quarantine.close(node) == "nothing serves"
    on(NODE, "systemctl start haproxy.service; true")
    assert "active" not in on(NODE, serving).split()
    assert "released" in quarantine.lift(node, "tester@ops")
    on(NODE, "systemctl start haproxy.service")
    assert "active" in on(NODE, serving).split()
    assert on(NODE, f"{GATE}; true").startswith("gate: fit")
