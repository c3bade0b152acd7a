"""Inventory data becomes a spec, or every problem in it is named by its key."""

from __future__ import annotations

import re
from typing import Any

import pytest

from b200kit.inventory import rules
from b200kit.inventory.keys.problem import json_schema, not_none
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

SERVER = {"bind": "10.0.0.1", "from": ["10.0.0.0/24"]}
ROUTER = {"requirements": "router.txt", "version": "0.1.17"}


def problems(**changes: object) -> dict[str, str]:
    """Key to message of everything wrong with the changed data."""
    found = parse(data(**changes), CATALOGUE)
    return {} if isinstance(found, NodeSpec) else {p.key: p.message for p in found}


def described(**changes: object) -> list[str]:
    """Each problem as one line."""
    return [f"{key}: {message}" for key, message in problems(**changes).items()]


def test_sound_data_becomes_a_spec_with_its_defaults() -> None:
    spec = parse(data(), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    assert spec.ports() == (8001, 8002)
    assert spec.gateway_bind == "127.0.0.1"
    assert spec.smoke.requests == 180


def test_nothing_is_left_unjudged_unless_the_inventory_says_so() -> None:
    spec = parse(data(), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    assert (spec.clock_synchronized, spec.settings) == (True, ())
    assert (spec.passport, spec.bandwidth) == ("keep", "off")


def test_misspelt_key_gets_a_hint() -> None:
    assert_message(*described(drivr="580.126.20"))


@in_subtests(
    ("changes", "key"),
    [
        ({4: 5}, "4"),
        ({"smoke": {4: 5}}, "smoke.4"),
    ],
)
def test_key_that_is_no_string_is_named(changes: dict[Any, object], key: str) -> None:
    found = parse({**data(), **changes}, CATALOGUE)
    assert isinstance(found, list)
    assert [problem.key for problem in found] == [key]


@in_subtests(
    ("changes", "key"),
    [
        ({"gateway_port": 22}, "gateway_port"),
        ({"gateway_port": 21}, "gateway_port"),
        ({"replica_ports": [22, 8001]}, "replica_ports"),
        ({"fleet": {"port": 22}}, "fleet.port"),
        ({"weights": {"server": SERVER | {"port": 22}}}, "weights.server.port"),
        ({"monitoring": {"port": 22, "from": ["10.0.0.1"]}}, "monitoring.port"),
        ({"monitoring": {"node_exporter": 22, "from": ["10.0.0.1"]}}, "monitoring.node_exporter"),
        ({"proof": {"share_port": 22}}, "proof.share_port"),
        ({"gateway": {"router": ROUTER | {"port": 22}}}, "gateway.router.port"),
        ({"gateway": {"router": ROUTER | {"port": 21}}}, "gateway.router.port"),
    ],
)
def test_port_of_sshd_is_refused(changes: dict[str, object], key: str) -> None:
    spec = parse(data(**changes), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    assert [problem.key for problem in rules.beside_sshd(spec, 22)] == [key]
    assert list(rules.beside_sshd(spec, 2222)) == []


def test_misspelt_key_inside_a_mapping_is_named_with_its_path() -> None:
    assert list(problems(smoke={"request": 10})) == ["smoke.request"]


def test_every_problem_is_reported_at_once() -> None:
    found = problems(replicas="two", gateway_port=0, model_revision="latest")
    assert set(found) == {"replicas", "gateway_port", "model_revision"}


@pytest.mark.parametrize("version", ["550.90.07", "570.86.15"])
def test_driver_too_old_for_the_hardware_is_refused(version: str) -> None:
    assert "570.124.06 or newer" in problems(driver=version)["driver"]


@pytest.mark.parametrize("branch", ["550", "580"])
def test_driver_branch_alone_is_refused(branch: str) -> None:
    assert "driver" in problems(driver=branch)


def test_no_key_takes_a_url_with_a_user_in_it() -> None:
    """It lies readable in units, sources of apt and argument lists."""
    schema, patterns = json_schema(NodeSpec), {}
    for model in (schema, *schema["$defs"].values()):
        for name, key in model.get("properties", {}).items():
            text = not_none(key)
            text = text.get("items", text)
            if "URL" in key.get("description", "") and "$ref" not in text:
                patterns[name] = text["pattern"]
    assert {"model_store", "wheelhouse", "peers", "address"} <= patterns.keys()
    assert [name for name, p in patterns.items() if re.search(p, "https://user:word@h/")] == []


def test_unknown_model_names_the_nearest_or_where_all_are() -> None:
    assert 'did you mean "tiny-llama"?' in problems(model="tiny-lama")["model"]
    assert "b200 models" in problems(model="gpt-9")["model"]


def test_unknown_hardware_is_refused() -> None:
    assert "hgx-b200" in problems(hardware="hgx-b300")["hardware"]


def test_more_replicas_than_gpus_says_how_many_fit() -> None:
    assert_message(*described(replicas=9, tensor_parallel=1))


def test_port_given_twice_is_refused() -> None:
    assert_message(*described(replica_ports=[8001, 8001]))


def test_gateway_on_a_replicas_port_is_refused() -> None:
    assert_message(*described(gateway_port=8002, replica_ports=[8001, 8002]))


def test_too_few_ports_are_refused() -> None:
    assert problems(replica_ports=[8001]) == {"replica_ports": "1 ports for 2 replicas"}


WIDE_TWO = "\uff12"
WAIVER = {"check": "nvlink.links", "owner": "o", "reason": "r", "until": "2027-02-28"}
REPOSITORY = {"name": "a", "url": "https://a.example", "key": "k", "fingerprint": "A" * 40}
ENGINE = data()["engine"]


@in_subtests(
    ("key", "value"),
    [
        ("replicas", True),
        ("replicas", 2.0),
        ("smoke_always", 1),
        ("driver", 580),
        ("driver", "580.126.20; reboot"),
        ("repositories", "https://mirror.example.internal"),
        ("repositories", [{"name": "Vendor!", "url": "x", "key": "k", "fingerprint": "short"}]),
        ("engine", {"kind": "tpu"}),
        ("model_store", "models.example.internal"),
        ("waivers", [{"check": "nvlink.links"}]),
        ("waivers", [WAIVER | {"check": "nvlink.link"}]),
        ("waivers", [WAIVER | {"until": "2027-02-31"}]),
        ("waivers", [WAIVER | {"subject": "gpu 5"}]),
        ("waivers", [WAIVER | {"subject": "5"}]),
        ("waivers", [WAIVER | {"subject": "GPU 8"}]),
        ("gateway_port", 65534),
        ("waivers", [WAIVER | {"until": f"{WIDE_TWO}027-01-01"}]),
        ("driver", f"58{WIDE_TWO}.126.20"),
        ("model_store", "https://user:word@models.example/m"),
        ("model_store", "https://models.example:99999/m"),
        ("model_store", "https://models.example:0/m"),
        ("model_store", "https://models.example:port/m"),
        ("model_store", "https://models..example/m"),
        ("model_store", "https://-models.example/m"),
        ("model_store", "https://models.example/m?token=word"),
        ("weights", {"peers": ["http://user@10.0.0.9:8090"]}),
        ("weights", {"peers": ["http://10.0.0.9:65536"]}),
        ("replica_cpus", [f"{WIDE_TWO}-7"]),
        ("repositories", [REPOSITORY, REPOSITORY | {"url": "https://b.example"}]),
        ("container_runtimes", ["docker", "docker"]),
        ("time_servers", ["t1.example", "t1.example"]),
        ("time_servers", ["t1.example:123"]),
        ("time_servers", ["-x"]),
        ("engine", ENGINE | {"environment": {"MY VARIABLE": "1"}}),
        ("engine", ENGINE | {"environment": {"1ST": "1"}}),
        ("engine", ENGINE | {"environment": {"NAME": "a\0b"}}),
        ("engine", ENGINE | {"flags": {"speculative-config": "[]"}}),
        ("engine", ENGINE | {"flags": {"revision": "\ud800"}}),
        ("firewall", {"networks": {"monitoring": []}}),
        ("numa_policy", "interleave"),
        ("gateway_bind", "face"),
        ("gateway_bind", "1.2.3.4.5"),
        ("gateway_bind", "fe80::1%\n stats"),
        ("model_store", "https://[fe80::1%x]/m"),
        ("monitoring", {"from": ["fe80::%x/64"]}),
        ("firewall", {"allow": [{"port": 9, "from": ["fe80::1%x"]}]}),
        ("client_cpus", "all"),
        ("clock_synchronized", "no"),
        ("settings", {"swappiness": [1]}),
        ("settings", ["swappiness"]),
        ("passport", "forget"),
        ("bandwidth", "on"),
    ],
)
def test_wrong_types_and_values_are_refused_under_their_key(key: str, value: object) -> None:
    assert all(name.split(".")[0] == key for name in problems(**{key: value}))
    assert problems(**{key: value})


@in_subtests(
    ("key", "value"),
    [
        ("model_store", "https://user:S3CRET@models.example"),
        ("model_store", "https://models.example/m?token=S3CRET"),
        ("weights", {"peers": ["http://user:S3CRET@10.0.0.9:8090"]}),
        ("api_key", "sk-S3CRET"),
        ("api_key", {"env": "sk-S3CRET"}),
        ("hf_token", {"env": "hf_S3CRETabc"}),
    ],
)
def test_refusal_does_not_repeat_what_may_be_a_secret(key: str, value: object) -> None:
    assert described(**{key: value})
    assert not [line for line in described(**{key: value}) if "S3CRET" in line]


def test_number_that_is_too_long_to_print_is_refused() -> None:
    endless = 10**5000
    assert list(problems(replicas=endless)) == ["replicas"]
    assert list(problems(engine=ENGINE | {"flags": {"seed": endless}})) == ["engine.flags.seed"]


@in_subtests("name", ["t1.example", "10.0.0.1", "fd00::1", "ntp_1"])
def test_time_server_is_a_name_or_an_address(name: str) -> None:
    assert problems(time_servers=[name]) == {}


def test_secret_must_come_from_exactly_one_place() -> None:
    both = {"env": "KEY", "file": "/etc/key"}
    assert_message(*described(api_key=both))
    assert_message(*described(api_key={}))


def test_missing_key_says_what_it_is() -> None:
    without = data()
    del without["model_store"]
    found = parse(without, CATALOGUE)
    assert not isinstance(found, NodeSpec)
    assert [(p.key, p.message.startswith("is required: URL")) for p in found] == [
        ("model_store", True)
    ]


@in_subtests("digits", ["a" * 12, "a" * 40, "a" * 63, "a" * 65, "A" * 64, ""])
def test_model_is_pinned_by_the_whole_digest(digits: str) -> None:
    assert set(problems(model_revision=digits)) == {"model_revision"}
