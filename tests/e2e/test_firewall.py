"""The firewall on real kernels' tables: tried before it is kept, and never shutting anybody out.

At night also what somebody changes by hand, which machines in memory decide, too.
"""

from __future__ import annotations

import json
import socket
import subprocess

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import (
    ROOT,
    Outcome,
    command,
    cursor,
    deploy,
    on,
    remote_commands,
    wait_for_boot,
)
from tests.lab.paths import BRIDGE_ADDRESS

NODE = "b200-1"
FIREWALL = {
    "allow": [
        {"port": 8000, "from": ["clients"]},
        {"port": 8080, "from": ["192.0.2.7"]},
    ],
    "networks": {"clients": [f"{BRIDGE_ADDRESS}/32", "2001:db8::/32"]},
    "rollback_s": 20,
}
DROP_IN = "/etc/systemd/system/b200-firewall.service.d/fault.conf"
# What a mistake in the rules would do, the moment they are loaded, by whichever way.
SHUTS_OUT = "nft insert rule inet b200kit input tcp dport 22 ct state new drop"
FAULT = f"""[Service]
ExecStartPost={SHUTS_OUT}
ExecReload={SHUTS_OUT}
"""
FOREIGN = "table inet somebody { chain input { type filter hook input priority 0; }; }"


def run(entry: str = "b200.py") -> Outcome:
    """A run whose inventory asks for the firewall."""
    return deploy(entry, "--data", f"firewall={json.dumps(FIREWALL)}")


def table() -> str:
    """Our table as the kernel lists it, without counters; empty without one."""
    return on(NODE, "nft -s list table inet b200kit 2>/dev/null || true")


def answers(port: int) -> str:
    """What this machine, one of the clients, gets from a port of the node."""
    address = next(h["address"] for h in lab.status()["hosts"] if h["name"] == NODE)
    try:
        socket.create_connection((address, port), timeout=2).close()
    except TimeoutError:
        return "nothing"
    except ConnectionRefusedError:
        return "refused"
    return "accepted"


@pytest.fixture(scope="module")
def killed(live: Live) -> dict[str, str]:
    """A node on which the rules shut everybody out, and a run that was killed with them on.

    What the node answers then, and when it has helped itself.
    """
    live(1)
    on(NODE, "journalctl --flush")
    on(NODE, f"mkdir -p $(dirname {DROP_IN}) && printf '{FAULT}' > {DROP_IN}")
    words = command("b200.py", "--data", f"firewall={json.dumps(FIREWALL)}")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, cwd=ROOT, stdout=quiet, stderr=quiet) as controller:
        loaded = "nft list table inet b200kit 2>/dev/null | grep -q 'new drop'"
        on(NODE, f"until {loaded}; do sleep 0.1; done")
        controller.kill()
    during = answers(22)
    on(NODE, "while nft list table inet b200kit >/dev/null 2>&1; do sleep 0.2; done")
    return {"during": during, "after": answers(22), "table": table()}


@pytest.fixture(scope="module")
def shut_out(killed: dict[str, str]) -> Outcome:
    """A run on that node to its end."""
    return run()


@pytest.fixture(scope="module")
def after_fault(shut_out: Outcome) -> dict[str, str]:
    """What the node had when that run ended."""
    return {
        "table": table(),
        "kept": on(NODE, "cat /etc/b200kit/firewall.nft 2>&1 || true"),
        "enabled": on(NODE, "systemctl is-enabled b200-firewall.service || true"),
        "ssh": answers(22),
        "trial": on(NODE, "ls /run/b200kit"),
        "timer": on(NODE, "systemctl list-timers --no-legend --no-pager b200-firewall-back.timer"),
    }


@pytest.fixture(scope="module")
def repaired(after_fault: dict[str, str]) -> Outcome:
    """The run after the fault was taken away."""
    on(NODE, f"rm {DROP_IN} && systemctl daemon-reload")
    return run()


def test_node_whose_controller_died_with_rules_on_trial_helps_itself(
    killed: dict[str, str],
) -> None:
    assert killed == {"during": "nothing", "after": "accepted", "table": ""}


def test_rules_that_shut_everybody_out_are_taken_back_and_the_run_says_so(
    shut_out: Outcome,
) -> None:
    assert shut_out.code == 1
    message = shut_out.described(NODE)
    assert shut_out.host(NODE)["stage"] == "firewall", message
    assert "the new rules let no new connection in" in message
    assert "the node took them back after 20 s, and is as it was" in message
    assert len([line for line in shut_out.stderr.splitlines() if "FAILED" in line]) == 1


def test_node_is_then_as_it_was_before(after_fault: dict[str, str]) -> None:
    assert after_fault["table"] == ""
    assert "No such file" in after_fault["kept"]
    assert after_fault["enabled"] == "disabled"
    assert after_fault["ssh"] == "accepted"
    assert "firewall-trial.nft" not in after_fault["trial"]
    assert after_fault["timer"] == ""


def test_run_after_the_repair_completes(repaired: Outcome) -> None:
    assert repaired.code == 0, repaired.said[-3000:]
    assert repaired.outcome(NODE) == "live"
    stage = next(s for s in repaired.host(NODE)["stages"] if s["name"] == "firewall")
    assert stage["detail"] == "in force, proven over a new connection"


def test_no_timer_is_left_that_would_take_the_rules_back(repaired: Outcome) -> None:
    assert on(NODE, "systemctl list-timers --no-legend --no-pager b200-firewall-back.timer") == ""
    assert on(NODE, "ls /run/b200kit | grep firewall-[tb] || true") == ""


def test_kernel_lists_exactly_what_was_asked(repaired: Outcome) -> None:
    rules = repaired.host(NODE)["state"]["firewall"]
    assert rules["ssh_ports"] == [22]
    assert rules["rules"][0] == "chain input hook input prio 0 policy drop"
    assert f"ip saddr {BRIDGE_ADDRESS} tcp dport 8000 accept" in rules["rules"]
    assert "ip6 saddr 2001:db8::/32 tcp dport 8000 accept" in rules["rules"]


def test_ports_answer_those_who_may_and_nobody_else(repaired: Outcome) -> None:
    listen = "systemd-run --quiet --unit=listen-%d python3 -m http.server %d"
    for port in (8080, 9999):
        on(NODE, listen % (port, port))
        on(NODE, f"until ss -ltnH sport = :{port} | grep -q .; do sleep 0.05; done")
    assert answers(22) == "accepted"
    # Nothing listens there, as the gateway is on loopback: the node itself says so.
    assert answers(8000) == "refused"
    assert answers(8080) == "nothing"
    assert answers(9999) == "nothing"
    on(NODE, "systemctl stop listen-8080 listen-9999")


@pytest.mark.long
def test_second_run_changes_nothing_with_two_commands(repaired: Outcome) -> None:
    before = cursor(NODE)
    again = run()
    assert again.code == 0, again.said[-2000:]
    assert again.host(NODE)["changes"] == 0, again.host(NODE)["stages"]
    assert remote_commands(NODE, before) == 2


@pytest.mark.long
def test_rule_somebody_added_by_hand_is_seen_and_mended(repaired: Outcome) -> None:
    wanted = table()
    on(NODE, f"nft '{FOREIGN}' && nft add rule inet b200kit input tcp dport 9999 accept")
    checked = run("check.py")
    assert checked.code == 1
    assert "has 'tcp dport 9999 accept'" in checked.stdout
    again = run()
    assert again.code == 0, again.said[-2000:]
    changed = [s["name"] for s in again.host(NODE)["stages"] if s["changes"]]
    assert changed == ["firewall"]
    assert table() == wanted
    # Nobody else's table was touched by it.
    assert "chain input" in on(NODE, "nft list table inet somebody")


@pytest.mark.long
def test_table_that_is_gone_is_seen_and_mended(repaired: Outcome) -> None:
    on(NODE, "nft delete table inet b200kit")
    assert "the firewall is not loaded: everything may connect" in run("check.py").stdout
    assert run().code == 0
    assert "policy drop" in table()


def test_boot_loads_the_rules_before_the_network(repaired: Outcome) -> None:
    wanted = table()
    before = on(NODE, "cat /proc/sys/kernel/random/boot_id")
    lab.run(NODE, ["systemd-run", "--on-active=1", "systemctl", "reboot"])
    wait_for_boot(NODE, before)
    assert table() == wanted
    order = on(NODE, "systemctl show -P Before b200-firewall.service")
    assert "network-pre.target" in order.split()


def test_unit_is_sound(repaired: Outcome) -> None:
    done = lab.run(NODE, ["systemd-analyze", "verify", "--man=no", "b200-firewall.service"])
    assert "b200-firewall" not in done.stderr, done.stderr
