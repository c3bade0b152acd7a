"""A node without a deployment: what is judged of it, and what is named as left out."""

from __future__ import annotations

from b200kit.node.checks.judge import judge, registered
from b200kit.records.expected import WITHOUT_DEPLOYMENT, without_deployment
from tests.unit import states

LEFT_OUT = {
    *("bandwidth.all-reduce", "bandwidth.host", "bandwidth.memory", "bandwidth.peer"),
    *("clock.one-service", "clock.synchronized", "containers.cdi", "containers.reload-trap"),
    *("containers.runtimes", "fabric.nvlsm-installed", "host.firewall", "host.logs"),
    *("host.settings", "host.storage", "nics.management-port", "nvls.manager", "packages.held"),
    *("packages.origin", "restarts.automatic", "upgrades.automatic"),
    *("packages.versions", "pcie.acs", "placement.cpus", "placement.gpus", "placement.memory"),
    *("precision.validated", "proof.valid", "services.active", "serving.probe", "serving.running"),
    *("replays.rate", "serving.certificates", "serving.room", "serving.starting"),
    *(
        "watchdog.health",
        "watchdog.mark",
        "watchdog.replicas",
        "watchdog.service",
        "weights.proven",
    ),
}


def test_what_only_an_inventory_asks_for_is_left_out_and_nothing_else() -> None:
    table = without_deployment("hgx-b200", states.healthy())["hardware"]["not_applicable"]
    assert {name for name, why in table.items() if why == WITHOUT_DEPLOYMENT} == LEFT_OUT
    assert set(registered()) >= LEFT_OUT


def test_what_is_left_out_is_neither_passed_nor_read() -> None:
    state = states.healthy()
    verdict = judge(without_deployment("hgx-b200", state), state)
    assert {finding.check for finding in verdict.findings} & LEFT_OUT == set()
    assert set(verdict.not_applicable) >= LEFT_OUT


def test_quarantine_and_unfinished_packages_are_judged() -> None:
    state = states.healthy()
    judged = {f.check for f in judge(without_deployment("hgx-b200", state), state).blocking}
    assert judged == {"quarantine.mark", "host.dpkg", "driver.next-boot"}


def test_hardware_keeps_its_own_reasons() -> None:
    state = states.recorded("healthy-single-b200")
    table = without_deployment("single", state)["hardware"]["not_applicable"]
    assert table["nvlink.links"] != WITHOUT_DEPLOYMENT
