"""Modes and clocks of every GPU: persistence, MIG, slowdowns."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.core.checks.makers import is_set
from deploy.core.checks.tools import each_gpu, passed, value
from deploy.core.expectation import Expectation, Expected
from deploy.core.judge import check
from deploy.core.state import GpuView, StateView
from deploy.core.verdict import Action, Finding

check("mode.persistence")(
    is_set(
        ("persistence",),
        "mode.persistence",
        "has persistence mode off: nvidia-persistenced does not hold it",
        Action.RESTART_SERVICE,
    )
)
check("mode.mig")(is_set(("mig",), "mode.mig", "is split by MIG", Action.RESET_GPU))


@check("clocks.slowdown")
def slowdown(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU is slowed down by its hardware. A power cap under load is normal."""
    table = expect.hardware("clocks.bad_reasons", dict)
    reasons = {int(bit): str(name) for bit, name in table.value.items()}
    expected = Expected("none of " + ", ".join(reasons.values()), "", table.source)

    def told(gpu: GpuView, mask: int) -> str:
        names = [name for bit, name in reasons.items() if mask & bit]
        return f"{gpu.subject} is slowed down: {', '.join(names)}"

    def look(gpu: GpuView) -> list[Finding]:
        return value(
            "clocks event reasons",
            gpu.number("clocks_event_reasons"),
            lambda mask: not any(mask & bit for bit in reasons),
            lambda mask: told(gpu, mask),
            expected,
            Action.POWER_CYCLE,
            gpu,
        )

    return each_gpu(state, look, passed("no GPU is slowed down by its hardware", expected))
