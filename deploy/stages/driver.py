"""Driver: the lockstep set at one exact version, pinned first, held after, running after a reboot.

Fabric manager, NSCQ and NVSDM must equal the driver to the last digit, or the fabric manager
refuses ("interface version X don't match with driver version Y", gpu-operator#544). nvlsm has
versions of its own. Blackwell data-centre GPUs run only with the open kernel modules.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.core import drift
from deploy.core.drift import Package, Unit
from deploy.core.layout import Replica
from deploy.core.spec import branch
from deploy.run import Node
from deploy.stages.base import Change, Stage, Wanted, converge, install_change

UNITS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
# From branch 580 on the vendor's package names carry no branch (gpu-driver-container scripts).
_UNSUFFIXED_FROM = 580


def lockstep(version: str) -> tuple[Package, ...]:
    """The packages that carry the driver's version, in the vendor's names for its branch."""
    suffix = "" if branch(version) >= _UNSUFFIXED_FROM else f"-{branch(version)}"
    names = (
        "nvidia-open",
        f"nvidia-fabricmanager{suffix}",
        f"libnvidia-nscq{suffix}",
        f"libnvsdm{suffix}",
    )
    return tuple(Package(name, version, hold=True) for name in names)


def _pinning(version: str) -> Package:
    # Installed before anything it pins, so that no dependency is resolved to a newer branch.
    return Package(f"nvidia-driver-pinning-{version}", hold=True)


def wanted(node: Node, layout: Sequence[Replica]) -> Wanted:
    """The pinning package, the lockstep set and nvlsm, held; units enabled for the next boot."""
    del layout
    version = node.spec.driver
    packages = (
        _pinning(version),
        *lockstep(version),
        Package("nvlsm", node.spec.nvlsm, hold=True),
    )
    # Enabled, not started: without its modules and the driver the fabric manager only fails.
    return Wanted(packages=packages, units=tuple(Unit(name, active=False) for name in UNITS))


def plan(node: Node) -> list[Change]:
    """The pin as a transaction of its own, then the set."""
    target = wanted(node, ())
    wrong = drift.wrong_packages(target.packages, node.state or {})
    pin = _pinning(node.spec.driver)
    changes = [install_change([pin])] if pin in wrong else []
    rest = Wanted(
        packages=tuple(package for package in target.packages if package != pin),
        units=target.units,
    )
    return changes + converge(node, rest)


STAGE = Stage(name="driver", wanted=wanted, plan=plan)
