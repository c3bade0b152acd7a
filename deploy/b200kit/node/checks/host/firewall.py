"""The firewall as the kernel has it, not as a file says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.facts import nft_rules
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

WHY = "firewall of the inventory: deny all but SSH, ICMP and what is allowed"


@check("host.firewall")
def firewall_in_force(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel denies what comes in, but for SSH and what the inventory allows."""
    requested = expect.requested(list, "firewall")
    if requested is None:
        yield passed("no firewall is asked for")
    elif state.is_null("firewall", "rules"):
        expected = rule(f"table inet {nft_rules.TABLE}", WHY)
        summary = "the firewall is not loaded: everything may connect"
        yield failed(summary, "no such table", expected, Action.RESTART_SERVICE)
    else:
        observed = [str(line) for line in state.get(list, "firewall", "rules")]
        desired = nft_rules.lines(requested, nft_rules.ports_of_ssh(observed))
        found = [*differences(observed, desired), *within(ssh(state, observed))]
        count = len(desired) - 1
        yield from found or [passed(f"the firewall denies all but {count} rules", rule(count, WHY))]


def differences(observed: Sequence[str], desired: Sequence[str]) -> Iterator[Finding]:
    """A finding when the kernel's rules are not those asked for."""
    missing, extra = Counter(desired) - Counter(observed), Counter(observed) - Counter(desired)
    differences = [f"does not have {line!r}" for line in missing] + [
        f"has {line!r}" for line in extra
    ]
    if not differences and list(observed) != list(desired):
        differences = ["has its rules in another order"]
    if differences:
        more = f" and {len(differences) - 1} more differences" if len(differences) > 1 else ""
        summary = f"the firewall in the kernel is not as asked: it {differences[0]}{more}"
        yield failed(
            summary, "; ".join(differences), rule("; ".join(desired), WHY), Action.RESTART_SERVICE
        )


def ssh(state: StateView, observed: Sequence[str]) -> Iterator[Finding]:
    """A finding when the port for SSH is not one on which sshd listens: nobody could log in.

    At boot sshd may not be up yet; then there is nothing to compare with.
    """
    ports, allowed = state.get(list, "firewall", "ssh_ports"), nft_rules.ports_of_ssh(observed)
    closed = [str(port) for port in ports if port not in allowed]
    if closed:
        summary = f"sshd listens on port {', '.join(closed)}, which the firewall keeps shut"
        expected = rule("SSH on every port it listens on", WHY)
        yield failed(summary, f"shut: {', '.join(closed)}", expected, Action.NONE)
