"""The watchdog on a node: what is laid down for it and the warm-up, and a mark that ends a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import cpulist
from b200kit.node.lib.documents import unstructure
from b200kit.operations import named_files
from b200kit.run.node import StageFailed
from b200kit.serving import warm_requests
from b200kit.stages import gate, proof, serving, serving_units, watchdog
from tests.messages import assert_message
from tests.unit.nodes import look, planned, settled, spec

MARK = {
    "schema": "b200kit/watchdog-mark/1",
    "who": "b200-agent",
    "when": "2026-11-21T09:40:00Z",
    "why": "replica 1 was ejected 3 times within 3600 s",
    "evidence": "/var/lib/b200kit/agent/20261121T094000Z-vllm1",
    "action": "reset-gpu",
}


def document(tmp_path: Path, **changes: object) -> dict[str, object]:
    """serving.json of a node with these inventory keys."""
    node, _ = settled(tmp_path, **changes)
    found: dict[str, object] = unstructure(serving.serving_document(node, node.layout()))
    return found


def test_rolling_restart_waits_as_long_as_the_inventory_says(tmp_path: Path) -> None:
    found: Any = document(tmp_path, restart_drain_s=37)["rolling_restart"]
    assert found["restart_drain_s"] == 37.0


def test_watchdog_is_restarted_for_a_unit_file_that_changed(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write(f"/etc/systemd/system/{watchdog.UNIT}", b"[Service]\n")
    look(node)
    assert f"restart {watchdog.UNIT}" in planned(node, "watchdog")


def test_unit_is_given_the_key_as_a_credential_and_is_watched_itself(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, watchdog={"health_check_s": 20, "health_check_deadline_s": 9})
    unit = machine.text(f"/etc/systemd/system/{watchdog.UNIT}")
    assert "LoadCredential=api_key:/etc/b200kit/secrets/api_key\n" in unit
    assert "\nWatchdogSec=60\n" in unit
    assert "\nRestart=always\n" in unit
    assert f" agent --node {node.name} --expect /etc/b200kit/expect.json " in unit
    assert f" --proof {proof.RULES} --look 20 --deadline 9\n" in unit


def test_node_is_looked_at_once_before_it_is_live(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.execute("systemd-run --on-active=1 systemctl reboot")
    look(node)
    assert "check the node for the first time" in planned(node, "watchdog")
    watchdog.look(node)
    assert machine.ran(r"health-check --within 120$")


def test_the_agent_keeps_off_the_cpus_of_replicas(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    unit = machine.text(f"/etc/systemd/system/{watchdog.UNIT}")
    [cpus] = [line.partition("=")[2] for line in unit.splitlines() if "CPUAffinity" in line]
    taken = {cpu for replica in node.layout() for cpu in cpulist.parse(replica.cpus)}
    assert {*cpulist.parse(cpus)} - taken == {*cpulist.parse(cpus)} != set()


def test_marked_node_is_not_live_and_the_line_says_what_ends_it(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write("/var/lib/b200kit/watchdog-mark.json", json.dumps(MARK).encode())
    look(node)
    (change,) = watchdog.plan(node)
    with pytest.raises(
        StageFailed, match=r"ejected 3 times.*rm /var/lib/b200kit/watchdog-mark.json"
    ):
        change.apply(node)


def test_watchdog_is_stopped_before_what_it_watches(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    assert serving_units.units(node)[:2] == [watchdog.UNIT, "haproxy.service"]


def test_gate_at_boot_does_not_judge_what_only_a_serving_node_has(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    assert not {"watchdog", "serving", "room", "placement"} & gate.expectation(node).keys()
    replicas = ["vllm@0.service", "vllm@1.service"]
    assert watchdog.expected(node) == {
        "serving": {"replicas": replicas, "gateway": "haproxy.service"},
        "room": {"/": 1024, "/var": 1024},
        "watchdog": {
            "unit": "b200-agent.service",
            "replicas": replicas,
            "health_age_max_s": 75,
        },
    }


def test_looks_judge_what_serves_besides_what_the_gate_does(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    known = json.loads(machine.text(serving.EXPECT))
    assert known.keys() == {"placement", "room", "serving"}
    assert known["placement"].keys() == {"vllm@0.service", "vllm@1.service"}
    unit = machine.text("/etc/systemd/system/b200-agent.service")
    assert f" --expect /etc/b200kit/expect.json --expect {serving.EXPECT} " in unit
    machine.write(serving.EXPECT, b"{}")
    look(node)
    assert planned(node, "serving") == [f"write {serving.EXPECT}"]


def test_rules_and_the_engines_own_names_reach_the_node(tmp_path: Path) -> None:
    found = document(tmp_path, watchdog={"interval_s": 5, "ejections": 2, "takes_out": ["nvlink"]})[
        "watchdog"
    ]
    assert found == {
        "rules": {
            "interval_s": 5.0, "deadline_s": 20.0, "strikes": 2, "stall_s": 60.0,
            "ejections": 2, "window_s": 3600.0, "slower": 3.0,
        },
        "health_rules": {"confirm": 2, "health_checks": 3, "clear": 3},
        "mend_rules": {"mends": [], "mend_most": 2, "mend_window_s": 3600.0},
        "takes_out": ["nvlink"],
        "waiting": "vllm:num_requests_waiting",
        "gaps": "vllm:inter_token_latency_seconds",
        "progress": ["vllm:generation_tokens_total", "vllm:prompt_tokens_total"],
    }  # fmt: skip


def test_what_is_not_served_is_not_warmed(tmp_path: Path) -> None:
    warm = document(tmp_path, features_off=["structured output"])["warm"]
    assert isinstance(warm, dict)
    assert "structured output" not in warm["features"]
    assert "logprobs" in warm["features"]


def test_limits_of_the_warm_up_reach_the_node(tmp_path: Path) -> None:
    warm = document(tmp_path, warm_tolerance=0.25, warm_deadline_s=700)["warm"]
    assert isinstance(warm, dict)
    assert (warm["tolerance"], warm["timeout_s"]) == (0.25, 700)


def test_system_prompts_are_roots_alone_and_named_to_the_warm_up(tmp_path: Path) -> None:
    prompt = tmp_path / "museum.txt"
    prompt.write_text("You answer in one line.")
    node, _ = settled(tmp_path, system_prompts=[str(prompt)])
    (file,) = warm_requests.files(node)
    assert (file.path, file.content, file.mode) == (
        "/etc/b200kit/system-prompts/0.txt",
        b"You answer in one line.",
        0o600,
    )
    assert warm_requests.warm(node).system_prompts == (file.path,)
    assert file in serving.desired(node, node.layout()).files


@pytest.mark.parametrize(
    "content",
    [None, b" \n", b"\xff\xfe"],
)
def test_system_prompt_that_cannot_be_used_is_refused_before_any_connection(
    tmp_path: Path, content: bytes | None
) -> None:
    prompt = tmp_path / "museum.txt"
    if content is not None:
        prompt.write_bytes(content)
    problems = list(named_files.missing(spec(tmp_path, system_prompts=[str(prompt)])))
    assert [problem.key for problem in problems] == ["system_prompts.0"]
    assert_message(problems[0].message)


def test_node_measures_itself_in_the_sites_hours(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, proof={"renew": {"window": "22:30-02:30", "idle_s": 90}})
    assert machine.is_active(watchdog.RENEWAL_TIMER)
    timer = machine.text(f"/etc/systemd/system/{watchdog.RENEWAL_TIMER}")
    assert "\nOnCalendar=*-*-* 22:30:00 UTC\n" in timer
    # Half of the hours, so that the node that begins last has as much time.
    assert "\nRandomizedDelaySec=7200\nFixedRandomDelay=yes\n" in timer
    unit = machine.text(f"/etc/systemd/system/{watchdog.RENEWAL}")
    assert f"renew --rules {proof.RULES} --serving {serving.SERVING}\n" in unit
    assert "\nTimeoutStartSec=14460\n" in unit
    assert json.loads(machine.text(proof.RULES))["renew"] == {
        "window": "22:30-02:30",
        "idle_s": 90.0,
        "when_left": 0.5,
    }
    # A changed unit is no reason to measure.
    machine.write(f"/etc/systemd/system/{watchdog.RENEWAL}", b"[Service]\n")
    look(node)
    assert f"restart {watchdog.RENEWAL_TIMER}" in planned(node, "watchdog")
    assert f"restart {watchdog.RENEWAL}" not in planned(node, "watchdog")


@pytest.mark.parametrize("keys", [{"issue": "off"}, {"renew": {"by_node": "off"}}])
def test_node_that_is_not_to_measure_itself_does_not(tmp_path: Path, keys: dict[str, Any]) -> None:
    node, machine = settled(tmp_path)
    node.spec = spec(machine.folder, proof=keys)
    look(node)
    (removal,) = [change for change in watchdog.plan(node) if change.what.startswith("remove ")]
    removal.apply(node)
    assert f"/etc/systemd/system/{watchdog.RENEWAL_TIMER}" not in machine.files
    look(node)
    assert not [what for what in planned(node, "watchdog") if "renew" in what]
