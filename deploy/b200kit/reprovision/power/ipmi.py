"""Power by IPMI over LAN, with ipmitool. The password travels in its environment, never in argv."""

from __future__ import annotations

import os
import re
import subprocess

from b200kit.inventory.keys.reprovision import Bmc
from b200kit.inventory.secrets import Secret
from b200kit.records import machines
from b200kit.records.machines import Machine
from b200kit.reprovision.actions import ActionRefused
from b200kit.reprovision.power import OFF, ON

_ANSWER_S = 30
# What ipmitool 1.8.19 says with -v, and what it means; without -v it tells none of them apart
# (tried against OpenIPMI's ipmi_sim, 2026-11-22). The first that is found counts.
_CAUSES = {
    "RAKP 2 HMAC is invalid": "refuses {user}'s password: look at bmc.password",
    "unauthorized name": "knows no user {user}: look at bmc.user",
    "Invalid user name": "knows no user {user}: look at bmc.user",
    "Insufficient privilege": "does not let {user} switch the power: look at the user's privilege",
    "Address lookup": "has a name that is not known",
    "Unable to establish": "does not answer; look at its network, and whether IPMI is on",
}

# What it says when the controller answers that there is no such thing: a completion code.
_HAS_NONE = ("rsp=0x", "Device not present")
_PRODUCT_SERIAL = re.compile(r"^\s*Product Serial\s*:\s*(\S.*)$", re.MULTILINE)


class Controller:
    """The one system behind an IPMI address."""

    def __init__(self, bmc: Bmc, password: Secret) -> None:
        self._bmc, self._password = bmc, password

    def machine(self) -> Machine:
        """See Power. Get System GUID as it is sent: ipmitool guesses the order of its bytes."""
        digits = "".join(self._asked("raw", "0x06", "0x37").split())
        serial = _PRODUCT_SERIAL.search(self._asked("fru", "print", "0"))
        return machines.machine(digits, serial[1] if serial else "")

    def state(self) -> str:
        """See b200kit.reprovision.power.Power."""
        output = self._power("status").strip()
        word = output.rpartition(" ")[2].lower()
        return word if word in (ON, OFF) else output

    def graceful(self) -> bool:
        """See Power. IPMI does not say; a controller that cannot refuses the command."""
        return True

    def shut_down(self) -> None:
        """See b200kit.reprovision.power.Power."""
        self._power("soft")

    def cut(self) -> None:
        """See b200kit.reprovision.power.Power."""
        self._power("off")

    def switch_on(self) -> None:
        """See b200kit.reprovision.power.Power."""
        self._power("on")

    def _power(self, word: str) -> str:
        return self._tool("chassis", "power", word)

    def _asked(self, *words: str) -> str:
        """The answer, empty where the controller answers that it has none."""
        try:
            return self._tool(*words)
        except ActionRefused as error:
            if any(sign in str(error) for sign in _HAS_NONE):
                return ""
            raise

    def _tool(self, *words: str) -> str:
        host, port = self._place()
        where = ["-H", host, "-p", port, "-U", self._bmc.user]
        # One that does not answer is given up after 10 s.
        command = ["ipmitool", "-I", "lanplus", "-v", *where, "-E", "-N", "2", "-R", "2"]
        secret = {"IPMI_PASSWORD": self._password.reveal().decode()}
        try:
            done = subprocess.run(
                [*command, *words],
                env=os.environ | secret,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=_ANSWER_S,
            )
        except FileNotFoundError:
            raise ActionRefused("ipmitool is not installed on the controller") from None
        except subprocess.TimeoutExpired:
            raise ActionRefused(f"{self._where()} does not answer in {_ANSWER_S} s") from None
        if done.returncode:
            raise ActionRefused(self._line(f"{done.stderr}\n{done.stdout}"))
        return done.stdout

    def _place(self) -> tuple[str, str]:
        """Host and port; an address with several colons is one of IPv6."""
        host, colon, port = self._bmc.address.rpartition(":")
        return (host, port) if colon and ":" not in host else (self._bmc.address, "623")

    def _where(self) -> str:
        return f"its controller {self._bmc.address}"

    def _line(self, output: str) -> str:
        known = next((words for sign, words in _CAUSES.items() if sign in output), None)
        if known:
            return f"{self._where()} {known.format(user=self._bmc.user)}"
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        return f"{self._where()}: ipmitool says: {lines[-1] if lines else 'nothing'}"
