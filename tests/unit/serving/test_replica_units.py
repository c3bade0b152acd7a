"""The units of the replicas: hardened, each with its own flags, refusing what must not serve."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from b200kit.catalog import load
from b200kit.inventory.parse import parse
from b200kit.node.state import drift, engine_probe
from b200kit.run.render import render
from b200kit.serving.replica import FORBIDDEN
from b200kit.stages import serving
from tests.messages import assert_message
from tests.unit import numa_map
from tests.unit.nodes import connected, look, make, planned_by_stage, settled
from tests.unit.run.test_templates import PINNING, START, UNIT, directives, engine, files
from tests.unit.specs import CATALOGUE, data

# What vLLM's own security page and our measurements ask for; docs/units.md says why.
HARDENED = {
    "AmbientCapabilities": "",
    "CapabilityBoundingSet": "",
    "DevicePolicy": "closed",
    "IPAddressAllow": "localhost",
    "IPAddressDeny": "any",
    "KeyringMode": "private",
    "LimitCORE": "0",
    "LockPersonality": "yes",
    "NoNewPrivileges": "yes",
    "PrivateMounts": "yes",
    "PrivateTmp": "yes",
    "ProtectClock": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHome": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectProc": "invisible",
    "ProtectSystem": "strict",
    "RemoveIPC": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service",
    "UMask": "0077",
    "User": "vllm",
}
# Each hides the GPUs, stops compilers, undoes NUMA binding or cuts NCCL off.
HARMFUL = {
    "PrivateDevices",
    "MemoryDenyWriteExecute",
    "ProcSubset",
    "PrivateNetwork",
    "PrivateUsers",
}
LOWEST = 2.5
PROBE = "--replica 1 --kind cpu --ranks 2 --address 127.0.0.1"


def launcher(folder: Path) -> Path:
    """The launcher as a node gets it."""
    path = folder / "serve"
    path.write_text(files(folder)["/usr/local/lib/b200kit/serve"])
    return path


def launch(folder: Path, probed: str = "0", **environment: str) -> subprocess.CompletedProcess[str]:
    """Start a stand-in for an engine by the launcher."""
    program = folder / "engine"
    program.write_text('#!/bin/sh\necho "$0 $*"\nenv\n')
    program.chmod(0o755)
    # The engine's own Python, which probes.
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" > {folder}/probed\nenv >> {folder}/probed\nexit {probed}\n'
    )
    python.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", launcher(folder), program, "serve", "--config", "a b"],
        env={"PATH": "/usr/bin:/bin", "B200KIT_PROBE": PROBE, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_unit_has_every_property_of_the_hardening_list(tmp_path: Path) -> None:
    unit = directives(files(tmp_path)[UNIT])
    assert {key: unit[key] for key in HARDENED} == {key: [v] for key, v in HARDENED.items()}
    assert not HARMFUL & {*unit}


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_systemd_itself_finds_the_unit_hardened(tmp_path: Path, kind: str) -> None:
    given = files(tmp_path, engine=engine(tmp_path, kind=kind))
    path = tmp_path / "vllm@1.service"
    path.write_text(given[UNIT] + given[START].partition("[Service]")[2])
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", path],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" in done.stderr or not done.stdout:
        pytest.skip("this systemd-analyze judges no unit that is not loaded")
    exposure = re.search(r"exposure level for \S+: (\d+\.\d)", done.stdout)
    assert exposure is not None, done.stdout
    assert float(exposure[1]) <= LOWEST


def test_gpus_must_be_free_before_the_start_and_after_the_stop(tmp_path: Path) -> None:
    unit = directives(files(tmp_path)[UNIT])
    for hook in ("ExecStartPre", "ExecStopPost"):
        [command] = [line for line in unit[hook] if " gpu-free " in line]
        assert command.endswith(tuple(f"--replica %i --deadline {s}" for s in (10, 30)))
        assert int(command.split()[-1]) < int(unit["TimeoutStopSec"][0])


def test_stop_waits_longer_than_the_engine_drains(tmp_path: Path) -> None:
    given = files(tmp_path, stop_grace_s=300)
    config = yaml.safe_load(given["/etc/vllm/replica-0.yaml"])
    assert config["shutdown-timeout"] == 300
    assert int(directives(given[UNIT])["TimeoutStopSec"][0]) >= 315


def test_command_line_and_environment_of_a_replica_hold_no_secret(tmp_path: Path) -> None:
    given = files(tmp_path)
    start = directives(given[START])
    [command] = start["ExecStart"]
    assert re.fullmatch(
        r"/usr/local/lib/b200kit/serve /opt/vllm/\w{12}/bin/vllm serve "
        r"--config /etc/vllm/replica-1\.yaml",
        command,
    )
    assert not re.search("VLLM_API_KEY|HF_TOKEN|canary", given[START])


def test_flag_of_one_replica_restarts_that_one_alone(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    node = connected(machine, replica_flags={"1": {"seed": 7}})
    look(node)
    [write] = planned_by_stage(node)["serving"]
    assert write.startswith("write /etc/vllm/replica-1.yaml")
    make(node, "serving")
    pending = [path for path in machine.files if "/pending/restart:" in path]
    assert pending == [drift.pending_marker("restart:vllm@1.service")]


def test_flags_of_a_replica_stand_above_those_of_all(tmp_path: Path) -> None:
    given = files(
        tmp_path,
        engine=engine(tmp_path, flags={"seed": 1, "enforce-eager": True}),
        replica_flags={"1": {"seed": 7}},
    )
    first, second = (yaml.safe_load(given[f"/etc/vllm/replica-{n}.yaml"]) for n in (0, 1))
    assert (first["seed"], second["seed"]) == (1, 7)
    assert first["enforce-eager"] is second["enforce-eager"] is True


@pytest.mark.parametrize("number", ["2", "01", "-1", "a"])
def test_flags_for_a_replica_that_there_is_not_are_refused(number: str) -> None:
    problems = parse(data(replica_flags={number: {"seed": 7}}), CATALOGUE)
    assert isinstance(problems, list)
    assert_message(*[f"{problem.key}: {problem.message}" for problem in problems])


def test_launcher_hands_the_key_over_by_environment_alone(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text("canary")
    done = launch(tmp_path, CREDENTIALS_DIRECTORY=str(tmp_path))
    argv, *environment = done.stdout.splitlines()
    assert argv == f"{tmp_path}/engine serve --config a b"
    assert "VLLM_API_KEY=canary" in environment
    assert "canary" not in (tmp_path / "probed").read_text()


def test_launcher_asks_the_probe_before_it_starts_the_engine(tmp_path: Path) -> None:
    done = launch(tmp_path, probed="1")
    assert (done.returncode, done.stdout) == (engine_probe.FAILED, "")
    asked = (tmp_path / "probed").read_text().splitlines()[0]
    assert asked == f"-I -B /usr/local/lib/b200kit/node.pyz engine-probe {PROBE}"


def test_launcher_starts_nothing_that_it_cannot_probe(tmp_path: Path) -> None:
    assert launch(tmp_path, B200KIT_PROBE="").returncode != 0
    (tmp_path / "engine").unlink()
    assert launch(tmp_path, probed="127").returncode == engine_probe.FAILED


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_probe_is_asked_about_the_ranks_that_the_engine_gets(tmp_path: Path, kind: str) -> None:
    given = files(tmp_path, engine=engine(tmp_path, kind=kind), tensor_parallel=4, replicas=2)
    environment = directives(given[START])["Environment"]
    asked = f"--replica 1 --kind {kind} --ranks 4 --address 127.0.0.1"
    assert f'"B200KIT_PROBE={asked}"' in environment


def test_launcher_starts_without_a_key_where_there_is_none(tmp_path: Path) -> None:
    done = launch(tmp_path)
    assert done.returncode == 0
    assert "VLLM_API_KEY" not in done.stdout


@pytest.mark.parametrize(
    "name",
    [
        *FORBIDDEN,
        "VLLM_SERVER_DEV_MODE",
        "VLLM_ALLOW_INSECURE_SERIALIZATION",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
        "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH",
    ],
)
def test_launcher_refuses_to_start_with_what_must_not_serve(tmp_path: Path, name: str) -> None:
    done = launch(tmp_path, **{name: "1"})
    assert (done.returncode, done.stdout) == (78, "")
    assert_message(done.stderr)


def test_launcher_refuses_nothing_that_the_kit_sets_itself(tmp_path: Path) -> None:
    environment = directives(files(tmp_path)[START])["Environment"]
    described = dict(line.strip('"').split("=", 1) for line in environment)
    assert launch(tmp_path, **described).returncode == 0


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_launcher_takes_a_switch_that_is_off_for_none(tmp_path: Path, value: str) -> None:
    done = launch(tmp_path, VLLM_SERVER_DEV_MODE=value)
    assert done.returncode == 0
    assert "VLLM_SERVER_DEV_MODE" not in done.stdout


def test_refused_start_is_not_tried_again(tmp_path: Path) -> None:
    unit = directives(files(tmp_path)[UNIT])
    assert unit["Restart"] == ["always"]
    assert unit["RestartPreventExitStatus"] == [f"78 {engine_probe.FAILED}"]
    assert (unit["StartLimitBurst"], unit["StartLimitIntervalSec"]) == (["3"], ["1800"])


def test_words_of_a_command_reach_systemd_as_they_stand() -> None:
    argv = ("/bin/a", "plain", "two words", 'a "quote"', "50%", "$HOME")
    text = render(
        "systemd/replica.conf.j2",
        replica={"replica": 0}, launcher="/l", argv=argv, environment={}, cache=Path("/c/k"),
        group=None,
    ).decode()  # fmt: skip
    assert r'ExecStart=/l /bin/a plain "two words" "a \"quote\"" 50%% "$$HOME"' in text


def test_unit_of_a_replica_passes_systemds_own_checker(tmp_path: Path) -> None:
    given = files(tmp_path, engine=engine(tmp_path, kind="cuda"))
    folder = tmp_path / "units"
    stub = directives(given[START])["ExecStart"][0].split()[0]
    for path in (UNIT, START, PINNING):
        target = folder / path.removeprefix("/etc/systemd/system/")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = given[path].replace(stub, "/bin/true").replace("/usr/bin/python3", "/bin/true")
        target.write_text(text.replace("User=vllm\nGroup=vllm\n", ""))
    (folder / "b200-gate.service").write_text("[Service]\nExecStart=/bin/true\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "vllm@1.service"],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"},
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if "vllm@" in line]
    assert not own, own


def test_vllm_is_told_to_be_quiet_and_modest(tmp_path: Path) -> None:
    given = files(tmp_path)
    start, config = given[START], yaml.safe_load(given["/etc/vllm/replica-1.yaml"])
    off = ("HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "VLLM_MEDIA_URL_ALLOW_REDIRECTS=0")
    for assignment in (*off, "VLLM_MAX_N_SEQUENCES=64"):
        assert f'Environment="{assignment}"' in start
    assert config["host"] == "127.0.0.1"
    assert config["disable-fastapi-docs"] is config["fail-on-environ-validation"] is True


def test_flag_of_one_replica_is_held_against_the_engine_like_any_other() -> None:
    asked = data(replica_flags={"1": {"seeed": 7, "port": 9000}})
    problems = parse(asked, load.load())
    assert isinstance(problems, list)
    described = {problem.key: problem.message for problem in problems}
    assert "seed" in described["replica_flags.1.seeed"]
    assert_message(described["replica_flags.1.port"])


def test_process_that_stands_for_the_gpus_of_a_replica_is_in_every_table(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    assert node.state
    numa_map.apply(node.state, ("0", "1"), [0, 0, 0, 0, 1, 1, 1, 1])
    config = {f.path: f.content for f in serving.desired(node, node.layout()).files}
    assert b"tensor-parallel-size: 1\n" in config["/etc/vllm/replica-0.yaml"]
    assert [row["processes"] for row in node.to_json()["layout"]] == [1, 1]
    assert json.loads(config[serving.SERVING])["engine"] == (
        "vllm 0.32.0 (cpu, 1 process for 4 GPUs)"
    )
