"""contrib/ipmi.py, with a program in ipmitool's place that says what ipmitool 1.8.19 said.

Its texts were captured from the real one against OpenIPMI's ipmi_sim 2.0.33 on 2026-11-22.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.reprovision import Bmc
from b200kit.inventory.secrets import Secret
from b200kit.records.machines import MachineIdentity, machine
from b200kit.reprovision.actions import ActionRefused
from b200kit.reprovision.power import CommandPower
from tests.messages import raises_message
from tests.unit.contrib.conftest import CONTRIB

CANARY = "canary-ipmi-p4ssw0rd"
CHATTER = "Loading IANA PEN Registry...\nUnable to Get Channel Cipher Suites\n"
NO_SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session\n"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put the stand-in on PATH; returns where it keeps what it was asked."""

    def make(stdout: str = "", stderr: str = "", code: int = 0) -> Path:
        program, asked = tmp_path / "ipmitool", tmp_path / "asked.json"
        program.write_text(
            "#!/usr/bin/python3\nimport json, os, sys\n"
            f"json.dump([sys.argv, os.environ.get('IPMI_PASSWORD')], open({str(asked)!r}, 'w'))\n"
            f"sys.stdout.write({stdout!r}); sys.stderr.write({stderr!r}); sys.exit({code})\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return asked

    return make


def controller(address: str = "10.9.0.1") -> CommandPower:
    command = (str(CONTRIB / "ipmi.py"),)
    bmc = Bmc(address=address, user="b200", password=SecretRef(env="X"), command=command)
    return CommandPower("n7", bmc, Secret(CANARY.encode()))


@pytest.mark.parametrize(
    ("word", "said"), [("on", "Chassis Power is on\n"), ("off", "Chassis Power is off\n")]
)
def test_state_is_what_the_chassis_says(tool: Callable[..., Path], word: str, said: str) -> None:
    tool(said, CHATTER)
    assert controller().state() == word


GUID = " a1 23 45 67 89 ab cd ef a1 23 45 67 89 ab cd ef\n"
NO_GUID = "Unable to send RAW command (channel=0x0 netfn=0x6 lun=0x0 cmd=0x37 rsp=0xc1): Invalid"
NO_FRU = " Device not present (Invalid data field in request)\n"
FRU = " Board Serial          : B7\n Product Part Number   : 900\n Product Serial        : A1 \n"


@pytest.mark.parametrize(
    ("guid", "fru", "known"),
    [
        ((GUID, CHATTER, 0), (NO_FRU, CHATTER, 1),
         machine("a1234567-89ab-cdef-a123-456789abcdef", None)),
        (("", CHATTER + NO_GUID, 1), (FRU, "", 0), machine(None, "A1")),
        (("", CHATTER + NO_GUID, 1), ("", "", 0), machine(None, None)),
        ((" 00" * 16, "", 0), (FRU.partition("Product Serial")[0], "", 0), machine(None, None)),
    ],
)  # fmt: skip
def test_machine_is_told_by_the_systems_guid_and_the_products_serial(
    tool: Callable[..., Path],
    tmp_path: Path,
    guid: tuple[str, str, int],
    fru: tuple[str, str, int],
    known: MachineIdentity,
) -> None:
    tool()
    answers = {"raw 0x06 0x37": guid, "fru print 0": fru}
    (tmp_path / "ipmitool").write_text(
        f"#!/usr/bin/python3\nimport sys\nout, err, code = {answers!r}[' '.join(sys.argv[-3:])]\n"
        "sys.stdout.write(out); sys.stderr.write(err); sys.exit(code)\n"
    )
    assert controller().machine() == known


def test_controller_that_does_not_answer_tells_no_machine(tool: Callable[..., Path]) -> None:
    tool(stderr="Get Auth Capabilities error\n" + NO_SESSION, code=1)
    with pytest.raises(ActionRefused, match="does not answer"):
        controller().machine()


@pytest.mark.parametrize(
    ("act", "word"), [("shut_down", "soft"), ("cut", "off"), ("switch_on", "on")]
)
def test_password_goes_by_the_environment_and_never_by_the_command_line(
    tool: Callable[..., Path], act: str, word: str
) -> None:
    asked = tool("Chassis Power Control: Up/On\n", CHATTER)
    getattr(controller(address="10.9.0.1:6230"), act)()
    argv, password = json.loads(asked.read_text())
    assert argv[-3:] == ["chassis", "power", word]
    assert argv[argv.index("-H") + 1 : argv.index("-H") + 4] == ["10.9.0.1", "-p", "6230"]
    assert password == CANARY
    assert CANARY not in " ".join(argv)


@pytest.mark.parametrize(
    "stderr",
    [
        CHATTER + "> RAKP 2 HMAC is invalid\n" + NO_SESSION,
        CHATTER + "RAKP 2 message indicates an error : unauthorized name\n" + NO_SESSION,
        "Get Auth Capabilities error\n" + NO_SESSION,
        "Address lookup for bmc.invalid failed\nCould not open socket!\n" + NO_SESSION,
        CHATTER + "Set Chassis Power Control to Down/Off failed: Insufficient privilege level\n",
        "Something: new\n",
        "",
    ],
)
def test_what_went_wrong_is_one_line(tool: Callable[..., Path], stderr: str) -> None:
    tool(stderr=stderr, code=1)
    with raises_message(ActionRefused):
        controller().cut()


def test_machine_without_the_tool_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises_message(ActionRefused):
        controller().state()
