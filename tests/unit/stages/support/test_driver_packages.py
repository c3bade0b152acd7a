"""The lockstep set: names by branch, what hardware needs and no more, what must go or follow."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.catalog import hardware, systems
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.state.drift import Package
from b200kit.stages.support.driver_packages import Ground, Lockstep, ground, lockstep
from tests.unit import states
from tests.unit.specs import CATALOGUE, data

SYSTEMS = systems.load()
UBUNTU = Ground("amd64", SYSTEMS["ubuntu2404"], ("6.8.0-57-generic",))


def made(on: Ground | None = UBUNTU, like: str = "hgx-b200", **changes: Any) -> Lockstep:
    """The set of a node with *changes* in its inventory."""
    spec = parse(data(**changes), CATALOGUE)
    assert isinstance(spec, NodeSpec), spec
    return lockstep(spec, hardware.load(like)["expect"], on)


def names(packages: tuple[Package, ...]) -> list[str]:
    """Their names."""
    return [package.name for package in packages]


def test_b200_needs_the_driver_its_fabric_and_the_kernels_headers() -> None:
    assert names(made().packages) == [
        "nvidia-open",
        "nvidia-persistenced",
        "nvidia-fabricmanager",
        "libnvidia-nscq",
        "libnvsdm",
        "nvlsm",
        "infiniband-diags",
        "linux-headers-6.8.0-57-generic",
        "linux-headers-generic",
    ]


@pytest.mark.parametrize(
    ("version", "suffix"),
    [("570.158.01", "-570"), ("575.57.08", "-575"), ("580.95.05", ""), ("595.71.05", "")],
)
def test_branches_below_580_have_their_number_in_the_names(version: str, suffix: str) -> None:
    stack = made(driver=version)
    own = () if suffix else ("nvidia-persistenced",)
    assert names(stack.driver)[1:] == [
        *own,
        f"nvidia-fabricmanager{suffix}",
        f"libnvidia-nscq{suffix}",
        f"libnvsdm{suffix}",
    ]
    assert names(stack.fabric) == ["nvlsm"]
    assert stack.pinning.name == f"nvidia-driver-pinning-{version}"


def test_debian_has_the_persistence_daemon_in_a_package_of_its_own_in_every_branch() -> None:
    debian = made(Ground("amd64", SYSTEMS["debian12"]), driver="570.133.20")
    assert "nvidia-persistenced" in names(debian.driver)


def test_every_package_of_the_driver_has_its_version_and_is_held() -> None:
    assert {(p.version, p.hold) for p in made().driver} == {("580.126.20", True)}


def test_only_the_open_kernel_module_is_ever_asked_for() -> None:
    every = [name for v in ("570.158.01", "580.95.05") for name in names(made(driver=v).packages)]
    assert "nvidia-open" in every
    assert not [name for name in every if "dkms" in name or name.startswith("cuda-drivers")]


def test_libnvsdm_is_for_amd64_only() -> None:
    assert "libnvsdm" not in names(made(Ground("arm64", SYSTEMS["ubuntu2404"])).packages)


@pytest.mark.parametrize(
    ("like", "expected", "units"),
    [
        ("single", ["nvidia-open", "nvidia-persistenced"], 1),
        ("hgx-b200-vm", ["nvidia-open", "nvidia-persistenced"], 1),
        (
            "hgx-h100",
            ["nvidia-open", "nvidia-persistenced", "nvidia-fabricmanager", "libnvidia-nscq"],
            2,
        ),
    ],
)
def test_what_a_hardware_does_not_need_is_not_installed(
    like: str, expected: list[str], units: int
) -> None:
    stack = made(Ground("amd64"), like)
    assert names(stack.packages) == expected
    assert len(stack.units) == units


def test_imex_is_for_hardware_that_says_so() -> None:
    spec = parse(data(), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    expect = {"fabric.imex": {"value": True}}
    assert names(lockstep(spec, expect).driver) == [
        "nvidia-open",
        "nvidia-persistenced",
        "nvidia-imex",
    ]
    assert not [n for h in hardware.names() for n in names(made(like=h).packages) if "imex" in n]


def test_tools_come_where_the_inventory_asks_for_them() -> None:
    stack = made(cuda_toolkit="12-8", nccl="2.27.7-1+cuda12.9", dcgm="4.4.1")
    assert [package.key for package in stack.tools] == [
        "infiniband-diags",
        "cuda-toolkit-12-8",
        "libnccl2=2.27.7-1+cuda12.9",
        "datacenter-gpu-manager-4-core=4.4.1",
        "datacenter-gpu-manager-4-proprietary=4.4.1",
        "datacenter-gpu-manager-4-cuda13=4.4.1",
    ]
    assert not any(package.optional for package in stack.tools)
    assert names(made(driver="575.57.08", dcgm="4.4.1").tools)[-1].endswith("cuda12")


@pytest.mark.parametrize(
    ("dcgm", "refused"), [("4.2.3-1", True), ("1:4.3.0-1", False), ("4.10.0", False)]
)
def test_driver_590_wants_a_newer_dcgm(dcgm: str, refused: bool) -> None:
    problems = parse(data(driver="590.48.01", dcgm=dcgm), CATALOGUE)
    assert isinstance(problems, list) is refused


@pytest.mark.parametrize(
    ("key", "value"), [("cuda_toolkit", "12.8"), ("nccl", "newest"), ("dcgm", "v4")]
)
def test_versions_of_tools_are_checked(key: str, value: str) -> None:
    problems = parse(data(**{key: value}), CATALOGUE)
    assert isinstance(problems, list)
    assert [problem.key for problem in problems] == [key]


def test_ubuntu_kernel_without_the_infiniband_modules_gets_its_extra_modules() -> None:
    state = states.healthy()
    assert not ground(state).modules_missing
    state["modules"]["ib_umad"] = None
    here = ground(state)
    assert "linux-modules-extra-6.8.0-57-generic" in names(made(here).kernel)
    debian = Ground("amd64", SYSTEMS["debian12"], ("6.1.0-28-amd64",), modules_missing=True)
    assert not [name for name in names(made(debian).kernel) if "extra" in name]
    assert not [name for name in names(made(here, "hgx-h100").kernel) if "extra" in name]
    cloud = Ground("amd64", SYSTEMS["ubuntu2404"], ("6.8.0-1021-aws",), modules_missing=True)
    assert "linux-modules-extra-aws" in names(made(cloud).kernel)


def test_before_a_node_was_seen_all_that_it_may_need_is_asked_for() -> None:
    assert set(names(made(None).driver)) >= {"libnvsdm", "libnvidia-nscq"}
    assert made(None).kernel == ()


def test_what_apt_lacks_is_not_judged_but_said() -> None:
    stack = made()
    missing = ["libnvsdm=580.126.20"]
    assert set(stack.judged(missing)) == {
        *("nvidia-open", "nvidia-persistenced", "nvidia-fabricmanager", "libnvidia-nscq")
    }
    assert list(stack.left_out(missing)) == ["libnvsdm"]
    assert stack.left_out([]) == {}


def test_required_package_is_judged_whatever_the_record_says() -> None:
    assert not made().driver[0].optional
    assert not made().driver[1].optional


FOREIGN = [
    "nvidia-driver-pinning-580.95.05",
    "nvidia-driver-pinning-580",
    "nvidia-fabricmanager-580",
    "nvidia-fabricmanager-575",
    "libnvidia-nscq-580",
    "nvidia-dkms-580",
    "nvidia-dkms-580-server",
    "nvidia-kernel-dkms",
    "linux-modules-nvidia-580-server-open-6.8.0-57-generic",
]
KEPT = [
    "nvidia-driver-pinning-580.126.20",
    "nvidia-fabricmanager",
    "nvidia-open-580",
    "nvidia-dkms-580-open",
    "nvidia-dkms-open",
    "nvidia-kernel-open-dkms",
    "nvidia-container-toolkit",
    "libnvidia-container1",
    "nvidia-persistenced",
    "nvlsm",
]


def test_other_pins_names_and_modules_must_go() -> None:
    assert made().foreign([*FOREIGN, *KEPT]) == sorted(FOREIGN)


def test_the_drivers_other_packages_follow_it() -> None:
    installed = {
        "libnvidia-compute": "580.95.05-1",
        "nvidia-persistenced": "580.126.20-1",
        "nvidia-kernel-open-dkms": "580.159.03-0ubuntu1",
        "nvidia-open": "580.95.05-1",
        "libnvidia-container1": "1.20.0-1",
        "nvidia-utils-535": "535.183.01-0ubuntu1",
        "nvidia-driver-pinning-580.95.05": "580.95.05-1",
        "libnvidia-compute-580": "580.95.05-0ubuntu1",
        "nvlsm": "2025.10.11-1",
    }
    assert [package.key for package in made().followers(installed)] == [
        "libnvidia-compute=580.126.20",
        "libnvidia-compute-580=580.126.20",
        "nvidia-kernel-open-dkms=580.126.20",
    ]
    assert all(package.optional for package in made().followers(installed))
