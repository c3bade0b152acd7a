"""Containers get their GPUs by CDI. Judged only where the inventory asks for a runtime."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule, unread, within
from b200kit.node.checks.judge import check
from b200kit.node.facts import cdi_support
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread

NOT_ASKED = "the inventory asks for no container runtime"
_CDI = rule(f"every GPU by name in {cdi_support.SPEC}", "what nvidia-cdi-refresh generates")
_ON = rule("CDI on", "container_runtimes of the inventory")
_BY_CDI = rule(
    "GPUs by CDI", "a daemon-reload undoes the legacy hook (nvidia-container-toolkit#48)"
)


@check("containers.cdi")
def cdi(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The CDI specification names every GPU, and nothing that is gone since it was made."""
    if not expect.container_runtimes():
        yield passed(NOT_ASKED)
        return
    found = []
    for path, fault in cdi_support.cdi_faults(state):
        if isinstance(fault, Unread):
            found.append(unread(fault, part=path))
        else:
            summary, remedy = f"CDI specification {path}: {fault}", cdi_support.remedy(path, state)
            act = Action.RESTART_SERVICE if path == cdi_support.SPEC else Action.NONE
            found.append(failed(summary, fault, _CDI, act, part=path, remedy=remedy))
    yield from found or [passed("the CDI specification names every GPU", _CDI)]


@check("containers.runtimes")
def runtimes(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every container runtime of the inventory is there and gives GPUs by CDI."""
    requested = expect.container_runtimes()

    def unable(name: str) -> Iterator[Finding]:
        fault = cdi_support.runtime_fault(name, state)
        if fault:
            summary = f"container runtime {name}: {fault}"
            yield failed(summary, fault, _ON, Action.NONE, part=name)

    found = [finding for name in requested for finding in within(unable(name), part=name)]
    text = f"{', '.join(requested)} give GPUs by CDI" if requested else NOT_ASKED
    yield from found or [passed(text, _ON if requested else None)]


@check("containers.reload-trap")
def reload_trap(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No running docker container loses its GPUs at the next `systemctl daemon-reload`."""
    if "docker" not in expect.container_runtimes():
        yield passed("the inventory does not ask for docker")
        return
    risks = cdi_support.at_risk(state)
    for name, how in risks.items():
        summary = (
            f"container {name} got its GPUs by {how}: a systemctl daemon-reload takes them away "
            '("Failed to initialize NVML: Unknown Error"); '
            f"run it with --device {cdi_support.KIND}=all"
        )
        yield failed(summary, how, _BY_CDI, Action.NONE, part=name)
    old = cdi_support.old_runc(state)
    if old:
        summary = f"runc {old} lets a daemon-reload take the GPUs from CDI containers, too"
        yield noted(summary, None, old, rule("1.1.7 or newer", "opencontainers/runc#3708"))
    if not risks:
        yield passed("no running container depends on the legacy hook", _BY_CDI)
