"""The agent's file: all that is known of a node while it serves, as others read it. Pure.

b200-agent alone writes it, after each health check and each act, in one step, its signature beside
it. It takes up its own state from it again; whoever has no rights (metrics, the node's share, the
hook), the observation, and whoever verifies a proof read nothing else. Every part says when it was
taken, by the boot's clock where that matters: a file of an agent that is stopped or dead grows old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from b200kit.node.lib.documents import NEEDED, Range
from b200kit.node.state.event import Event
from b200kit.node.state.mend import MendTries
from b200kit.node.state.proof import NodeProof
from b200kit.node.state.watch import HealthCheck
from b200kit.node.state.watchdog import ReplicaState

PATH = "/var/lib/b200kit/agent/agent.json"
UNIT = "b200-agent.service"
TEXTFILES = "/var/lib/prometheus/node-exporter"
"""Where Debian's and Ubuntu's prometheus-node-exporter reads the texts of others."""


@dataclass(frozen=True)
class RecordedLatency:
    """One figure of the node's own record: "ttft" or "itl", percentile, seconds."""

    metric: str
    percentile: Annotated[int, Range(0, 100)]
    seconds: Annotated[float, Range(0)]

    @property
    def allowed(self) -> float:
        """Share of the requests that may take longer."""
        return (100 - self.percentile) / 100


@dataclass(frozen=True)
class NodeNotes:
    """What others left on the node that its metrics are made of, as of the last health check.

    *quarantined*, *marked*: also where that cannot be read. *verdict_at*, *record_at*: "" where
    there is none that is understood.
    """

    quarantined: bool = False
    marked: bool = False
    verdict_at: str = ""
    record_at: str = ""
    record: tuple[RecordedLatency, ...] = ()


@dataclass(frozen=True)
class AgentState:
    """*boot_s*: when it was written, seconds since the boot *boot_id*.

    *health_holds_s*: seconds after which the last health check says nothing about now.

    *health_checks*: their number since the boot by how they ended. *replicas*: index to the number
    of its GPUs. *watchdog*: what is remembered of each replica, by index. *events*: the last ones.
    """

    schema: ClassVar[str] = "b200kit/agent/1"
    most_bytes: ClassVar[int] = 16 << 20

    node: str
    version: str
    boot_id: str
    boot_s: Annotated[float, Range(0)]
    written_at: str
    replicas: Mapping[str, int]
    health_holds_s: Annotated[float, Range(0)]
    health_checks: Mapping[str, int] = field(default_factory=dict)
    watch: HealthCheck | None = None
    watchdog: Mapping[str, ReplicaState] = field(default_factory=dict)
    mends: MendTries | None = None
    notes: NodeNotes = field(default_factory=NodeNotes)
    proof: NodeProof | None = None
    events: tuple[Event, ...] = ()
    last_event: Annotated[int, Range(0)] = field(default=0, metadata=NEEDED)

    def look_at(self, boot_id: str, boot_s: float) -> HealthCheck | None:
        """The last health check, as far as it says anything at a moment; None where it does not."""
        look = self.watch if self.boot_id == boot_id else None
        return look if look and boot_s - look.boot_s <= self.health_holds_s else None
