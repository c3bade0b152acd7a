"""Reboot a node and wait for it: by boot id and deadline, with the host key still pinned.

pyinfra's own reboot judges by uptime, which a node that was up for less than its delay makes
ambiguous, and counts tries instead of time. Whether a reboot would help is decided in
b200kit/operations/reboot_policy.py.
"""

from __future__ import annotations

import json
import time

from pyinfra.api.exceptions import ConnectError

from b200kit.converge.stage import Change
from b200kit.node.state import drift
from b200kit.node.state.drift import File
from b200kit.operations import reboot_policy
from b200kit.run import connection_fault
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import Remote, RemoteError
from b200kit.stages import serving_units

_POLL_S = 1.0
_NO_ANSWER, _REFUSES, _SAME_BOOT = "no answer", "refuses connections", "answers but same boot"
_OTHER_KEY = "answers with another host key"
_REASONS = {
    "host-key-changed": _OTHER_KEY,
    "host-key-unknown": _OTHER_KEY,
    "key-refused": "answers and lets nobody in",
    "connection-refused": _REFUSES,
}


def reasons(node: Node) -> list[str]:
    """Why the node must reboot before it can go on; empty when nothing needs it."""
    state = node.state or {}
    found = ["boot-time configuration changed"] if _is_pending(node) else []
    modules = state.get("modules") or {}
    loaded = modules.get("nvidia", "")
    # Only what was read is a reason: a node whose modules are unknown is for the gate to refuse.
    if loaded is None:
        found.append("the nvidia module is not loaded")
    elif isinstance(loaded, str) and loaded and loaded != node.spec.driver:
        found.append(f"the loaded nvidia module is {loaded}")
    return found


def _is_pending(node: Node) -> bool:
    return ((node.state or {}).get("files") or {}).get(drift.PENDING_REBOOT) is not None


def reboot_reasons_or_fail(node: Node) -> list[str]:
    """The reasons; raises StageFailed when a reboot would not help, and says what does."""
    found = reasons(node)
    state, driver = node.state or {}, node.spec.driver
    if not found:
        return []
    if missing := reboot_policy.not_built(state, driver):
        raise StageFailed(f"{missing}. Not rebooted")
    earlier = "" if _is_pending(node) else reboot_policy.spent(state, driver)
    if earlier:
        why = reboot_policy.not_running(state, driver, _log(node)) or found[0]
        raise StageFailed(
            f"{why}. A reboot after {earlier} did not help and nothing changed since, so none is "
            f"made; repair it, then reboot the node or remove {reboot_policy.NOTE}"
        )
    return found


def change(node: Node, why: list[str]) -> Change:
    """The one reboot of a run, which says what it waits for."""
    waiting = Waiting()

    def progress_text(seconds: float) -> str:
        return f"waiting for {node.name} after reboot: {duration(seconds)}, {waiting.observed}"

    return Change(
        f"reboot: {', '.join(why)}",
        lambda node: reboot_and_wait(node, waiting),
        progress_text=progress_text,
        ends=tuple(serving_units.units(node)),
    )


class OtherKey(RemoteError):
    """The node answers with a host key that is not pinned: only a person can say whose it is."""


class Waiting:
    """What the last look at a rebooting node showed."""

    def __init__(self) -> None:
        self.observed = _NO_ANSWER


def reboot_and_wait(node: Node, waiting: Waiting | None = None) -> str:
    """Reboot; returns how long it took. Raises RemoteError when the node is not back in time."""
    remote, waiting = node.connected(), waiting or Waiting()
    before = boot_id(remote)
    _keep_note(node)
    begin(remote)
    deadline = node.spec.reboot_deadline_s
    if serving_units.running(node, serving_units.units(node)):
        # It stops first, and open requests get their time to end.
        deadline += 2 * node.spec.stop_grace_s
    return wait_until_back(node, before, deadline, waiting=waiting)


def begin(remote: Remote) -> None:
    """Have it reboot in a second: detached, so that this command ends before the connection."""
    remote.run("systemd-run --quiet --on-active=1 systemctl reboot", timeout=30)


def wait_until_back(
    node: Node,
    before: str | None,
    deadline_s: float,
    after: str = "reboot",
    waiting: Waiting | None = None,
) -> str:
    """Wait for another boot than *before* (None: for any) to answer with a host key that is pinned.

    Returns how long it took; raises RemoteError when the time is up, OtherKey for another key.
    """
    remote, waiting, started = node.connected(), waiting or Waiting(), time.monotonic()
    while time.monotonic() < started + deadline_s:
        time.sleep(_POLL_S)
        waiting.observed = _look(remote, before)
        if not waiting.observed:
            return f"back after {duration(time.monotonic() - started)}, same host key, new boot id"
        if waiting.observed == _OTHER_KEY:
            raise OtherKey(
                f"came back from its {after} with another host key; it was not accepted: look at "
                f"{node.spec.console}, and pin the new key if the node was re-imaged"
            )
    raise RemoteError(_never_back(node, waiting, deadline_s, after))


def _never_back(node: Node, waiting: Waiting, deadline_s: float, after: str) -> str:
    limit = duration(deadline_s)
    if waiting.observed == _SAME_BOOT:
        return (
            f"did not {after} within {limit}: it still runs the same boot, so its shutdown hangs; "
            f"look at {node.spec.console}"
        )
    return (
        f"did not come back within {limit} of its {after} ({waiting.observed}); "
        f"look at {node.spec.console}"
    )


def require_driver(node: Node, took_s: float) -> None:
    """After the reboot, from a fresh observation: the module asked for is loaded, or say why not.

    *took_s* is kept on the node, so that the next plan can say how long a reboot takes there.
    Said here, because every later stage could only say that something else does not work.
    """
    state, driver = node.state or {}, node.spec.driver
    if not reboot_policy.not_running(state, driver, ()):
        _keep_note(node, reboot_policy.LOADED, took_s)
        return
    why = reboot_policy.not_running(state, driver, _log(node))
    raise StageFailed(f"{why}. Not rebooted again")


def _keep_note(node: Node, outcome: str = "", took_s: float | None = None) -> None:
    """What a later run must know of this reboot, on the node."""
    state = node.state or {}
    took_s = reboot_policy.took_s(state) if took_s is None else took_s
    document = {**reboot_policy.note(state, node.spec.driver, outcome), "took_s": took_s}
    content = json.dumps(document, sort_keys=True).encode()
    node.connected().put([File(reboot_policy.NOTE, content)])


def _log(node: Node) -> list[str]:
    """Lines of this boot's log that may tell why the module was not taken; [] if it cannot say."""
    result = node.connected().attempt_program("driver-log", timeout=60)
    return result.stdout.splitlines() if result.ok else []


def _look(remote: Remote, before: str | None) -> str:
    """Empty when the node is back, else what it does instead."""
    try:
        remote.reconnect()
        return "" if boot_id(remote) != before else _SAME_BOOT
    except ConnectError as error:
        code = connection_fault.code_of(connection_fault.describe(error))
        return _REASONS.get(code or "", _NO_ANSWER)
    except RemoteError as error:
        return f"answers, and {error}"


def boot_id_or_none(node: Node) -> str | None:
    """The id of the boot that answers on a new connection; None when none does."""
    try:
        node.connected().connect_fresh()
        return boot_id(node.connected())
    except RemoteError:
        return None


def boot_id(remote: Remote) -> str:
    """The id of the boot that answers; RemoteError when none does."""
    return remote.run("cat /proc/sys/kernel/random/boot_id", timeout=20).strip()
