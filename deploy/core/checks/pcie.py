"""PCIe of every GPU. A lower generation at rest is power saving; a lost lane never is."""

from __future__ import annotations

from deploy.core.checks.makers import at_least
from deploy.core.judge import check
from deploy.core.verdict import Action

check("pcie.width")(
    at_least(("pcie", "width"), "pcie.width", "PCIe link width", Action.POWER_CYCLE)
)
check("pcie.generation")(
    at_least(("pcie", "max_generation"), "pcie.generation", "PCIe generation", Action.POWER_CYCLE)
)
