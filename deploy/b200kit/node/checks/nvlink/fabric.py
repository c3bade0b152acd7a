"""NVLink fabric registration of every GPU.

State alone is not evidence: it stays Completed with a bad status (Azure/azhpc-images#506), with an
unhealthy summary, and after the fabric manager died. On HGX B200 a clique id of 0 and a cluster
UUID of zeroes are healthy; that they are the same on all GPUs is what counts.

The health mask has the layout of nvml.h NVML_GPU_FABRIC_HEALTH_MASK_*. A mask of 0xAA says FALSE
four times and 0x80 once: both are healthy. Each field has values that are good; any other is not,
also one that nvml.h does not define, and so is a bit of no field. Which of the defined ones are a
fault, the hardware says: DCGM (modules/health/DcgmHealthWatch.cpp) judges the first five fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from b200kit.node.checks.findings import each_gpu, failed, noted, passed
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import REGISTRATION
from b200kit.node.checks.rows import GROUPS
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread

STATES = {int(n): word for n, word in GROUPS["registration"]["fabric.state"]["meanings"].items()}
SUMMARIES = {0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited capacity"}
UNKNOWN_SUMMARY = 0


@dataclass(frozen=True)
class MaskField:
    """A field of the mask, from `shift` on; `words` are its values, those in `good` are fine."""

    name: str
    shift: int
    words: tuple[str, ...] = ("not supported", "true", "false")
    good: tuple[int, ...] = (0, 2)
    bits: int = 2

    def value(self, mask: int) -> int:
        """Its number in a mask."""
        return mask >> self.shift & (1 << self.bits) - 1

    def word(self, mask: int) -> str:
        """Its value in words."""
        number = self.value(mask)
        return self.words[number] if number < len(self.words) else f"code {number}"


FIELDS = (
    MaskField("degraded bandwidth", 0),
    MaskField("route recovery in progress", 2),
    MaskField("route unhealthy", 4),
    MaskField("access timeout recovery", 6),
    MaskField(
        "incorrect configuration",
        8,
        (
            "not supported",
            "none",
            "incorrect system GUID",
            "incorrect chassis serial number",
            "no partition",
            "insufficient NVLinks",
            "incompatible GPU firmware",
            "invalid location",
            "GPU state invalid",
        ),
        good=(0, 1),
        bits=4,
    ),
    MaskField("partition assigned", 12, good=(0, 1)),
    MaskField("fabric manager", 14, ("not supported", "connected", "disconnected"), good=(0, 1)),
)
_KNOWN_BITS = 16


def decode_mask(mask: int) -> dict[str, str]:
    """Every field's name and word, and the bits that are of none, for people."""
    fields = {field.name: field.word(mask) for field in FIELDS}
    unknown = mask >> _KNOWN_BITS << _KNOWN_BITS
    return {**fields, **({"unknown bits": f"{unknown:#x}"} if unknown else {})}


def mask_faults(mask: int, judged: Collection[str]) -> dict[str, bool]:
    """What is not good, in words, each with whether it is a fault.

    What nobody knows to be good always is one; a defined value of a field that is not `judged` is
    none.
    """
    words = decode_mask(mask)
    found = {}
    for field in FIELDS:
        number = field.value(mask)
        if number not in field.good:
            defined = number < len(field.words)
            found[f"{field.name}: {words[field.name]}"] = field.name in judged or not defined
    if bits := words.get("unknown bits"):
        found[f"unknown bits: {bits}"] = True
    return found


@check("fabric.health", REGISTRATION)
def health(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The health summary; "not supported" of older drivers is unknown and does not block."""
    expected = expect.hardware("fabric.health")
    known = {gpu.known(int, "fabric", "health_summary") for gpu in state.known_gpus} - {None}

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        summary = gpu.number("fabric", "health_summary")
        if summary == UNKNOWN_SUMMARY and known != {UNKNOWN_SUMMARY}:
            raise Unread("fabric.health_summary", "the driver gives that of other GPUs alone")
        if summary == UNKNOWN_SUMMARY:
            unknown = f"{gpu.subject}: fabric health is unknown, as this driver gives no summary"
            yield noted(unknown, gpu, SUMMARIES[UNKNOWN_SUMMARY], expected)
        elif summary != expected.value:
            text = f"{gpu.subject} reports its fabric health as {SUMMARIES.get(summary, summary)}"
            read = f"fabric health summary {summary}"
            yield failed(text, read, expected, Action.RESET_GPU, gpu)

    return each_gpu(state, check_gpu, passed("fabric health is not bad on any GPU", expected))


@check("fabric.mask", REGISTRATION)
def mask(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every field of the health mask; a mask can disprove health, never prove it."""
    expected = expect.words("fabric.mask")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        reading = gpu.number("fabric", "health_mask")
        found = mask_faults(reading, expected.value)
        if not found:
            return
        read = f"{reading:#x}: {', '.join(f'{k} {v}' for k, v in decode_mask(reading).items())}"
        text = f"{gpu.subject} reports in its fabric health mask: {', '.join(found)}"
        if any(found.values()):
            yield failed(text, read, expected, Action.RESET_GPU, gpu)
        else:
            yield noted(text, gpu, read, expected)

    return each_gpu(
        state, check_gpu, passed("no field of the fabric health masks is bad", expected)
    )
