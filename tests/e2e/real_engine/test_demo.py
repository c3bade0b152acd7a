"""`make demo` as a newcomer runs it: from bare Debian to tokens of a real engine, if to be had."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import structure
from tests.e2e.driving import Outcome, deploy, on, wait_for_boot
from tests.e2e.tools import hardened
from tests.lab.paths import lab_paths

pytestmark = pytest.mark.real_engine

NODE = "b200-1"
UNITS = ("vllm@0.service", "vllm@1.service")


def stand_in() -> bool:
    """Whether the demo had to do without a real engine."""
    return bool(lab.status()["engine"]["stand_in"])


def test_demo_ends_with_a_live_node_and_how_to_go_on(demo: Outcome) -> None:
    assert demo.code == 0, demo.said[-4000:]
    assert demo.outcome(NODE) == "live"
    assert "lab down" in demo.stdout


def test_table_shows_the_node_and_the_four_latencies(demo: Outcome) -> None:
    for message in ("8x NVIDIA B200", "144/144 links up", "completed on 8 of 8 GPUs", "NUMA"):
        assert message in demo.stdout
    for metric in ("TTFT", "ITL", "TPOT", "E2E"):
        assert re.search(rf"^\s+{metric}\s+\d", demo.stdout, re.MULTILINE), metric


def smoke_of(outcome: Outcome) -> Any:
    """The smoke test of a run."""
    return structure(SmokeResult, outcome.host(NODE)["smoke"])


def test_engine_is_real_or_marked_as_a_stand_in(demo: Outcome) -> None:
    assert smoke_of(demo).conditions.stand_in is stand_in()
    assert ("STAND-IN" in demo.stdout) is stand_in()
    processes = on(NODE, "ps -eo comm --no-headers")
    assert ("VLLM::Worker" in processes) is not stand_in()


def test_latencies_keep_their_definitions(demo: Outcome) -> None:
    main = smoke_of(demo).main
    assert main.failed == 0
    assert main.completed == main.num_prompts
    assert main.total_output_tokens == 64 * main.completed
    assert main.ttft.p50_ms < main.e2el.p50_ms
    one = main.ttft.mean_ms + 63 * main.tpot.mean_ms
    assert one == pytest.approx(main.e2el.mean_ms, rel=0.01)


def test_result_tells_of_its_gpus_and_its_servers(real: Outcome) -> None:
    smoke = smoke_of(real)
    assert [gpu.index for gpu in smoke.gpus] == list(range(8))
    assert all(gpu.samples > 0 for gpu in smoke.gpus)
    assert smoke.server.jit_warnings == 0
    assert 0 <= smoke.server.gateway_run_delay_share < 1
    assert len(smoke.requests) == smoke.main.num_prompts
    conditions = smoke.conditions
    assert [age > 0 for age in conditions.server_ages_s] == [True] * conditions.replicas
    assert conditions.libraries["torch"]


def test_every_process_of_a_replica_is_on_the_cpus_of_its_gpus(demo: Outcome) -> None:
    record = demo.host(NODE)
    seen = record["state"]["processes"]
    for replica in record["layout"]:
        unit = f"vllm@{replica['replica']}.service"
        cpus = {process["cpus"] for process in seen if process["unit"] == unit}
        assert cpus == {replica["cpus"]}, cpus
        nodes = {node["id"]: node["cpus"] for node in record["state"]["numa"]}
        assert replica["cpus"] == nodes[replica["numa_nodes"][0]]


def test_units_are_hardened_as_systemd_sees_them(demo: Outcome) -> None:
    for unit in UNITS:
        hardened.assert_properties_are_in_force(NODE, unit)
        assert hardened.exposure(NODE, unit) <= hardened.EXPOSURE


def test_real_engine_listens_to_nobody_outside(demo: Outcome) -> None:
    assert set(hardened.outside(NODE).values()) <= hardened.LISTENS_OUTSIDE


def test_no_other_user_reads_the_key_of_a_process(demo: Outcome) -> None:
    assert hardened.readers_of_the_key(NODE) == []


def test_configurations_pass_their_own_checkers(demo: Outcome) -> None:
    haproxy = lab.run(NODE, ["haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg"])
    assert haproxy.returncode == 0, haproxy.stderr
    units = ("b200-gate.service", UNITS[0], "vllm.target")
    assert hardened.unit_complaints(NODE, *units) == []


def test_report_is_one_file_that_needs_no_network(demo: Outcome) -> None:
    assert demo.directory is not None
    page = (demo.directory / "report.html").read_text()
    assert not re.search(r"(src|href)=[\"']?https?:", page)


def test_node_comes_back_serving_after_a_reboot_without_the_controller(demo: Outcome) -> None:
    before = on(NODE, "cat /proc/sys/kernel/random/boot_id")
    lab.run(NODE, ["systemd-run", "--on-active=1", "systemctl", "reboot"])
    wait_for_boot(NODE, before)
    # Joins the jobs that the boot queued: the gateway starts when the replicas are warm.
    lab.run(NODE, ["systemctl", "start", "haproxy.service"])
    # Where no two rounds are alike, on a busy machine, systemd starts the replica once more.
    # Of several units is-active asks for one, so each is asked for.
    for unit in UNITS:
        warm = f"until systemctl is-active --quiet {unit}; do sleep 0.2; done"
        assert lab.run(NODE, ["timeout", "800", "sh", "-c", warm]).returncode == 0
    checked = deploy("check.py")
    assert checked.code == 0, checked.said[-2000:]
    again = deploy()
    assert again.code == 0, again.said[-3000:]
    stages = again.host(NODE)["stages"]
    changed = {stage["name"]: stage["changes"] for stage in stages if stage["changes"]}
    # A new boot has new server processes, so the old measurement no longer speaks for them.
    assert list(changed) == ["smoke"], changed


def test_endpoint_streams_tokens_to_a_client_with_the_key(demo: Outcome) -> None:
    key = lab_paths().api_key.read_text().strip()
    script = (
        "import json,urllib.request as u\n"
        "body={'model':'tiny-llama','max_tokens':4,'stream':True,"
        "'messages':[{'role':'user','content':'hello'}]}\n"
        "r=u.Request('http://127.0.0.1:8000/v1/chat/completions',json.dumps(body).encode(),"
        f"{{'Authorization':'Bearer {key}','Content-Type':'application/json'}})\n"
        "print(u.urlopen(r,timeout=60).read().decode())"
    )
    stream = lab.run(NODE, ["python3", "-c", script]).stdout
    chunks = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    assert chunks, stream
    assert "data: [DONE]" in stream


def test_page_of_the_report_names_its_conditions(demo: Outcome) -> None:
    assert isinstance(demo.directory, Path)
    page = (demo.directory / "report.html").read_text()
    assert "Poisson" in page
    assert "seed" in page
