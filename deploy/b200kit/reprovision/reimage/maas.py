"""A new image by MAAS: release, then deploy, over its HTTP API 2.0 with an API key.

The operations and the names of a machine's states are those of the API's reference and of MAAS'
source (src/maasserver/api/machines.py, scriptresults.py, enum.py, read 2026-11-21). MAAS has no
field for host keys. What an installation printed is saved, though, and came to MAAS over the
machine's own credentials: lines there that hold MARKER and a public key are its answer. So curtin
has to print the key, and cloud-init to leave it. In curtin_userdata (of the snap, in
/var/snap/maas/current/preseeds), below late_commands; untried:

    b200_1: ["curtin", "in-target", "--", "ssh-keygen", "-A"]
    b200_2: ["curtin", "in-target", "--", "sh", "-c",
      "echo 'ssh_deletekeys: false' > /etc/cloud/cloud.cfg.d/90-host-keys.cfg"]
    b200_3: ["curtin", "in-target", "--", "sh", "-c",
      "sed 's/^/b200kit-host-key: /' /etc/ssh/ssh_host_ed25519_key.pub"]
"""

from __future__ import annotations

import base64
import binascii
import secrets
import time
from typing import Any
from urllib.parse import quote

import requests
from requests import exceptions

from b200kit.inventory.keys.reprovision import Reimage
from b200kit.node.lib.documents import LARGE, Malformed, Object, decode
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.reimage import Progress, Unreached
from b200kit.run import known_hosts
from b200kit.run.node import Node

MARKER = "b200kit-host-key:"
_TIMEOUT_S = (10, 60)
_WORKING = ("Deploying", "Releasing", "Disk erasing")
_DEPLOYABLE = ("Ready", "Allocated")
_RELEASABLE = ("Deployed", "Failed deployment", "Releasing failed", "Failed to erase disks")


class System:
    """See b200kit.reprovision.reimage.Provisioner."""

    poll_s = 10.0

    def __init__(self, node: Node, requested: Reimage) -> None:
        self._requested = requested
        self._key = node.secrets["reimage.token"]
        self._session = requests.Session()
        # A proxy, a bundle or a .netrc of the environment is no part of what is trusted.
        self._session.trust_env = False
        self._session.verify = requested.ca_file or True

    def facts(self) -> dict[str, Any]:
        """The number of the installation that the machine runs; the next has another."""
        return {"installation": self._installation().get("id")}

    def advance(self, intent: IntentLine) -> Progress:
        """Release what is deployed, deploy what is ready, wait in between."""
        machine = self._call("GET", self._machine())
        state = str(machine.get("status_name"))
        installation = self._installation() if state not in (*_WORKING, *_DEPLOYABLE) else {}
        # Taken up again after a crash, too: what the intent knew is what was there before.
        is_new = installation.get("id") not in (None, intent.installation)
        if state == "Deployed" and is_new:
            return Progress((state,), True, _keys_of(installation))
        if state == "Failed deployment" and is_new:
            why = str(machine.get("status_message") or "no reason given")
            raise ActionFailed(f"MAAS says: {state}: {why}")
        if state in _DEPLOYABLE:
            series = {"distro_series": self._requested.image} if self._requested.image else {}
            self._operate("deploy", {**series, "comment": _comment(intent)})
        elif state in _RELEASABLE:
            self._operate("release", {"comment": _comment(intent)})
        elif state not in _WORKING:
            raise ActionRefused(f"MAAS has it as {state}: it can neither be released nor deployed")
        return Progress((state,))

    def close(self) -> None:
        """MAAS continues by itself."""
        self._session.close()

    def _machine(self) -> str:
        return f"machines/{quote(self._requested.system or '', safe='')}/"

    def _installation(self) -> Any:
        """The last installation's results, a document; {} where there was none."""
        path = f"nodes/{quote(self._requested.system or '', safe='')}/results/current-installation/"
        return self._call("GET", path, params={"include_output": "true"}, absent={})

    def _operate(self, operation: str, fields: dict[str, str]) -> None:
        # The API takes multipart/form-data.
        parts = {name: (None, value) for name, value in fields.items()}
        self._call("POST", self._machine(), params={"op": f"{operation}"}, files=parts)

    def _call(
        self, method: str, path: str, absent: Object | None = None, **arguments: Any
    ) -> Object:
        url = f"{(self._requested.url or '').rstrip('/')}/api/2.0/{path}"
        try:
            answer = self._session.request(
                method,
                url,
                headers={"Authorization": self._authorization(), "Accept": "application/json"},
                timeout=_TIMEOUT_S,
                **arguments,
            )
        except exceptions.RequestException as error:
            raise self._unreached(error) from None
        # Of a machine that was never installed: 400 by MAAS' source, 404 by its reference.
        if answer.status_code in (400, 404) and absent is not None:
            return absent
        if answer.status_code >= 500:
            raise Unreached(self._refused(answer))
        if not answer.ok:
            raise ActionRefused(self._refused(answer))
        try:
            return decode(Object, answer.content, LARGE)
        except Malformed:
            raise ActionRefused(f"what {self._requested.url} answers is not MAAS' API") from None

    def _authorization(self) -> str:
        """OAuth 1.0 with the PLAINTEXT signature and no consumer secret (RFC 5849, 3.4.4)."""
        parts = self._key.reveal().decode().split(":")
        if len(parts) != 3:
            raise ActionRefused(
                "reimage.token is no API key of MAAS: it has three parts with : between"
            )
        consumer, token, secret = (quote(part, safe="") for part in parts)
        fields = {
            "oauth_version": "1.0",
            "oauth_signature_method": "PLAINTEXT",
            "oauth_consumer_key": consumer,
            "oauth_token": token,
            "oauth_signature": quote(f"&{secret}", safe=""),
            "oauth_nonce": secrets.token_hex(8),
            "oauth_timestamp": str(int(time.time())),
        }
        return "OAuth " + ", ".join(f'{name}="{value}"' for name, value in fields.items())

    def _unreached(self, error: Exception) -> ActionFailed:
        where = f"MAAS at {self._requested.url}"
        if isinstance(error, exceptions.SSLError):
            return ActionRefused(
                f"{where} shows a certificate that is not trusted: set reimage.ca_file"
            )
        return Unreached(f"{where} does not answer ({type(error).__name__})")

    def _refused(self, answer: requests.Response) -> str:
        if answer.status_code == 401:
            return f"MAAS at {self._requested.url} refuses the API key: look at reimage.token"
        if answer.status_code == 404:
            return f"MAAS knows no machine {self._requested.system}: look at reimage.system"
        reason = (answer.text.strip().splitlines() or ["no reason given"])[0][:200]
        return f"MAAS answers {answer.status_code}: {reason}"


def _comment(intent: IntentLine) -> str:
    return f"b200kit {intent.id}: {intent.why}"[:255]


def _keys_of(installation: dict[str, Any]) -> tuple[str, ...]:
    """Host keys that the installation printed after MARKER."""
    found: list[str] = []
    for result in installation.get("results") or []:
        try:
            output = base64.b64decode(result.get("output") or "").decode(errors="replace")
            found += known_hosts.keys_in(output, MARKER)
        except (ValueError, binascii.Error) as broken:
            raise ActionFailed(
                f"the installation's output holds no whole host key: {broken}"
            ) from None
    return tuple(dict.fromkeys(found))
