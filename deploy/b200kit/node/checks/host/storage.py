"""Where models lie: mounted, from the right disks, every one of them there, with room."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.drift import is_present
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View

WHY = "storage of the inventory"
GIB = 1 << 30


@check("host.storage")
def model_store(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Models lie on the file system asked for, with every disk of it there and room for them."""
    requested = expect.requested("storage", dict)
    if requested is None:
        yield passed("no storage is asked for")
        return
    desired = View(requested, "storage")
    where = desired.text("mount")
    if isinstance(where, Unmeasured):
        raise Unexpected(f"storage: {where.reason}")
    found = [*mounted(desired, state, where), *room(desired, state, where)]
    yield from found or [passed(f"{where} is as asked", rule(where, WHY))]


def mounted(desired: View, state: StateView, where: str) -> Iterator[Finding]:
    """Findings of the disks, where disks were named, then of what is mounted and made of them."""
    disks = [str(path) for path in desired.get(list, "disks") or []]
    lost = list(gone(state, disks))
    yield from lost
    observed = state.at("storage", "mount")
    device = observed.text("device")
    if observed.raw() is None:
        # Without its disks it cannot be mounted: that is reported already.
        if not lost:
            expected = rule(f"a mount at {where}", WHY)
            yield failed(f"nothing is mounted at {where}", "no mount", expected, Action.REBOOT)
    elif isinstance(device, Unmeasured):
        yield unread(f"what is mounted at {where}", device)
    else:
        yield from read_only(observed, where)
        if disks and not lost:
            yield from members(state, where, device, disks)


def gone(state: StateView, disks: list[str]) -> Iterator[Finding]:
    """A finding for each disk that is not there, or of which nothing is known."""
    for path in disks:
        name = state.text("storage", "disks", path, "device")
        if state.is_null("storage", "disks", path):
            summary = f"disk {path} is gone"
            yield failed(summary, "no such disk", rule(path, WHY), Action.REPLACE, part=path)
        elif isinstance(name, Unmeasured):
            yield unread(f"disk {path}", name)


def read_only(observed: View, where: str) -> Iterator[Finding]:
    """A finding when the kernel gave up writing, as ext4 does after an error."""
    options = observed.text("options")
    if isinstance(options, Unmeasured):
        yield unread(f"how {where} is mounted", options)
    elif "ro" in options.split(","):
        summary = f"{where} is read-only: its file system met an error, or somebody made it so"
        yield failed(summary, options, rule("rw", WHY), Action.REBOOT)


def members(state: StateView, where: str, device: str, disks: list[str]) -> Iterator[Finding]:
    """Findings of what is mounted: made of the disks asked for, and each of them sound."""
    devices = {str(state.text("storage", "disks", path, "device")) for path in disks}
    observed = arrays(state, device) if len(disks) > 1 else {device: "ok"}
    if isinstance(observed, Unmeasured):
        yield unread(f"the array {device}", observed)
    elif {*observed} != devices:
        text = f"{where} lies on {', '.join(sorted(observed)) or 'nothing'}"
        expected = rule(", ".join(sorted(devices)), WHY)
        yield failed(f"{text}, not on the disks asked for", text, expected, Action.NONE)
    else:
        yield from broken(state, device, observed, disks)


def arrays(state: StateView, device: str) -> dict[str, str] | Unmeasured:
    """Member to its state; what is mounted itself where it is no array."""
    listed = state.get(dict, "storage", "arrays")
    if isinstance(listed, Unmeasured):
        return listed
    if device not in listed:
        return {device: "ok"}
    found = state.get(dict, "storage", "arrays", device, "members")
    return found if isinstance(found, Unmeasured) else {str(k): str(v) for k, v in found.items()}


def broken(
    state: StateView, device: str, observed: dict[str, str], disks: list[str]
) -> Iterator[Finding]:
    """Findings of an array that lost a member: a RAID0 has nothing to make up for it."""
    bad = {name: text for name, text in observed.items() if text != "ok"}
    for name, text in bad.items():
        part = next((p for p in disks if _is(state, p, name)), name)
        summary = f"disk {part} of {device} is {text}: what lay on the array is lost"
        yield failed(summary, text, rule("ok", WHY), Action.REPLACE, part=part)
    if bad or len(disks) == 1:
        return
    condition = state.text("storage", "arrays", device, "state")
    if isinstance(condition, Unmeasured):
        yield unread(f"the state of {device}", condition)
    elif condition != "active":
        summary = f"the array {device} is {condition}"
        yield failed(summary, condition, rule("active", WHY), Action.REBOOT, part=device)


def _is(state: StateView, path: str, device: str) -> bool:
    return state.text("storage", "disks", path, "device") == device


def room(desired: View, state: StateView, where: str) -> Iterator[Finding]:
    """A finding when the model is not there yet and would not fit."""
    needed, stamp = desired.number("room_bytes"), desired.text("stamp")
    if isinstance(needed, Unmeasured) or isinstance(stamp, Unmeasured):
        raise Unexpected("storage: room_bytes and stamp must be given")
    document = state.value if isinstance(state.value, dict) else {}
    if not needed or is_present(stamp, document):
        return
    free = state.number("disks", where, "free_bytes")
    if isinstance(free, Unmeasured):
        yield unread(f"the room in {where}", free)
    elif free < needed:
        summary = f"{where} has {free / GIB:.0f} GiB free, the model needs {needed / GIB:.0f}"
        yield failed(summary, f"{free} bytes", rule(f"{needed} bytes", WHY), Action.NONE)
