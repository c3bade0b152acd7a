"""What a node proves of itself while it serves: issued, signed, failed by a fault, run out.

Two live nodes, looked at every two seconds, each with the fleet's endpoint. The clock of a
simulated node is that of the machine and cannot be stepped: that step is made in what the agent
remembers of its clock.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit import cli
from b200kit.node.state.proof import ServingNow
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, deploy, on
from tests.e2e.tools.agent_file import FILE, UNIT, proof, worth
from tests.e2e.tools.outside import Load
from tests.lab.paths import host_address, lab_paths

pytestmark = pytest.mark.long

NODE, OTHER = "b200-1", "b200-2"
TTL_S, OUT_S = 30, 20
KEYS: dict[str, Any] = {
    "watchdog": {"health_check_s": 2, "health_check_deadline_s": 25},
    "proof": {"health_ttl_s": TTL_S, "expired_share": 40, "out_after_s": OUT_S},
    "fleet": {"port": 8100},
    "gateway_bind": "0.0.0.0",
    "gateway": {"tls": "off"},
}
DATA = tuple(
    word
    for key, value in KEYS.items()
    for word in (
        "--data", f"{key}={value if isinstance(value, str) else json.dumps(value)}",
    )
)  # fmt: skip


@pytest.fixture(scope="module")
def serving(live: Live) -> Iterator[Outcome]:
    """A node that serves."""
    live(2)
    outcome = deploy("b200.py", *DATA)
    assert outcome.code == 0, outcome.said[-3000:]
    yield outcome
    on(NODE, f"systemctl start {UNIT}")


def until(there: Callable[[], bool], seconds: float = 90) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not there():
        assert time.monotonic() < began + seconds, on(
            NODE, f"journalctl -u {UNIT} -o cat --no-pager | tail -n 20; cat {FILE}"
        )
        time.sleep(0.2)
    return time.monotonic() - began


def is_standing(word: str, name: str = NODE) -> bool:
    """Whether a node's proof is worth that now; a file that is no JSON holds none."""
    try:
        return worth(name).standing == word
    except json.JSONDecodeError:
        return False


def weights() -> dict[str, int]:
    """Each node's weight at the fleet's endpoint of the first."""
    script = (
        "import sys; sys.path.insert(0, '/usr/local/lib/b200kit/node.pyz'); "
        "from b200kit.node.serving.gateway import haproxy; "
        "print(*(f'{s.name}={s.weight}' for s in haproxy.servers(backend='nodes')))"
    )
    words = on(NODE, f'python3 -I -c "{script}"').split()
    return {name: int(weight) for name, _, weight in (word.partition("=") for word in words)}


def given(name: str) -> int:
    """Requests that a node's gateway was given since it began."""
    script = (
        "import sys; sys.path.insert(0, '/usr/local/lib/b200kit/node.pyz'); "
        "from b200kit.node.serving.gateway import haproxy; print(haproxy.traffic()[0])"
    )
    return int(on(name, f'python3 -I -c "{script}"'))


def fetched(folder: Path) -> Path:
    """Both files, of one look: until they fit, another one came between."""
    for name in ("agent.json", "agent.json.sig"):
        (folder / name).write_text(lab.run(NODE, ["cat", f"{Path(FILE).parent}/{name}"]).stdout)
    return folder / "agent.json"


def verify(file: Path) -> int:
    """The exit code, by the keys that the lab has pinned."""
    keys = (
        "--known-hosts",
        str(lab_paths().known_hosts),
        "--name",
        host_address(NODE),
        "--node",
        NODE,
    )
    return cli.main(["proof", "verify", str(file), *keys, "--store", str(file.parent / "b200.db")])


def test_a_node_that_serves_has_proven_it(serving: Outcome) -> None:
    seconds = until(lambda: is_standing("valid"))
    found = proof(NODE)
    assert found.serving.gpus == 8
    assert {one.kind for one in found.required} == {
        "health", "gate", "latency", "answers",
    }  # fmt: skip
    print(f"valid {seconds:.1f} s after the deployment")


def test_ssh_keygen_alone_verifies_it(serving: Outcome, tmp_path: Path) -> None:
    until(lambda: is_standing("valid"))
    until(lambda: verify(fetched(tmp_path)) == 0)
    file = tmp_path / "agent.json"
    node, public = proof(NODE).node, on(NODE, "cat /etc/ssh/ssh_host_ed25519_key.pub")
    (tmp_path / "signers").write_text(f'{node} namespaces="b200kit-proof" {public}\n')
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", node]
    argv += ["-n", "b200kit-proof", "-s", f"{file}.sig"]
    done = subprocess.run(argv, input=file.read_bytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    # The same by the keys that the lab has pinned, without being told one.
    assert verify(file) == 0


def test_check_is_fit_and_the_second_run_changes_nothing(serving: Outcome) -> None:
    until(lambda: is_standing("valid"))
    check = deploy("check.py", *DATA)
    assert check.code == 0, check.described(NODE)
    again = deploy("b200.py", *DATA)
    assert (again.host(NODE)["changes"], again.host(NODE)["commands"]) == (0, 2)


def test_a_fault_that_took_its_replica_out_leaves_the_rest_proven(serving: Outcome) -> None:
    until(lambda: is_standing("valid"))
    lab.inject(NODE, "seventeen-links")
    try:
        until(lambda: proof(NODE).serving == ServingNow((1,), 4))
        for _ in range(3):
            before = proof(NODE).sequence
            until(lambda before=before: proof(NODE).sequence > before)  # type: ignore[misc]
            assert is_standing("valid")
    finally:
        lab.inject(NODE, "healthy")
    until(lambda: proof(NODE).serving.gpus == 8)


def test_a_confirmed_fault_of_what_serves_ends_it_and_its_mend_renews_it(serving: Outcome) -> None:
    until(lambda: is_standing("valid"))
    lab.inject(NODE, "mixed-vbios")
    try:
        ended = until(lambda: is_standing("expired"))
        assert worth(NODE).why.startswith("health: fail: ")
    finally:
        lab.inject(NODE, "healthy")
    back = until(lambda: is_standing("valid"))
    print(f"expired {ended:.1f} s after the fault, valid {back:.1f} s after its mend")


def test_a_step_of_the_clock_is_refused_until_it_is_back(serving: Outcome) -> None:
    until(lambda: is_standing("valid"))

    def stepped(seconds: int) -> None:
        """As if the time of day had been set while no agent ran."""
        step = f"d['proof']['clock']['epoch_s'] -= {seconds}"
        read = f"import json; p = '{FILE}'; d = json.load(open(p)); {step}"
        on(NODE, f"systemctl stop {UNIT}; python3 -c \"{read}; json.dump(d, open(p, 'w'))\"")
        on(NODE, f"systemctl start {UNIT}")

    stepped(3600)
    until(lambda: "stepped by +3600 s" in worth(NODE).why)
    stepped(-3600)
    until(lambda: is_standing("valid"))


@pytest.mark.parametrize("how", ["SIGSTOP", "stop"])
def test_of_an_agent_that_is_dead_or_stopped_it_runs_out_and_replicas_serve_on(
    serving: Outcome, tmp_path: Path, how: str
) -> None:
    until(lambda: is_standing("valid"))
    until(lambda: verify(fetched(tmp_path)) == 0)
    file, before = tmp_path / "agent.json", given(NODE)
    if how == "stop":
        on(NODE, f"systemctl stop {UNIT}")
    else:
        # systemd's watchdog would end it after a minute: sooner than that it has run out.
        on(NODE, f"systemctl kill --kill-who=main --signal=SIGSTOP {UNIT}")
    until(lambda: verify(file) == 1)
    until(lambda: is_standing("expired"))
    with Load(NODE, tmp_path, 2, 20) as load:
        load.wait_for_more(4)
    assert [one for one in load.streams if one.was_lost] == []
    assert given(NODE) > before
    if how == "stop":
        check = deploy("check.py", *DATA)
        found = check.host(NODE)["verdict"]["findings"]
        assert check.code == 1
        assert "proof.valid" in [one["check"] for one in found if one["status"] == "fail"]
        on(NODE, f"systemctl start {UNIT}")
    until(lambda: is_standing("valid"), 180)


@pytest.mark.parametrize("damage", ["", "{", "garbage"])
def test_a_damaged_file_proves_nothing_and_the_agent_comes_back_by_itself(
    serving: Outcome, damage: str
) -> None:
    until(lambda: is_standing("valid"))
    on(NODE, f"systemctl stop {UNIT}; printf '%s' '{damage}' > {FILE}; systemctl start {UNIT}")
    until(lambda: is_standing("valid"), 120)
    assert proof(NODE).serving.gpus == 8


def looks(verb: str, *names: str) -> None:
    """Let no look be made on nodes, or let them be made again."""
    for name in names:
        on(name, f"systemctl {verb} {UNIT}")


def test_one_that_ran_out_weighs_its_node_down_then_takes_it_out_and_no_stream_is_lost(
    serving: Outcome, tmp_path: Path
) -> None:
    until(lambda: weights() == {NODE: 100, OTHER: 100})
    with Load(NODE, tmp_path, 4, 40, port=8100) as load:
        looks("stop", OTHER)
        weighed = until(lambda: weights() == {NODE: 100, OTHER: 40})
        out = until(lambda: weights() == {NODE: 100, OTHER: 0})
        before = given(OTHER)
        load.wait_for_more(20)
        assert given(OTHER) == before
        looks("start", OTHER)
        back = until(lambda: weights() == {NODE: 100, OTHER: 100})
        load.wait_for_more(20)
        assert given(OTHER) > before
    assert [one for one in load.streams if one.was_lost] == []
    figures = f"weighed down after {weighed:.1f} s, out {out:.1f} s later, back {back:.1f} s after"
    print(f"{figures} its next look; 0 of {len(load.streams)} streams lost")


def test_the_last_nodes_serve_on_without_proof(serving: Outcome, tmp_path: Path) -> None:
    until(lambda: weights() == {NODE: 100, OTHER: 100})
    with Load(NODE, tmp_path, 4, 40, port=8100) as load:
        looks("stop", NODE, OTHER)
        until(lambda: weights() == {NODE: 0, OTHER: 0})
        before = given(NODE), given(OTHER)
        load.wait_for_more(20)
        assert given(NODE) > before[0]
        assert given(OTHER) > before[1]
        looks("start", NODE, OTHER)
        until(lambda: weights() == {NODE: 100, OTHER: 100})
        load.wait_for_more(4)
    assert [one for one in load.streams if one.was_lost] == []
