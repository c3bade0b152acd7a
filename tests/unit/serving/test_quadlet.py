"""The same replica as a container: by digest only, from the same data, never both forms at once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from b200kit.inventory.parse import parse
from b200kit.run.node import StageFailed
from b200kit.serving import quadlet, systemd_units
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.nodes import connected, look, make, planned, settled
from tests.unit.run.test_templates import directives, files
from tests.unit.specs import CATALOGUE, data

DIGEST = "0123456789abcdef" * 4
IMAGE = f"registry.example.internal:5000/vllm/vllm-openai@sha256:{DIGEST}"
CONTAINER = "/etc/containers/systemd/vllm@1.container"


def engine(**changes: Any) -> dict[str, Any]:
    """Inventory data of an engine in a container."""
    return {"kind": "cuda", "version": "0.32.0", "image": IMAGE} | changes


def asked(**changes: Any) -> dict[str, Any]:
    """Inventory data of a node whose replicas are containers."""
    return {"engine": engine(), "container_runtimes": ["podman"]} | changes


def problems(**changes: Any) -> list[str]:
    """What is wrong with an inventory."""
    found = parse(data(**changes), CATALOGUE)
    assert isinstance(found, list), found
    return [f"{problem.key}: {problem.message}" for problem in found]


def container(folder: Path, **changes: Any) -> dict[str, list[str]]:
    """The container of replica 1."""
    return directives(files(folder, **asked(**changes))[CONTAINER])


@in_subtests(
    "image",
    [
        "registry.example.internal/vllm/vllm-openai:latest",
        "registry.example.internal/vllm/vllm-openai:v0.33.0",
        "vllm/vllm-openai",
        f"registry.example.internal/vllm/vllm-openai:latest@sha256:{DIGEST}",
        f"registry.example.internal/vllm/vllm-openai@sha256:{DIGEST[:-1]}",
    ],
)
def test_image_that_is_not_named_by_its_digest_is_refused(image: str) -> None:
    [problem] = problems(**asked(engine=engine(image=image)))
    assert_message(problem)


def test_engine_is_wheels_or_an_image() -> None:
    both = engine(requirements="a.txt", wheelhouse="https://mirror.example.internal/w/")
    [problem] = problems(**asked(engine=both))
    assert_message(problem)
    neither = {"kind": "cuda", "version": "0.32.0"}
    assert problems(engine=neither) == [
        "engine.requirements: is required, or engine.image",
        "engine.wheelhouse: is required, or engine.image",
    ]


def test_image_needs_podman() -> None:
    [problem] = problems(engine=engine(), container_runtimes=["docker"])
    assert_message(problem)


def test_container_is_the_replica_of_the_layout(tmp_path: Path) -> None:
    given = container(tmp_path)
    assert given["Image"] == [IMAGE]
    assert len(given["AddDevice"]) == 4
    assert all(device.startswith("nvidia.com/gpu=GPU-") for device in given["AddDevice"])
    started, cpus, invocation = given["PodmanArgs"]
    assert started.split()[0] == "--entrypoint=/usr/local/lib/b200kit/serve"
    assert cpus == "--cpuset-cpus=58-111,170-223 --cpuset-mems=1"
    # Passed on from podman's own environment: the probe belongs to this start.
    assert invocation == "--env=INVOCATION_ID"
    assert "/usr/local/lib/b200kit/node.pyz:/usr/local/lib/b200kit/node.pyz:ro" in given["Volume"]
    assert given["Exec"] == ["vllm serve --config /etc/vllm/replica-1.yaml"]
    assert (given["CPUAffinity"], given["NUMAMask"]) == (["58-111,170-223"], ["1"])


# What quadlet takes from podman 4.7 on (its release notes). One that it does not know, and
# there is no unit.
KEYS = {
    *("AddCapability", "AddDevice", "ContainerName", "DropCapability", "Environment", "Exec"),
    *("Group", "Image", "LogDriver", "Network", "NoNewPrivileges", "PidsLimit", "PodmanArgs"),
    *("Pull", "ReadOnly", "ShmSize", "Tmpfs", "Ulimit", "User", "Volume"),
}


def test_every_key_is_one_that_the_oldest_podman_knows(tmp_path: Path) -> None:
    text = files(tmp_path, **asked())[CONTAINER]
    section = text.partition("[Container]")[2].partition("[Service]")[0]
    keys = {line.partition("=")[0] for line in section.splitlines() if re.match(r"\w+=", line)}
    assert keys <= KEYS


def test_workers_in_a_container_meet_on_the_node_s_loopback(tmp_path: Path) -> None:
    given = container(tmp_path)
    assert given["Network"] == ["host"]
    assert {'"NCCL_SOCKET_IFNAME=lo"', '"GLOO_SOCKET_IFNAME=lo"'} <= {*given["Environment"]}


def test_container_over_nodes_is_held_on_its_cpus_and_bound_by_its_engine(tmp_path: Path) -> None:
    given = files(tmp_path, **asked(replicas=1, tensor_parallel=8))
    message = directives(given["/etc/containers/systemd/vllm@0.container"])
    mine = "2-55,58-111,114-167,170-223"
    assert message["PodmanArgs"][1:2] == [f"--cpuset-cpus={mine} --cpuset-mems=0,1"]
    assert message["CPUAffinity"] == message["NUMAPolicy"] == []
    assert message["AddCapability"] == ["SYS_NICE"]
    assert "numa-bind-nodes: [0, 0, 0, 0, 1, 1, 1, 1]" in given["/etc/vllm/replica-0.yaml"]


def test_container_may_do_nothing_it_need_not(tmp_path: Path) -> None:
    given = container(tmp_path)
    assert given["DropCapability"] == ["all"]
    assert given["NoNewPrivileges"] == given["ReadOnly"] == ["true"]
    assert given["IPAddressDeny"] == ["any"]
    writable = [volume for volume in given["Volume"] if not volume.endswith(":ro")]
    assert writable == ["/var/cache/vllm/1:/var/cache/vllm/1:rw"]
    assert given["LoadCredential"] == ["api_key:/etc/b200kit/secrets/api_key"]
    assert not any("canary" in value for values in given.values() for value in values)


def test_engine_is_not_root_in_its_container_and_has_what_it_needs(tmp_path: Path) -> None:
    given = container(tmp_path)
    user = str(quadlet.USER)
    assert given["User"] == given["Group"] == [user]
    assert given["User"] != ["0"]
    hooks = [line.split() for line in given["ExecStartPre"]]
    [owned] = [words for words in hooks if words[0].endswith("/chown")]
    assert owned[1:] == ["-hR", f"{user}:{user}", "/var/cache/vllm/1"]
    # systemd would give the directory back to root at every start.
    assert given["CacheDirectory"] == []
    [prepared] = [words for words in hooks if "compile-cache" in words]
    assert prepared[:3] == ["/usr/bin/setpriv", "--reuid", user]
    assert hooks.index(owned) < hooks.index(prepared)
    [key] = [words for words in hooks if words[-1] == "/run/vllm-1-key/api_key"]
    assert {"0400", user, "%d/api_key"} <= {*key}
    assert given["RuntimeDirectoryMode"] == ["0700"]
    assert "/run/vllm-1-key/api_key:/run/b200kit-credentials/api_key:ro" in given["Volume"]


def test_podman_that_does_not_know_our_keys_is_refused(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    for version, wanted in (("4.3.1", asked()), ("4.6.2", asked()), ("4.3.1", {})):
        node = connected(machine, **{"container_runtimes": ["podman"], **wanted})
        found = {"runtime_mode": None, "cdi": {}, "podman": {"version": version}}
        machine.readings["containers"] = found
        look(node)
        if not wanted:
            assert planned(node, "containers")
            continue
        with raises_message(StageFailed):
            planned(node, "containers")


def test_replica_has_one_form(tmp_path: Path) -> None:
    own = set(files(tmp_path, **asked()))
    assert CONTAINER in own
    assert not own & {*systemd_units.SHARED, *systemd_units.paths(0), *systemd_units.paths(1)}
    assert "/etc/b200kit/engine-requirements.txt" not in own
    assert CONTAINER not in files(tmp_path)


def test_change_of_form_has_the_image_first_and_is_done_once(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    node = connected(machine, **asked())
    machine.answers = {"podman": (True, "")}
    look(node)
    # An image that cannot be had must not end the replicas that run.
    assert_message(planned(node, "serving")[1])
    make(node, "serving")
    for path in (*systemd_units.SHARED, *systemd_units.paths(0), *systemd_units.paths(1)):
        assert path not in machine.files
    assert quadlet.paths(1)[0] in machine.files
    [stop] = machine.ran("systemctl stop vllm@0.service vllm@1.service && rm")
    [pull] = machine.ran(f"podman pull --quiet {IMAGE}")
    assert machine.log.index(pull) < machine.log.index(stop)
    machine.write(f"/var/lib/b200kit/images/{_image_id()}")
    look(node)
    assert planned(node, "serving") == []


def _image_id() -> str:
    return hashlib.sha256(IMAGE.encode()).hexdigest()[:12]
