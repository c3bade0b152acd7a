"""Supported systems are known by their os-release; every other node is refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.catalog import systems
from b200kit.catalog.types import System
from b200kit.stages.support import operating_systems
from tests.messages import assert_message
from tests.subtests import in_subtests


def state(os: object, arch: object = "x86_64") -> dict[str, Any]:
    """An observation that shows an operating system."""
    return {"host": {"os": os, "arch": arch}}


def release(id: str, version: str, pretty: str = "A system") -> dict[str, str]:
    """os-release as the node program reads it."""
    return {"id": id, "version_id": version, "pretty": pretty}


@pytest.mark.parametrize("system", systems.supported(), ids=lambda system: system.name)
def test_supported_system_is_known_and_not_refused(system: System) -> None:
    seen = state(release(system.id, system.version))
    assert operating_systems.system_of(seen) == system
    assert operating_systems.refusal(seen) is None


@in_subtests(
    "seen",
    [
        release("rocky", "9.4", "Rocky Linux 9.4 (Blue Onyx)"),
        release("rhel", "9.4", "Red Hat Enterprise Linux 9.4"),
        release("ubuntu", "20.04", "Ubuntu 20.04.6 LTS"),
        release("ubuntu", "24.10", "Ubuntu 24.10"),
        release("debian", "", "Debian GNU/Linux trixie/sid"),
        release("linuxmint", "22.04", "Linux Mint 22"),
        release("ubuntu", "26.04", "Ubuntu 26.04 LTS"),
    ],
    ids=lambda seen: seen["pretty"],
)
def test_every_other_system_is_refused_by_its_name(seen: dict[str, str]) -> None:
    refused = operating_systems.refusal(state(seen))
    assert refused is not None
    assert_message(refused)
    assert "\n" not in refused


@pytest.mark.parametrize(
    "seen", [{}, {"host": {}}, {"host": {"unmeasured": "no host"}}, state({"unmeasured": "ENOENT"})]
)
def test_system_that_was_not_read_is_refused(seen: dict[str, Any]) -> None:
    refused = operating_systems.refusal(seen)
    assert refused is not None
    assert_message(refused)


def test_processor_without_packages_is_refused() -> None:
    refused = operating_systems.refusal(state(release("debian", "12"), "riscv64"))
    assert_message(refused)


@pytest.mark.parametrize(
    ("machine", "name"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", None)]
)
def test_processors_have_dpkgs_names(machine: str, name: str | None) -> None:
    assert operating_systems.architecture(state({}, machine)) == name


UBUNTU_22, UBUNTU_24, DEBIAN_12, DEBIAN_13 = (
    systems.load()[name] for name in ("ubuntu2204", "ubuntu2404", "debian12", "debian13")
)


@in_subtests(
    ("system", "kernel", "metapackage"),
    [
        (UBUNTU_24, "6.8.0-57-generic", "linux-headers-generic"),
        (UBUNTU_24, "6.11.0-21-generic", "linux-headers-generic-hwe-24.04"),
        (UBUNTU_22, "5.15.0-131-generic", "linux-headers-generic"),
        (UBUNTU_22, "6.8.0-57-generic", "linux-headers-generic-hwe-22.04"),
        (UBUNTU_22, "6.8.0-1021-aws", "linux-headers-aws"),
        (UBUNTU_24, "6.8.0-1015-nvidia-64k", "linux-headers-nvidia-64k"),
        (UBUNTU_24, "6.11.0-1011-nvidia", "linux-headers-nvidia-hwe-24.04"),
        (DEBIAN_12, "6.1.0-28-amd64", "linux-headers-amd64"),
        (DEBIAN_12, "6.1.0-28-cloud-amd64", "linux-headers-cloud-amd64"),
        (DEBIAN_12, "6.1.0-0.deb11.21-amd64", "linux-headers-amd64"),
        (DEBIAN_13, "6.12.41+deb13-cloud-amd64", "linux-headers-cloud-amd64"),
    ],
)
def test_headers_are_the_kernels_own_and_those_that_follow_its_flavour(
    system: System, kernel: str, metapackage: str
) -> None:
    assert operating_systems.headers(system, kernel) == (f"linux-headers-{kernel}", metapackage)


def test_kernel_that_somebody_built_has_no_metapackage() -> None:
    assert operating_systems.headers(DEBIAN_12, "6.18.5") == ("linux-headers-6.18.5",)


@pytest.mark.parametrize("wanted", list(systems.load()))
def test_system_other_than_the_inventorys_is_refused(wanted: str) -> None:
    seen = state(release("debian", "12"))
    refused = operating_systems.refusal(seen, wanted)
    assert (refused is None) == (wanted == "debian12")
    assert_message(refused or "")
