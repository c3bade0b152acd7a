"""Nothing changes the node by itself: archives, automatic upgrades, automatic restarts."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

_OWN = rule("the inventory's repositories", "parts of two archives refuse each other")
_OFF = rule("off", "a driver or a kernel must not change under a running server")
_LEFT = rule("left to b200kit", "a restarted fabric manager takes the fabric from what serves")


def _unasked(expect: Expectation, state: StateView) -> bool:
    """Whether none of it is judged: nothing was asked for, or this is a look at what serves."""
    return expect.is_missing("automatic") or state.is_missing("automatic")


@check("packages.origin")
def origin(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every package of the driver set is from a repository of the inventory."""
    if _unasked(expect, state) or not expect.get(list, "automatic", "sources"):
        yield passed("no repository is named to compare with")
        return
    own = {str(url).rstrip("/") for url in expect.get(list, "automatic", "sources")}

    def foreign(name: str) -> Iterator[Finding]:
        if state.is_null("packages", name):
            return  # judged by packages.versions
        version = state.text("packages", name, "version")
        sources = [str(url) for url in state.get(list, "automatic", "origins", name)]
        if not sources:
            summary = f"{name} {version} is in none of the node's repositories any more"
            yield noted(summary, None, "no repository", _OWN)
        elif not own.intersection(sources):
            summary = f"{name} {version} is from {', '.join(sources)}"
            yield failed(summary, ", ".join(sources), _OWN, Action.NONE, part=name)

    names = expect.driver_packages()
    found = [finding for name in names for finding in within(foreign(name))]
    yield from found or [passed(f"{len(names)} packages are from the inventory's repositories")]


@check("upgrades.automatic")
def upgrades(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Nothing upgrades packages by itself."""
    if _unasked(expect, state) or state.is_null("automatic", "upgrades"):
        yield passed("nothing upgrades packages by itself")
        return
    often = state.text("automatic", "upgrades")
    if often == "0":
        yield passed("automatic upgrades are off", _OFF)
    else:
        summary = f"automatic upgrades are on (APT::Periodic::Unattended-Upgrade is {often})"
        yield failed(summary, often, _OFF, Action.NONE)


@check("restarts.automatic")
def restarts(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """needrestart leaves what serves, and what it runs on, alone."""
    if _unasked(expect, state) or state.is_null("automatic", "restarts"):
        yield passed("nothing restarts services by itself")
        return
    units = [str(unit) for unit in state.get(list, "automatic", "restarts")]
    if units:
        summary = f"needrestart restarts {', '.join(units)} after an upgrade of what they use"
        yield failed(summary, ", ".join(units), _LEFT, Action.NONE)
    else:
        yield passed("needrestart leaves what serves alone", _LEFT)
