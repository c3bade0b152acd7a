"""Where models lie: mounted, from the right disks, every one of them there, with room."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.state.drift import is_present
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, View

WHY = "storage of the inventory"
GIB = 1 << 30


@check("host.storage")
def model_store(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Models lie on the file system asked for, with every disk of it there and room for them."""
    if expect.requested(dict, "storage") is None:
        yield passed("no storage is asked for")
        return
    where = expect.text("storage", "mount")
    disks = [str(path) for path in expect.requested(list, "storage", "disks") or []]
    found = [
        *within(mounted(disks, state, where)),
        *within(room(expect.at("storage"), state, where)),
    ]
    yield from found or [passed(f"{where} is as asked", rule(where, WHY))]


def mounted(disks: list[str], state: StateView, where: str) -> Iterator[Finding]:
    """Findings of the disks, where disks were named, then of what is mounted and made of them."""
    lost = [finding for path in disks for finding in within(gone(state, path))]
    yield from lost
    observed = state.at("storage", "mount")
    if observed.is_null():
        # Without its disks it cannot be mounted: that is reported already.
        if not lost:
            expected = rule(f"a mount at {where}", WHY)
            yield failed(f"nothing is mounted at {where}", "no mount", expected, Action.REBOOT)
        return
    device = observed.text("device")
    yield from within(read_only(observed, where))
    if disks and not lost:
        yield from members(state, where, device, disks)


def gone(state: StateView, path: str) -> Iterator[Finding]:
    """A finding for a disk that is not there."""
    if state.is_null("storage", "disks", path):
        summary = f"disk {path} is gone"
        yield failed(summary, "no such disk", rule(path, WHY), Action.REPLACE, part=path)
    else:
        state.text("storage", "disks", path, "device")  # is it known at all?


def read_only(observed: View, where: str) -> Iterator[Finding]:
    """A finding when the kernel gave up writing, as ext4 does after an error."""
    options = observed.text("options")
    if "ro" in options.split(","):
        summary = f"{where} is read-only: its file system met an error, or somebody made it so"
        yield failed(summary, options, rule("rw", WHY), Action.REBOOT)


def members(state: StateView, where: str, device: str, disks: list[str]) -> Iterator[Finding]:
    """Findings of what is mounted: made of the disks asked for, and each of them sound."""
    devices = {state.text("storage", "disks", path, "device") for path in disks}
    observed = arrays(state, device) if len(disks) > 1 else {device: "ok"}
    if {*observed} != devices:
        text = f"{where} lies on {', '.join(sorted(observed)) or 'nothing'}"
        expected = rule(", ".join(sorted(devices)), WHY)
        yield failed(f"{text}, not on the disks asked for", text, expected, Action.NONE)
    else:
        yield from broken(state, device, observed, disks)


def arrays(state: StateView, device: str) -> dict[str, str]:
    """Member to its state; what is mounted itself where it is no array."""
    if device not in state.names("storage", "arrays"):
        return {device: "ok"}
    members = state.get(dict, "storage", "arrays", device, "members")
    return {str(name): str(condition) for name, condition in members.items()}


def broken(
    state: StateView, device: str, observed: dict[str, str], disks: list[str]
) -> Iterator[Finding]:
    """Findings of an array that lost a member: a RAID0 has nothing to make up for it."""
    bad = {name: text for name, text in observed.items() if text != "ok"}
    for name, text in bad.items():
        part = next((p for p in disks if state.text("storage", "disks", p, "device") == name), name)
        summary = f"disk {part} of {device} is {text}: what lay on the array is lost"
        yield failed(summary, text, rule("ok", WHY), Action.REPLACE, part=part)
    if bad or len(disks) == 1:
        return
    condition = state.text("storage", "arrays", device, "state")
    if condition != "active":
        summary = f"the array {device} is {condition}"
        yield failed(summary, condition, rule("active", WHY), Action.REBOOT, part=device)


def room(desired: View, state: StateView, where: str) -> Iterator[Finding]:
    """A finding when the model is not there yet and would not fit."""
    needed, stamp = desired.number("room_bytes"), desired.text("stamp")
    document = state.value if isinstance(state.value, dict) else {}
    if not needed or is_present(stamp, document):
        return
    free = state.number("disks", where, "free_bytes")
    if free < needed:
        summary = f"{where} has {free / GIB:.0f} GiB free, the model needs {needed / GIB:.0f}"
        yield failed(summary, f"{free} bytes", rule(f"{needed} bytes", WHY), Action.NONE)
