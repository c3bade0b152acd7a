"""The firewall as the kernel has it, not as a file says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.facts import nft_rules
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured

WHY = "firewall of the inventory: deny all but SSH, ICMP and what is allowed"


@check("host.firewall")
def firewall_in_force(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel denies what comes in, but for SSH and what the inventory allows."""
    asked = expect.asked("firewall", list)
    if asked is None:
        yield passed("no firewall is asked for")
        return
    view = state.at("firewall", "rules")
    rules = view.get(list)
    if view.raw() is None:
        expected = rule(f"table inet {nft_rules.TABLE}", WHY)
        summary = "the firewall is not loaded: everything may connect"
        yield failed(summary, "no such table", expected, Action.RESTART_SERVICE)
    elif isinstance(rules, Unmeasured):
        yield unread("the firewall", rules)
    else:
        seen = [str(line) for line in rules]
        wanted = nft_rules.lines(asked, nft_rules.ports_of_ssh(seen))
        found = [*differences(seen, wanted), *ssh(state, seen)]
        count = len(wanted) - 1
        yield from found or [passed(f"the firewall denies all but {count} rules", rule(count, WHY))]


def differences(seen: Sequence[str], wanted: Sequence[str]) -> Iterator[Finding]:
    """A finding when the kernel's rules are not those asked for."""
    missing, extra = Counter(wanted) - Counter(seen), Counter(seen) - Counter(wanted)
    differences = [f"does not have {line!r}" for line in missing] + [
        f"has {line!r}" for line in extra
    ]
    if not differences and list(seen) != list(wanted):
        differences = ["has its rules in another order"]
    if differences:
        more = f" and {len(differences) - 1} more differences" if len(differences) > 1 else ""
        summary = f"the firewall in the kernel is not as asked: it {differences[0]}{more}"
        yield failed(
            summary, "; ".join(differences), rule("; ".join(wanted), WHY), Action.RESTART_SERVICE
        )


def ssh(state: StateView, seen: Sequence[str]) -> Iterator[Finding]:
    """A finding when the port for SSH is not one on which sshd listens: nobody could log in.

    At boot sshd may not be up yet; then there is nothing to compare with.
    """
    reading = state.get(list, "firewall", "ssh_ports")
    if isinstance(reading, Unmeasured):
        yield unread("the ports of SSH", reading)
        return
    closed = [str(port) for port in reading if port not in nft_rules.ports_of_ssh(seen)]
    if closed:
        summary = f"sshd listens on port {', '.join(closed)}, which the firewall keeps shut"
        expected = rule("SSH on every port it listens on", WHY)
        yield failed(summary, f"shut: {', '.join(closed)}", expected, Action.NONE)
