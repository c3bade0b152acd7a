"""Which services a node restarts by itself for a confirmed fault, and how often. Pure.

Nothing unless the inventory says so, and then the first level of the ladder alone: a service that
a fault names and that computes nothing itself. All else waits for reprovision.py, and a person. For
a fabric manager all replicas stop and all GPUs are reset (b200kit/node/maintenance/reset_gpus.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from b200kit.node.lib.documents import NEEDED, Range
from b200kit.node.state import watch
from b200kit.node.state.verdict import Action
from b200kit.node.state.watch import NodeFault

LEVEL = "restart-services"
MANAGER = "nvidia-fabricmanager.service"
SERVICES = (MANAGER, "nvidia-persistenced.service")
SETTLES_S = 60.0
"""How long a restarted service gets before a health check may ask for it again. Ours: the fabric of
a node trains for seconds, and `watchdog.clear` health checks end a fault."""


@dataclass(frozen=True)
class MendRules:
    """*mends*: levels that the inventory allows. At most *mend_most* within *mend_window_s*."""

    mends: tuple[str, ...] = ()
    mend_most: Annotated[int, Range(0)] = 2
    mend_window_s: Annotated[float, Range(0, above=True)] = 3600.0


@dataclass(frozen=True)
class MendDue:
    """A service to restart, why, and the replicas that must be out and idle before."""

    unit: str
    why: str
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class MendTries:
    """When services were restarted: seconds since the boot *boot_id*."""

    schema: ClassVar[str] = "b200kit/mends/1"

    boot_id: str
    times: tuple[float, ...] = field(default=(), metadata=NEEDED)


def due(
    faults: Collection[NodeFault], takes_out: Collection[str], rules: MendRules
) -> list[MendDue]:
    """What confirmed faults ask to be restarted, each service once; the rest is for others.

    A fault that takes no replica out is not mended: its replicas would be in use.
    """
    found: dict[str, MendDue] = {}
    for fault in faults if LEVEL in rules.mends else ():
        unit, asks = fault.finding.part, fault.finding.action is Action.RESTART_SERVICE
        if asks and unit in SERVICES and watch.out([fault], takes_out):
            found.setdefault(unit, MendDue(unit, fault.finding.summary, fault.replicas))
    return list(found.values())


def refusal(tries: MendTries, rules: MendRules, now: float, looked: float) -> str | None:
    """Why nothing may be restarted now; "" where it is only too early to know. None: it may.

    *looked*: when the last health check began, seconds since the boot.
    """
    recent = [at for at in tries.times if now - at < rules.mend_window_s]
    if len(recent) >= rules.mend_most:
        return f"restarted {len(recent)} times within {rules.mend_window_s:g} s: left to a person"
    return "" if recent and looked < recent[-1] + SETTLES_S else None


def tried(tries: MendTries, rules: MendRules, now: float) -> MendTries:
    """One more; those that the window has left behind are forgotten."""
    kept: Sequence[float] = [at for at in tries.times if now - at < rules.mend_window_s]
    return MendTries(tries.boot_id, (*kept, now))


def ended(tries: MendTries, now: float) -> MendTries:
    """The last one counts from its end: what was seen while it was at work asks for no other."""
    return MendTries(tries.boot_id, (*tries.times[:-1], now))
