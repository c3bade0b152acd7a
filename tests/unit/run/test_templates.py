"""What the templates must say, whatever else they come to say."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import pytest
import yaml

from b200kit.acceptance import run as acceptance
from b200kit.catalog import engines, load
from b200kit.converge.stage import nominal_layout
from b200kit.run.places import TEMPLATES
from b200kit.run.render import RenderError, render
from b200kit.serving.gateway import haproxy_config
from b200kit.stages import clock_and_logs, gateway, host, pipeline, serving, settings
from inventories.group_data import prod
from tests.subtests import in_subtests
from tests.unit.nodes import connected, look, settled
from tests.unit.specs import VENDOR_KEY

UNIT = "/etc/systemd/system/vllm@.service"
PINNING = "/etc/systemd/system/vllm@1.service.d/pinning.conf"
START = "/etc/systemd/system/vllm@1.service.d/replica.conf"
Directives = dict[str, list[str]]
CONTAINER = {
    "kind": "cuda",
    "version": "0.32.0",
    "image": f"registry.example.internal/vllm/vllm-openai@sha256:{'0' * 64}",
}
GROUP = {
    "name": "a",
    "members": {"n01": "10.1.0.1", "n02": "10.1.0.2"},
    "head": "n02",
    "interface": "ens1",
}
# What a node has only where its inventory asks for it.
OPTIONS: dict[str, Any] = {
    "firewall": {"allow": [{"port": 8000, "from": ["10.0.0.0/24"]}]},
    "weights": {"server": {"bind": "10.0.0.5", "from": ["10.0.0.0/24"]}},
    "storage": {"disks": ["/dev/disk/by-id/nvme-A", "/dev/disk/by-id/nvme-B"]},
    "time_servers": ["10.0.0.1", "10.0.0.2"],
    "container_runtimes": ["docker", "containerd", "podman"],
    "monitoring": {"from": ["10.0.9.5"], "node_exporter": 9100},
    "events": {"command": ["/usr/local/bin/notify"]},
}


def files(folder: Path, **changes: Any) -> dict[str, str]:
    """Path to text of everything a seen node is given; of the plain node made once."""
    return _files(folder, changes) if changes else dict(_plain())


@cache
def _plain() -> dict[str, str]:
    with TemporaryDirectory() as folder:
        return _files(Path(folder), {})


def _files(folder: Path, changes: dict[str, Any]) -> dict[str, str]:
    node, _ = settled(folder, **changes)
    desired = [stage.desired(node, node.layout()) for stage in pipeline.stages()]
    return {
        file.path: file.content.decode()
        for part in desired
        for file in part.files
        if not file.path.endswith(".pyz")
    }


def directives(text: str) -> Directives:
    """Key to values of a unit file, in order; systemd takes the last, or adds up."""
    found: Directives = defaultdict(list)
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            found[key].append(value)
    return found


def engine(folder: Path, **changes: Any) -> dict[str, Any]:
    """Inventory data of an engine."""
    return {
        "kind": "cpu",
        "version": "0.32.0",
        "requirements": str(folder / "engine.txt"),
        "wheelhouse": "https://mirror.example.internal/wheels/",
    } | changes


def test_every_template_is_rendered_before_any_gpu_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = set()
    found = jinja2.Environment.get_template

    def get_template(self: jinja2.Environment, name: str) -> jinja2.Template:
        rendered.add(name)
        return found(self, name)

    node, machine = settled(tmp_path, **OPTIONS)
    monkeypatch.setattr(jinja2.Environment, "get_template", get_template)
    for stage in pipeline.stages():
        stage.desired(node, nominal_layout(node))
    machine.units["systemd-timesyncd.service"]["active"] = "inactive"
    machine.units["chrony.service"] = {"active": "active"}
    look(node)
    clock_and_logs.STAGE.desired(node, nominal_layout(node))
    podman = connected(machine, engine=CONTAINER, container_runtimes=["podman"])
    serving.STAGE.desired(podman, nominal_layout(podman))
    joined = connected(machine, replicas=1, group=GROUP)
    serving.STAGE.desired(joined, nominal_layout(joined))
    listed = str(tmp_path / "engine.txt")
    router = {"router": {"requirements": listed, "version": "0.1.17"}}
    gateway.STAGE.desired(connected(machine, gateway=router), nominal_layout(joined)[:1])
    settings.STAGE.desired(connected(machine, settings={"power_limit_w": 700}), ())
    acceptance.files()
    every = {path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.j2")}
    assert rendered == {name for name in every if not name.startswith(("report/", "site/"))}


def test_nominal_and_seen_layout_name_the_same_paths(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    for stage in pipeline.stages():
        nominal, seen = (
            [file.path for file in stage.desired(node, layout).files]
            for layout in (nominal_layout(node), node.layout())
        )
        assert nominal == seen


def test_variable_nobody_sets_is_named_with_its_template() -> None:
    with pytest.raises(RenderError, match=r"templates/systemd/pinning.conf.j2.*'replica'"):
        render("systemd/pinning.conf.j2")


def test_template_that_is_not_there_is_named() -> None:
    with pytest.raises(RenderError, match=r"templates/none\.j2"):
        render("none.j2")


def test_rendered_text_is_whole_lines_without_leftovers(tmp_path: Path) -> None:
    for path, text in files(tmp_path).items():
        if "/secrets/" not in path and not path.endswith(".json"):
            assert text.endswith("\n"), path
        assert not re.search(r"{{|}}|{%|{#|\bNone\b", text), path


def test_every_file_says_who_manages_it(tmp_path: Path) -> None:
    own = {path: text for path, text in files(tmp_path).items() if path.startswith("/etc/systemd")}
    assert len(own) >= 6
    assert all("Managed by b200kit" in text.splitlines()[0] for text in own.values())


def test_no_file_but_the_secrets_holds_a_secret(tmp_path: Path) -> None:
    secret = re.compile("canary-(api-key|hf-token)")
    holding = {path for path, text in files(tmp_path).items() if secret.search(text)}
    assert holding == {
        f"{serving.SECRETS}/api_key",
        f"{serving.SECRETS}/hf_token",
        haproxy_config.PATHS.upstream,
    }


def test_replica_gets_its_key_as_a_credential_and_not_by_environment(tmp_path: Path) -> None:
    unit = directives(files(tmp_path)[UNIT])
    assert unit["LoadCredential"] == [f"api_key:{serving.SECRETS}/api_key"]
    assert not any(re.search("key|token|secret", value, re.I) for value in unit["Environment"])


def test_replica_without_a_key_loads_none(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    node.secrets.clear()
    texts = {f.path: f.content.decode() for f in serving.desired(node, node.layout()).files}
    assert directives(texts[UNIT])["LoadCredential"] == []


def test_replica_runs_only_on_a_proven_node(tmp_path: Path) -> None:
    given = files(tmp_path)
    for path in (UNIT, "/etc/systemd/system/haproxy.service.d/b200kit.conf"):
        unit = directives(given[path])
        assert unit["Requires"] == ["b200-gate.service"]
        assert "b200-gate.service" in unit["After"][0].split()


def test_active_means_warm(tmp_path: Path) -> None:
    unit = directives(files(tmp_path, warm_deadline_s=700)[UNIT])
    assert " warm --config /etc/b200kit/serving.json " in unit["ExecStartPost"][0]
    assert int(unit["TimeoutStartSec"][0]) > 700


def test_replica_is_stopped_gently_and_as_a_whole(tmp_path: Path) -> None:
    given = files(tmp_path)
    unit, config = directives(given[UNIT]), yaml.safe_load(given["/etc/vllm/replica-0.yaml"])
    assert unit["KillMode"] == ["mixed"]
    assert int(unit["TimeoutStopSec"][0]) > config["shutdown-timeout"] > 0


def test_gateway_stops_before_what_it_stands_on_and_waits_for_open_requests(tmp_path: Path) -> None:
    listed = tmp_path / "router.txt"
    listed.write_text("vllm-router==0.1.17\n")
    router = {"router": {"requirements": str(listed), "version": "0.1.17"}}
    given = files(tmp_path, stop_grace_s=300, gateway=router)
    gateway = directives(given["/etc/systemd/system/haproxy.service.d/b200kit.conf"])
    [stop] = gateway["ExecStop"]
    assert stop.endswith("rotation stop 300 $MAINPID")
    assert int(gateway["TimeoutStopSec"][0]) > 300
    # systemd stops in the reverse order of a start, among units that it stops at all.
    assert "vllm.target" in gateway["After"][0].split()
    target = directives(given["/etc/systemd/system/vllm.target"])
    assert target["Requires"] == target["After"] == ["b200-gate.service"]
    router_unit = directives(given["/etc/systemd/system/b200-router.service"])
    assert router_unit["Before"] == ["haproxy.service"]
    assert any(line.endswith("rotation follow") for line in gateway["ExecStartPost"])


def test_replica_is_hardened_without_what_breaks_gpus_or_compilers(tmp_path: Path) -> None:
    unit = directives(files(tmp_path)[UNIT])
    assert unit["NoNewPrivileges"] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["User"] == ["vllm"]
    assert not {"PrivateDevices", "MemoryDenyWriteExecute", "ProcSubset", "PrivateUsers"} & {*unit}
    assert "@resources" not in " ".join(unit["SystemCallFilter"])


def test_replica_talks_to_this_machine_alone(tmp_path: Path) -> None:
    unit = directives(files(tmp_path)[UNIT])
    assert (unit["IPAddressDeny"], unit["IPAddressAllow"]) == (["any"], ["localhost"])


@pytest.mark.parametrize(("kind", "allowed"), [("cuda", True), ("cpu", False), ("stand-in", False)])
def test_gpus_are_opened_to_the_engine_that_needs_them(
    tmp_path: Path, kind: str, allowed: bool
) -> None:
    given = files(tmp_path, engine=engine(tmp_path, kind=kind))
    unit = directives(given[UNIT])
    assert unit["DevicePolicy"] == ["closed"]
    assert any("char-nvidia " in value for value in unit["DeviceAllow"]) is allowed
    assert any("nvidia-modprobe -u -c0" in line for line in unit["ExecStartPre"]) is allowed
    assert "tensor-parallel-size: 4" in given["/etc/vllm/replica-0.yaml"]


def test_environment_reaches_systemd_as_it_stands(tmp_path: Path) -> None:
    odd = {"A": "two words", "B": 'a "quote" and a \\', "C": "50%n"}
    given = files(tmp_path, engine=engine(tmp_path, environment=odd))
    message = directives(given[START])["Environment"]
    assert {'"A=two words"', r'"B=a \"quote\" and a \\"', '"C=50%%n"'} <= {*message}


def test_replica_is_bound_to_the_memory_of_its_gpus(tmp_path: Path) -> None:
    pinning = directives(files(tmp_path)[PINNING])
    assert (pinning["NUMAPolicy"], pinning["NUMAMask"]) == (["bind"], ["1"])
    assert pinning["CPUAffinity"] == ["58-111,170-223"]  # two cores are left to gateway and client
    [devices] = pinning["Environment"]
    assert re.fullmatch(r"CUDA_VISIBLE_DEVICES=GPU-[^,]+(,GPU-[^,]+){3}", devices)


def test_machine_with_one_node_binds_no_memory(tmp_path: Path) -> None:
    pinning = directives(files(tmp_path, numa_policy="local")[PINNING])
    assert (pinning["NUMAPolicy"], pinning["NUMAMask"]) == (["local"], [])


def test_target_starts_every_replica_at_boot(tmp_path: Path) -> None:
    target = directives(
        files(tmp_path, replicas=4, tensor_parallel=2)[f"{Path(UNIT).parent}/vllm.target"]
    )
    assert target["Wants"] == [f"vllm@{number}.service" for number in range(4)]
    assert target["WantedBy"] == ["multi-user.target"]


def test_gate_has_time_to_wait_for_the_fabric(tmp_path: Path) -> None:
    text = files(tmp_path, fabric_deadline_s=300)["/etc/systemd/system/b200-gate.service"]
    gate = directives(text)
    assert "--deadline 300" in gate["ExecStart"][0]
    assert int(gate["TimeoutStartSec"][0]) > 300
    assert gate["RemainAfterExit"] == ["yes"]


def known_flags() -> set[str]:
    """Long names of every `vllm serve` flag."""
    return set(engines.load()["vllm"].versions["0.32.0"].flags)


def test_replica_config_names_only_flags_that_vllm_has(tmp_path: Path) -> None:
    flags = {"enforce-eager": True, "kv-cache-dtype": "fp8"}
    given = files(tmp_path, engine=engine(tmp_path, kind="cuda", flags=flags))
    for number in range(2):
        config = yaml.safe_load(given[f"/etc/vllm/replica-{number}.yaml"])
        assert set(config) <= known_flags()
        assert (config["host"], config["port"]) == ("127.0.0.1", 8001 + number)
        assert (config["enforce-eager"], config["kv-cache-dtype"]) == (True, "fp8")
        assert "api-key" not in config


@in_subtests("name", load.load().models)
def test_model_names_only_flags_that_vllm_has(name: str) -> None:
    assert set(dict(load.load().models[name].flags)) <= known_flags()


def test_production_example_names_only_flags_that_vllm_has() -> None:
    flags = prod.engine["flags"]
    assert isinstance(flags, dict)
    assert set(flags) <= known_flags()


def test_values_stay_strings_numbers_and_booleans(tmp_path: Path) -> None:
    flags = {"seed": 7, "load-format": "no", "enforce-eager": True, "revision": "1.10"}
    given = files(tmp_path, engine=engine(tmp_path, flags=flags))
    config = yaml.safe_load(given["/etc/vllm/replica-0.yaml"])
    assert {name: config[name] for name in flags} == flags


def haproxy(folder: Path, **changes: Any) -> list[str]:
    """The gateway's configuration as stripped lines without comments."""
    node = connected(settled(folder)[1], **changes)
    config = gateway.desired(node, nominal_layout(node)).files[0].content.decode()
    lines = [line.strip() for line in config.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def test_gateway_passes_chunks_on_at_once_to_the_least_busy_replica(tmp_path: Path) -> None:
    lines = haproxy(tmp_path)
    assert "option http-no-delay" in lines
    assert "balance leastconn" in lines
    servers = [line for line in lines if line.startswith("server ")]
    assert servers == [
        "server vllm0 127.0.0.1:8001 weight 100",
        "server vllm1 127.0.0.1:8002 weight 100",
        "server node unix@/run/b200kit-share.sock",
    ]


def test_gateway_listens_on_loopback_unless_the_inventory_says_otherwise(tmp_path: Path) -> None:
    assert [line for line in haproxy(tmp_path) if line.startswith("bind ")] == [
        "bind 127.0.0.1:8000",
        "bind 127.0.0.1:7999",
    ]
    plain = {"tls": "off", "authentication": "off"}
    public = haproxy(tmp_path, gateway_bind="10.1.2.3", gateway_port=9000, gateway=plain)
    assert [line for line in public if line.startswith("bind ")] == [
        "bind 10.1.2.3:9000",
        "bind 10.1.2.3:7999",
    ]


def test_gateway_serves_a_list_of_paths_and_denies_the_rest(tmp_path: Path) -> None:
    lines = haproxy(tmp_path)
    [allowed] = [line for line in lines if line.startswith("acl served path ")]
    # Whole paths: a prefix would let /v1/../metrics through.
    assert set(allowed.split()[3:]) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/v1/responses",
    }
    [deny] = [line for line in lines if "deny_status 403" in line]
    assert deny.endswith(" unless served")
    assert lines.index(deny) < lines.index("default_backend replicas")
    # Answered by the gateway itself, so that it never reaches a replica.
    assert "monitor-uri /health" in lines


def test_failed_attempts_are_repeated_only_before_a_byte_was_sent(tmp_path: Path) -> None:
    [retry] = [line for line in haproxy(tmp_path) if line.startswith("retry-on ")]
    assert set(retry.split()[1:]) <= {"conn-failure", "empty-response", "401"}


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://127.0.0.1:8000"),
        ("10.1.2.3", "http://10.1.2.3:8000"),
        ("fd00::1", "http://[fd00::1]:8000"),
    ],
)
def test_client_on_the_node_finds_the_gateway_wherever_it_listens(
    tmp_path: Path, bind: str, url: str
) -> None:
    plain = {"tls": "off", "authentication": "off"}
    document = json.loads(files(tmp_path, gateway_bind=bind, gateway=plain)[serving.SERVING])
    assert document["gateway"] == url


def test_repository_is_bound_to_its_own_key(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    given = {file.path: file.content for file in host.desired(node, ()).files}
    source = given["/etc/apt/sources.list.d/b200kit-vendor.sources"].decode()
    head, _, key = source.partition("Signed-By:\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    assert fields["Types"] == "deb"
    assert fields["Suites"] == "./"
    assert "Components" not in fields
    assert "Trusted" not in fields
    lines = (line[1:].removeprefix(".") for line in key.splitlines())
    assert "\n".join(lines) == VENDOR_KEY.strip()


def test_modules_the_fabric_manager_needs_are_loaded_at_boot(tmp_path: Path) -> None:
    given = files(tmp_path)
    modules = given["/etc/modules-load.d/b200kit.conf"].split("\n")
    assert {"mlx5_core", "mlx5_ib", "ib_umad", "nvidia_uvm"} <= set(modules)
    assert "blacklist nouveau" in given["/etc/modprobe.d/b200kit.conf"]


def test_driver_is_not_upgraded_under_a_running_server(tmp_path: Path) -> None:
    assert 'Unattended-Upgrade "0";' in files(tmp_path)["/etc/apt/apt.conf.d/zz-b200kit"]
