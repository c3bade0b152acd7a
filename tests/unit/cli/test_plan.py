"""`b200 plan`: a table for people, a document for programs, one line for what cannot be."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.node.lib import cpulist
from b200kit.node.state.view import SCHEMA
from b200kit.run import places
from tests.lab.supply.models import config
from tests.messages import assert_message, lines_with
from tests.unit import numa_maps, states
from tests.unit.report.pages import write
from tests.unit.sizing import model_configs

Capture = pytest.CaptureFixture[str]


def state_file(folder: Path, state: object) -> str:
    """A file with an observation."""
    path = folder / "state.json"
    path.write_text(json.dumps(state), encoding="utf-8")
    return str(path)


def run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `b200 plan`."""
    status = cli.main(["plan", *words])
    output = capsys.readouterr()
    return status, output.out, output.err


def asked(state: str, model: str = "llama-3.3-70b-fp8", goal: str = "balanced") -> list[str]:
    """The words of a plan."""
    return [model, "--on", state, "--goal", goal]


def recorded(name: str) -> str:
    """The file of a recorded state that is whole."""
    return str(states.STATES / f"{name}.json")


def document(capsys: Capture, *words: str) -> dict[str, Any]:
    """The plan as JSON."""
    status, out, _ = run(capsys, *words, "--json")
    assert status == 0
    loaded: dict[str, Any] = json.loads(out)
    return loaded


def test_table_names_gpus_nodes_cpus_port_and_tokens(capsys: Capture) -> None:
    status, out, err = run(capsys, *asked(recorded("healthy-hgx-b200")))
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert_message(lines[0])
    assert lines[1].split("  ")[1:3] == ["0", "GPU 0,1"]
    assert_message(lines[1])
    assert any(line.startswith("why   TP2: fits at TP1") for line in lines)
    assert any(line.startswith("not   TP8:") for line in lines)
    assert all(len(line) <= 100 for line in lines)


def test_document_has_what_a_unit_needs_of_each_replica(tmp_path: Path, capsys: Capture) -> None:
    state = states.file("healthy-snc2-four-nodes", tmp_path)
    plan = document(capsys, *asked(state, goal="latency"))
    assert (plan["schema"], plan["model"]) == ("b200kit/plan/1", "llama-3.3-70b-fp8")
    first, second = plan["replicas"]
    assert (first["gpus"], first["numa_nodes"], first["tp"]) == ([0, 1, 2, 3], [0, 1], 4)
    assert (first["spans"], first["pp"], first["dp"], first["ep"]) == (True, 1, 1, False)
    assert first["uuids"][0].startswith("GPU-")
    assert [first["port"], second["port"]] == [8001, 8002]
    assert not set(cpulist.parse(first["cpus"])) & set(cpulist.parse(plan["reserved_cpus"]))
    assert first["kv_tokens"] == pytest.approx(3.7e6, rel=0.05)
    assert plan["why"]
    assert plan["rejected"]


@pytest.mark.parametrize("name", numa_maps.MAPS)
@pytest.mark.parametrize("goal", ["latency", "balanced", "throughput"])
def test_every_map_is_planned_for(tmp_path: Path, capsys: Capture, name: str, goal: str) -> None:
    state = state_file(tmp_path, numa_maps.state(name))
    plan = document(capsys, *asked(state, "deepseek-r1-nvfp4", goal))
    assert sorted(g for r in plan["replicas"] for g in r["gpus"]) == list(range(8))


def test_model_by_its_config(tmp_path: Path, capsys: Capture) -> None:
    own = tmp_path / "my-model" / "config.json"
    own.parent.mkdir()
    own.write_text(json.dumps(config()), encoding="utf-8")
    plan = document(capsys, *asked(recorded("healthy-hgx-b200"), str(own)))
    assert (plan["model"], len(plan["replicas"])) == ("my-model", 8)


def test_a_recorded_node_is_taken_in_each_form_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Its observation alone, `judge --json`, `check --json`, a file of a run, an archive."""
    here = recorded("healthy-hgx-h100")
    state = json.loads(Path(here).read_text())
    cli.main(["judge", here, "--json"])
    judged = capsys.readouterr().out
    seen = {"outcome": "fit", "state": state}
    run_of = {"run": "20261127-101500", "entry": "check.py", "hosts": {"n01": seen, "n02": {}}}
    (tmp_path / "inventories").mkdir()
    folder = write(run_of, tmp_path / "reports").parent
    forms = {"judged.json": judged.encode(), "checked.json": json.dumps(run_of).encode()}
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
    assert cli.main(["bundle", "n01", "--state", here, "--output", str(tmp_path / "n.tar.gz")]) == 0
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    [packed] = folder.glob("n01*.json.gz")
    for on in (here, *forms, str(packed), "n.tar.gz", "n01", "hgx-h100"):
        assert document(capsys, "llama-3.3-70b-fp8", "--on", on)["hardware"] == "hgx-h100", on


def test_a_healthy_hgx_b200_is_planned_for_where_nothing_is_said(capsys: Capture) -> None:
    plan = document(capsys, "llama-3.3-70b-fp8")
    assert (plan["hardware"], plan["goal"]) == ("hgx-b200", "balanced")


def test_hardware_is_known_by_its_gpus(capsys: Capture) -> None:
    assert document(capsys, *asked(recorded("healthy-hgx-h100")))["hardware"] == "hgx-h100"
    assert document(capsys, *asked(recorded("healthy-single-b200")))["hardware"] == "single"


def test_cap_of_the_gpus_is_said_where_a_plan_is_read(tmp_path: Path, capsys: Capture) -> None:
    state = json.loads(Path(recorded("healthy-hgx-b200")).read_text())
    assert document(capsys, *asked(state_file(tmp_path, state)))["power_cap"] is None
    for gpu in state["gpus"]:
        gpu["power_enforced_mw"] = 700000
    words = asked(state_file(tmp_path, state))
    assert document(capsys, *words)["power_cap"] == "700 W of 1000 W"
    assert "power capped at 700 W of 1000 W" in run(capsys, *words)[1]


def test_smallest_gpu_decides_what_a_replica_holds(tmp_path: Path, capsys: Capture) -> None:
    state, plans = copy.deepcopy(numa_maps.state("two")), []
    for gpu in state["gpus"]:
        gpu["memory_total_mib"] = 183359
    for smaller in (state["gpus"][3:4], state["gpus"]):
        for gpu in smaller:
            gpu["memory_total_mib"] = 150000
        plans.append(document(capsys, *asked(state_file(tmp_path, state))))
    assert plans[0] == plans[1]


def test_virtual_machine_is_known_by_both_its_readings(tmp_path: Path, capsys: Capture) -> None:
    guest = states.file("healthy-hgx-b200-vm", tmp_path)
    assert document(capsys, *asked(guest))["hardware"] == "hgx-b200-vm"
    hidden = json.loads(Path(guest).read_text())
    hidden["cpus"]["hypervisor"] = False
    words = asked(state_file(tmp_path, hidden))
    assert document(capsys, *words)["hardware"] == "hgx-b200"


# Each makes other GPUs of the recorded eight.
OTHERS: dict[str, Callable[[list[Any]], object]] = {
    "another model": lambda gpus: [gpu.update(device_id="20b2") for gpu in gpus],
    "one other among them": lambda gpus: gpus[3].update(device_id="2330"),
    "one unread": lambda gpus: gpus[3].update(device_id={"unmeasured": "no"}),
    "more than a board has": lambda gpus: gpus.append({**gpus[0], "index": 8}),
    "none": lambda gpus: gpus.clear(),
    "memory unread": lambda gpus: [
        gpu.update(memory_total_mib={"unmeasured": "no"}) for gpu in gpus
    ],
    "memory of one unread": lambda gpus: [gpu.update(memory_total_mib=183359) for gpu in gpus[1:]],
    "true as memory": lambda gpus: [gpu.update(memory_total_mib=True) for gpu in gpus],
}


@pytest.mark.parametrize("what", OTHERS)
def test_gpus_that_are_no_known_hardware_are_refused(
    tmp_path: Path, capsys: Capture, what: str
) -> None:
    state = copy.deepcopy(numa_maps.state("two"))
    OTHERS[what](state["gpus"])
    status, out, err = run(capsys, *asked(state_file(tmp_path, state)))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert_message(err)


def test_document_without_gpus_is_refused_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    state = {key: value for key, value in numa_maps.state("two").items() if key != "gpus"}
    status, out, err = run(capsys, *asked(state_file(tmp_path, state)))
    assert (status, out, err.count("\n")) == (1, "", 1)


def test_nvfp4_is_not_planned_on_h100(capsys: Capture) -> None:
    status, _, err = run(capsys, *asked(recorded("healthy-hgx-h100"), "llama-3.3-70b-nvfp4"))
    assert status == 1
    assert_message(err)


def test_cpu_of_two_replicas_is_said(tmp_path: Path, capsys: Capture) -> None:
    state = copy.deepcopy(numa_maps.state("two"))
    for number, node in enumerate(state["numa"]):
        node["cpus"] = f"{3 * number}-{3 * number + 2}"
    state["cpus"]["siblings"] = [str(cpu) for cpu in range(6)]
    path = state_file(tmp_path, state)
    assert document(capsys, *asked(path, goal="throughput"))["shared_cpus"] == "0,3"
    _, out, _ = run(capsys, *asked(path, goal="throughput"))
    assert_message(*lines_with(out, "free  "), *lines_with(out, "twice "))
    _, out, _ = run(capsys, *asked(recorded("healthy-hgx-b200")))
    assert_message(*lines_with(out, "free  "))
    assert not lines_with(out, "twice ")


def test_lost_gpu_must_be_allowed(tmp_path: Path, capsys: Capture) -> None:
    state = numa_maps.state("two")
    del state["gpus"][3], state["pci"]["gpus"][3]
    words = asked(state_file(tmp_path, state))
    status, _, err = run(capsys, *words)
    assert status == 1
    assert_message(err)
    plan = document(capsys, *words, "--gpus", "7")
    assert [replica["gpus"] for replica in plan["replicas"]] == [[0, 1], [4, 5], [6, 7]]


def published(name: str, folder: Path) -> str:
    """A model of the corpus as files in a directory of its name."""
    known = model_configs.stored(name)
    place = folder / name
    place.mkdir()
    (place / "config.json").write_text(json.dumps(known["config"]), encoding="utf-8")
    if beside := known.get("beside"):
        (place / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    return str(place)


def test_directory_of_a_model_is_planned_with_the_second_file_of_modelopt(
    tmp_path: Path, capsys: Capture
) -> None:
    here = recorded("healthy-hgx-b200")
    plans = {
        name: document(capsys, *asked(here, published(name, tmp_path), "latency"))
        for name in ("nvidia--DeepSeek-V3.1-NVFP4", "deepseek-ai--DeepSeek-V4-Pro")
    }
    assert {name: plan["model"] for name, plan in plans.items()} == {n: n for n in plans}
    assert [each["tp"] for each in plans["nvidia--DeepSeek-V3.1-NVFP4"]["replicas"]] == [4, 4]
    # 852 GB of weights: one replica over all eight GPUs, where it was refused at 1,640 GB.
    assert [each["tp"] for each in plans["deepseek-ai--DeepSeek-V4-Pro"]["replicas"]] == [8]


def test_model_of_an_unknown_architecture_is_refused(tmp_path: Path, capsys: Capture) -> None:
    unknown = published("stepfun-ai--Step-3.7-Flash", tmp_path)
    status, out, err = run(capsys, *asked(recorded("healthy-hgx-b200"), unknown))
    assert (status, out) == (64, "")
    assert_message(err)


def test_what_cannot_be_exits_1_with_one_line(tmp_path: Path, capsys: Capture) -> None:
    h100 = asked(recorded("healthy-hgx-h100"), "llama-3.1-405b-bf16")
    status, out, err = run(capsys, *h100)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert_message(err)
    unread = state_file(tmp_path, {"schema": SCHEMA, "gpus": {"unmeasured": "driver not loaded"}})
    assert run(capsys, *asked(unread))[0] == 1


def test_plan_is_for_an_engine_and_counts_its_drafts(capsys: Capture) -> None:
    asking = asked(recorded("healthy-hgx-b200"), "deepseek-r1-nvfp4", "throughput")
    plans = {name: document(capsys, *asking, "--engine", name) for name in ("vllm", "trtllm")}
    assert {name: plan["engine"] for name, plan in plans.items()} == {n: n for n in plans}
    tokens = {name: plan["replicas"][0]["kv_tokens"] for name, plan in plans.items()}
    # TensorRT-LLM drafts under this goal: the cache of one more layer than 61.
    assert tokens["trtllm"] == pytest.approx(tokens["vllm"] * 61 / 62, rel=0.001)


@pytest.mark.parametrize(
    ("model", "words"),
    [("qwen3.5-27b-fp8", []), ("llama-3.1-8b-bf16", ["--kv-cache-dtype", "nvfp4"])],
)
def test_engine_that_cannot_serve_it_exits_1_with_one_line(
    capsys: Capture, model: str, words: list[str]
) -> None:
    asking = asked(recorded("healthy-hgx-b200"), model, "latency")
    status, out, err = run(capsys, *asking, "--engine", "trtllm", *words)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert_message(err)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["tiny-llama", "--on", "/no/such.json"],
        ["tiny-llama", "--on", "n01"],
        ["gpt-9"],
        ["lama-3.3-70b-fp8"],
        ["tiny-llama", "--goal", "speed"],
        ["tiny-llama", "--max-model-len", "9000"],
        ["tiny-llama", "--max-model-len", "0"],
        ["tiny-llama", "--kv-cache-dtype", ""],
        ["tiny-llama", "--first-port", "65535"],
        ["tiny-llama", "--first-port", "0"],
        ["tiny-llama", "--gpus", "9"],
        ["tiny-llama", "--gpus", "0"],
        ["llama-3.1-8b-bf16", "--kv-cache-dtype", "fp3"],
        ["gpt-9", "--on", "/no/such.json", "--goal", "speed", "--gpus", "0"],
    ],
)  # fmt: skip
def test_all_that_is_not_understood_is_refused_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # outside any site
    status, out, err = run(capsys, *words)
    assert (status, out, err.count("\n")) == (64, "", 1)
    assert_message(err)


def test_model_in_fewer_bits_is_planned_outside_any_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(places.SITE, raising=False)
    status, out, err = run(capsys, "llama-3.3-70b-fp8")
    assert (status, err) == (0, "")
    assert "not validated here" in " ".join(out.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "has no b200kit/node-state/1"),
        ('{"schema": "b200kit/node-state/9", "gpus": []}', "has no b200kit/node-state/1"),
        ("[]", "has no b200kit/node-state/1"),
        ('{"hosts": {"n1": {"state": {}}, "n2": {"state": {}}}}', "n1, n2"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_file_that_is_no_state_is_refused(
    tmp_path: Path, capsys: Capture, text: str, message: str
) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="utf-8")
    status, _, err = run(capsys, *asked(str(path)))
    assert (status, message in err) == (64, True)


@pytest.mark.parametrize("text", ["{}", "[]", "no"])
def test_config_that_is_no_models_is_refused(tmp_path: Path, capsys: Capture, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    assert run(capsys, *asked(recorded("healthy-hgx-b200"), str(path)))[0] == 64
