"""Whether a controller is the node's, by what both say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.records import machines
from b200kit.records.machines import MachineIdentity, machine
from b200kit.reprovision.power import refusal
from tests.messages import assert_message

UUID = "00112233-4455-6677-8899-aabbccddeeff"
SWAPPED = "33221100-5544-7766-8899-aabbccddeeff"
IPMI = "ffeeddcc-bbaa-9988-7766-554433221100"
IPMI_SWAPPED = "ffeeddcc-bbaa-9988-7766-554400112233"
OTHER = "99999999-4455-6677-8899-aabbccddeeff"
PLACEHOLDERS = (
    ("00000000-0000-0000-0000-000000000000", "To Be Filled By O.E.M."),
    ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "Default string"),
    ("03000200-0400-0500-0006-000700080009", "0123456789"),
    (None, None),
    ({"unmeasured": "permission denied"}, {"unmeasured": "permission denied"}),
    ("not-settable", "\0"),
    ("", " None "),
)
NONE = MachineIdentity()


@pytest.mark.parametrize("told", [UUID, UUID.upper(), SWAPPED, IPMI])
def test_uuid_is_the_nodes_in_every_order_that_firmware_has(told: str) -> None:
    assert refusal(NONE, machine(UUID, "A1"), machine(told, "another's board")) is None


@pytest.mark.parametrize(
    ("asked", "seen", "told", "same"),
    [
        # What both have decides, the UUID first.
        (NONE, machine(UUID, "A1"), machine(OTHER, "A1"), False),
        (NONE, machine(UUID, "A1"), machine(None, "a1 "), True),
        (NONE, machine(UUID, "A1"), machine(None, "A2"), False),
        (NONE, machine(None, "A1"), machine(UUID, "A1"), True),
        # Nothing that both have, or that either ever said.
        (NONE, machine(UUID, None), machine(None, "A1"), False),
        (NONE, machine(UUID, "A1"), NONE, False),
        (NONE, NONE, machine(UUID, "A1"), False),
        # The inventory's word counts of a node that was never read, and with it, not against it.
        (machine(UUID, None), NONE, machine(SWAPPED, None), True),
        (machine(None, "A1"), NONE, machine(OTHER, "A1"), True),
        (machine(None, "A1"), NONE, machine(OTHER, None), False),
        (machine(UUID, None), NONE, machine(OTHER, None), False),
        (machine(UUID, "A1"), NONE, machine(UUID, "A2"), False),
        (machine(OTHER, None), machine(UUID, None), machine(OTHER, None), False),
        (machine(UUID, None), machine(UUID, None), machine(OTHER, None), False),
        # A vendor whose controller has a UUID of its own: a person says that the serial tells.
        (machine(None, "A1"), machine(UUID, "A1"), machine(OTHER, "A1"), True),
        (machine(None, "A1"), machine(UUID, "A2"), machine(OTHER, "A1"), False),
        (machine(None, "A1"), machine(UUID, None), machine(OTHER, "A1"), False),
    ],
)
def test_controller_is_the_nodes_or_refused_with_all_that_was_said(
    asked: MachineIdentity, seen: MachineIdentity, told: MachineIdentity, same: bool
) -> None:
    why = refusal(asked, seen, told)
    assert (why is None) is same
    assert_message(why)


@pytest.mark.parametrize(("uuid", "serial"), PLACEHOLDERS)
def test_what_every_board_says_is_nobodys_number(uuid: object, serial: object) -> None:
    assert machine(uuid, serial) == NONE
    assert refusal(NONE, machine(uuid, serial), machine(uuid, serial))


def test_machine_is_kept_until_another_is_seen(site_store: Path) -> None:
    assert machines.known("n7") == NONE
    machines.keep("n7", None)
    machines.keep("n7", {"host": {"unmeasured": "no answer"}})
    assert not site_store.exists()
    seen = {"host": {"product_uuid": UUID, "product_serial": "A1"}}
    machines.keep("n7", seen)
    machines.keep("n7", {"host": {"product_uuid": {"unmeasured": "no such file"}}})
    assert machines.known("n7") == machine(UUID, "A1")
    assert machines.known("n8") == NONE
    machines.keep("n7", {"host": {"product_uuid": OTHER}})
    assert machines.known("n7") == machine(OTHER, None)
