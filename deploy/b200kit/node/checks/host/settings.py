"""Settings of the operating system, each as it is in force and not as some file says.

What is asked for is data: b200kit/catalog/settings.yaml and the inventory's key `settings`. A
setting is its own subject, so that a waiver can name one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, passed, unread
from b200kit.node.checks.judge import check
from b200kit.node.host.settings_in_force import Effect, SettingState, effects
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread


@check("host.settings")
def settings(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every setting of the operating system that the inventory manages is in force."""
    requested = expect.settings()
    mine = [e for e in effects(requested, state) if requested.is_null(e.name, "judged_by")]
    for effect in mine:
        source = requested.known(str, effect.name, "source") or "no source given"
        found = judged(effect, Expected(effect.desired, "", source))
        yield replace(found, subject=f"setting {effect.name}", part=effect.name)
    if not mine:
        yield passed("the inventory manages no setting")


def judged(effect: Effect, expected: Expected) -> Finding:
    """A setting as a finding. The remedy is another run, which none of the actions is."""
    summary = f"setting {effect.name} {effect.text}"
    if effect.standing is SettingState.UNREAD:
        return unread(Unread(f"setting {effect.name}", effect.read))
    if effect.standing is SettingState.WRONG:
        return failed(f"{summary}; b200 deploy sets it", effect.read, expected, Action.NONE)
    return replace(passed(summary, expected), read=effect.read)
