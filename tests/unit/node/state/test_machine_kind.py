"""Bare metal, virtual machine, container: two readings that must agree."""

from __future__ import annotations

import subprocess

from b200kit.node.state import machine_kind
from b200kit.node.state.machine_kind import MachineKind
from b200kit.node.state.view import StateView, Unread
from tests.subtests import in_subtests


def kind(word: object, flag: object) -> MachineKind | None:
    """The kind of a machine with two readings; None where one of them is not there."""
    state = {"readiness": {"virtualization": word}, "cpus": {"hypervisor": flag}}
    try:
        return machine_kind.of(StateView(state)).kind
    except Unread:
        return None


@in_subtests(
    ("word", "flag", "expected"),
    [
        *((word, True, MachineKind.VIRTUAL) for word in sorted(machine_kind.VIRTUAL)),
        *(
            (word, flag, MachineKind.UNCLEAR)
            for word in ("kvm", "vmware")
            for flag in (False, None)
        ),
        *(
            (w, f, MachineKind.CONTAINER)
            for w in ("docker", "systemd-nspawn")
            for f in (True, False)
        ),
        ("none", False, MachineKind.BARE_METAL),
        ("none", None, MachineKind.BARE_METAL),
        ("none", True, MachineKind.UNCLEAR),
        ("", True, MachineKind.UNCLEAR),
        ("a-newer-word", True, MachineKind.UNCLEAR),
        ({"unmeasured": "why"}, True, None),
        ("kvm", {"unmeasured": "why"}, None),
        ("kvm", "true", None),
        (True, True, None),
    ],
)
def test_both_readings_must_agree(word: object, flag: object, expected: MachineKind | None) -> None:
    assert kind(word, flag) is expected


def test_every_word_of_systemd_is_known() -> None:
    """As this machine's systemd lists them; an older one has fewer."""
    said = subprocess.run(
        ["systemd-detect-virt", "--list"], capture_output=True, text=True, check=True
    )
    words = set(said.stdout.split())
    assert len(words) > 20
    assert words <= {*machine_kind.VIRTUAL, *machine_kind.CONTAINERS, "none"}
