"""The states of the NVLink bring-up as data: what each waits for, who judges it, what helps. Pure.

A state holds when its checks find nothing that blocks, so it cannot disagree with the gate, and a
reading that is missing never lets it pass. Hardware to which none of a state's checks applies
(`not_applicable` of its file) has no such state: one GPU has two of them, NVLink 4 no nvlsm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from b200kit.node.state.expectation import Expectation
from b200kit.node.state.mend import MANAGER
from b200kit.node.state.verdict import Action
from b200kit.node.state.view import StateView

PERSISTENCE = "nvidia-persistenced.service"
AT_REST = ("inactive", "failed")
"""Active states of a unit that nobody is starting or stopping."""
COMPLETED = 3
"""NVML_GPU_FABRIC_STATE_COMPLETED."""

_WITH_RESET = "with a reset of all GPUs and no replica running (b200 repair)"
Act = tuple[str, ...]
"""A command that helps, run on the node as it stands here."""
Help = Callable[[Expectation, StateView], list[Act]]


@dataclass(frozen=True)
class FabricState:
    """One state.

    `checks` judge it, only by findings about `parts` where that is given. `share` of the deadline
    is how long it may last; 0 where waiting helps nothing. `remedy` is for a person, once it has
    lasted longer; {kernel} in it is the node's kernel release.
    """

    name: str
    waits_for: str
    checks: tuple[str, ...]
    share: float
    action: Action
    remedy: str
    source: str
    parts: tuple[str, ...] = ()
    help: Help | None = None


def load(*names: str) -> Help:
    """Help by loading those of some modules that are known not to be loaded."""

    def acts(expect: Expectation, view: StateView) -> list[Act]:
        del expect
        return [("modprobe", name) for name in names if view.is_null("modules", name)]

    return acts


def start(unit: str) -> Help:
    """Help by starting a unit that is at rest; one that somebody masked is left alone.

    So is a fabric manager that GPUs outlived: they are reset before it starts.
    """

    def acts(expect: Expectation, view: StateView) -> list[Act]:
        del expect
        may = _rests(unit, view) and not (unit == MANAGER and outlived(view))
        return [("systemctl", "start", "--no-block", unit)] if may else []

    return acts


def _rests(unit: str, view: StateView) -> bool:
    active, loaded = (view.reading("units", unit, key) for key in ("active", "load"))
    return active in AT_REST and loaded == "loaded"


def outlived(view: StateView) -> bool:
    """Whether GPUs are registered with a fabric manager that ran in this boot and does not run.

    Another one that is started beside them breaks their multicast (reset_gpus.py).
    """
    ran = bool(view.known(str, "units", MANAGER, "invocation_id"))
    registered = any(gpu.known(int, "fabric", "state") == COMPLETED for gpu in view.known_gpus)
    return ran and registered and _rests(MANAGER, view)


STATES = (
    FabricState(
        name="gpus on the bus",
        waits_for="every GPU of the hardware on the PCI bus",
        checks=("identity.device", "identity.pci-count"),
        share=0,
        action=Action.POWER_CYCLE,
        remedy="the whole node; a GPU that stays away has to be replaced",
        source="by PCI id, as product data is hidden on some hosts (gpu-driver-container#606)",
    ),
    FabricState(
        name="driver",
        waits_for="the nvidia module of the inventory's version on every GPU",
        checks=(
            "identity.nvml-count",
            "nvml.available",
            "nvml.gpu",
            "pci.driver",
            "driver.loaded",
            "driver.version",
            "driver.options",
        ),
        share=0.3,
        action=Action.REBOOT,
        remedy="if it is the same again, ask `dkms status` for kernel {kernel} and "
        "`journalctl -k` for the reason",
        source="nothing above works without it; the modules are loaded at boot",
        help=load("nvidia"),
    ),
    FabricState(
        name="mlx5",
        waits_for="modules mlx5_core and mlx5_ib, which drive the NVSwitches' functions",
        checks=("modules.loaded",),
        parts=("mlx5_core", "mlx5_ib"),
        share=0.1,
        action=Action.REBOOT,
        remedy="install linux-modules-extra-{kernel} (Ubuntu's cloud kernels come without the "
        "module) or take it off a blacklist, then reboot",
        source="NVIDIA/gpu-driver-container _assert_nvlink5_system; NVIDIA/gpu-operator#2781",
        help=load("mlx5_core", "mlx5_ib"),
    ),
    FabricState(
        name="ib_umad",
        waits_for="module ib_umad, through which the switches are spoken to",
        checks=("modules.loaded",),
        parts=("ib_umad",),
        share=0.1,
        action=Action.REBOOT,
        remedy="take ib_umad off what /etc/modprobe.d forbids, or install "
        "linux-modules-extra-{kernel}, then reboot",
        source="spectrocloud/CanvOS#700: the fabric manager's precheck refuses without it",
        help=load("ib_umad"),
    ),
    FabricState(
        name="management port",
        waits_for="a port of the NVSwitches that may run a subnet manager",
        checks=("nics.switch-management", "nics.management-port"),
        share=0.25,
        action=Action.POWER_CYCLE,
        remedy="the whole node, so that the switches' bridge restarts; to a virtual machine "
        "pass all of its functions",
        source="siderolabs/extensions#717, #893; HGX shared NVSwitch integration guide 2.5.2",
    ),
    FabricState(
        name="nvlsm",
        waits_for="the NVLink subnet manager, installed",
        checks=("fabric.nvlsm-installed",),
        share=0,
        action=Action.RESTART_SERVICE,
        remedy=f"{MANAGER} {_WITH_RESET}, after apt-get install --reinstall nvlsm",
        source="Fabric Manager user guide in siderolabs/extensions#717: needed from B200 on",
    ),
    FabricState(
        name="versions",
        waits_for="a fabric manager of exactly the loaded driver's version",
        checks=("packages.lockstep",),
        share=0,
        action=Action.REBOOT,
        remedy="by b200 deploy, which installs the set of one version first",
        source="NVIDIA/gpu-operator#544: it refuses a driver of another version",
    ),
    FabricState(
        name="persistence daemon",
        waits_for=f"{PERSISTENCE}, which keeps the GPUs initialized",
        checks=("services.active",),
        parts=(PERSISTENCE,),
        share=0.25,
        action=Action.RESTART_SERVICE,
        remedy=f"{PERSISTENCE}, once the fault in its journal is repaired",
        source="NVIDIA/deepops nvidia-dgx; it fails where the driver is not there yet",
        help=start(PERSISTENCE),
    ),
    FabricState(
        name="fabric manager",
        waits_for=f"{MANAGER}, in bare metal mode",
        checks=("services.active", "fabric.units", "fabric.mode"),
        parts=(MANAGER,),
        share=0.5,
        action=Action.RESTART_SERVICE,
        remedy=f"{MANAGER} {_WITH_RESET}, once the fault in its journal is repaired or a mask is "
        "taken off",
        source="NVIDIA/gpu-driver-container#383: by its unit, never by its start script",
        help=start(MANAGER),
    ),
    FabricState(
        name="subnet manager",
        waits_for="nvlsm, which the fabric manager starts",
        checks=("fabric.nvlsm",),
        share=0.25,
        action=Action.RESTART_SERVICE,
        remedy=f"{MANAGER} {_WITH_RESET}; if nvlsm ends again, reinstall it",
        source="siderolabs/extensions#717: without it no GPU gets past in progress",
    ),
    FabricState(
        name="links",
        waits_for="all NVLinks of every GPU",
        checks=("nvlink.links",),
        share=0.25,
        action=Action.RESET_GPU,
        remedy="then reboot; if it returns, replace it",
        source="vllm-project/vllm#16336; they train by themselves, whatever the fabric does",
    ),
    FabricState(
        name="registration",
        waits_for="every GPU completed, successful and healthy",
        checks=("fabric.state", "fabric.status", "fabric.health", "fabric.mask"),
        share=1,
        action=Action.RESTART_SERVICE,
        remedy=f"{MANAGER} {_WITH_RESET}, then reboot; replace a GPU that alone stays behind",
        source="NVIDIA/gpu-operator#2781; Azure/azhpc-images#506; dra-driver-nvidia-gpu#626",
    ),
    FabricState(
        name="peers",
        waits_for="peer-to-peer access between all GPUs, as NVML has it",
        checks=("p2p.read", "p2p.write", "p2p.nvlink"),
        share=0.1,
        action=Action.RESET_GPU,
        remedy=f"all of them, {MANAGER} stopped meanwhile and no replica running "
        "(b200 repair); or reboot",
        source="Dstack-TEE/dstack#1167: completed and successful, and no peer is reached",
    ),
)
