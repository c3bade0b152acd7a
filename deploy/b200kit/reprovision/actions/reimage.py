"""Re-image: a new image by a command of the site's, its host key from a source that is trusted.

The command (`COMMAND reimage NODE`; b200-maas of contrib/ is one) finds in its environment the
node's B200_ADDRESS, B200_ACT (the id of this act), B200_IMAGE, B200_WHY and, where the inventory
has one, B200_TOKEN. It ends when the image is there; its answer may be JSON, {"host_keys":
["ssh-ed25519 AAAA...", ...]}. A run that was killed calls it again with the same B200_ACT: it must
then continue with the image it has begun, not begin another.

The node is never trusted to say who it is. A source says the new host key (the command's answer, a
file or another command of the site's), it is pinned for this node alone, and the node must answer
with it; where no source says one, it must answer with the key that is pinned already.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from b200kit.inventory.keys.reprovision import Reimage as Request
from b200kit.node.lib.documents import decode
from b200kit.operations import reboot
from b200kit.reprovision import site_command
from b200kit.reprovision.actions import ActionFailed, ActionRefused, Say
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run import host_keys, known_hosts
from b200kit.run.node import Node, duration
from b200kit.run.remote import RemoteError

AFTER = "re-image"
_SOURCE_S = 60


class ReimageNode:
    """See b200kit.reprovision.actions.RemediationAction."""

    def facts(self, node: Node) -> dict[str, Any]:
        """The keys that are pinned before, and the boot that is to end."""
        _requested(node)
        return {
            "host_keys": tuple(_pins(node).keys()),
            "boot_id": reboot.boot_id_or_none(node),
        }

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """A host key that was pinned since the intent, and the node answers with it."""
        if tuple(_pins(node).keys()) == intent.host_keys:
            return None
        try:
            node.connected().connect_fresh()
        except RemoteError:
            return None
        return "already done: the node answers with the host key that was pinned for the new image"

    def perform(self, node: Node, intent: IntentLine, say: Say) -> str:
        """Ends with a node that answers from its new image, with a host key that was trusted."""
        started = time.monotonic()
        limit = node.spec.reprovision.deadlines.reimage
        keys, source = _trusted(node, _image(node, intent, say, limit))
        if keys:
            _pins(node).replace(keys)
            say(f"host key {', '.join(map(known_hosts.fingerprint, keys))} pinned, from {source}")
        left = max(1.0, limit - (time.monotonic() - started))
        try:
            reboot.wait_until_back(node, intent.boot_id or None, left, AFTER)
        except reboot.OtherKey as error:
            raise ActionRefused(str(error)) from None
        except RemoteError as error:
            raise ActionFailed(str(error)) from None
        node.state = None
        taken = f"new image in {duration(time.monotonic() - started)}"
        return f"{taken}, host key from {source}" if keys else f"{taken}, same host key"


def _requested(node: Node) -> Request:
    if node.spec.reimage is None:
        raise ActionRefused("nobody is known to put an image on it: the inventory has no `reimage`")
    return node.spec.reimage


def _image(node: Node, intent: IntentLine, say: Say, limit_s: float) -> str:
    """Have the command put the image there; returns its answer."""
    requested, host = _requested(node), node.remote.host if node.remote else None
    environment = {
        "B200_ADDRESS": str((host.data.get("ssh_hostname") if host else None) or node.name),
        "B200_ACT": intent.id,
        "B200_IMAGE": requested.image or "",
        "B200_WHY": site_command.one_line(intent.why),
    }
    if token := node.secrets.get("reimage.token"):
        environment["B200_TOKEN"] = token.reveal().decode()
    words = ("reimage", node.name)
    return site_command.run(
        requested.command, *words, environment=environment, within_s=limit_s, say=say
    )


def _trusted(node: Node, answer: str) -> tuple[tuple[str, ...], str]:
    """The new host keys and their source; none where the pinned key stays."""
    requested = _requested(node)
    if not (requested.host_key or requested.host_key_file):
        return _answered(answer, requested), requested.command[0]
    source = requested.host_key_file or requested.host_key[0]
    try:
        keys = known_hosts.keys_in(_source_output(requested, node))
    except ValueError as broken:
        raise ActionRefused(f"{source} says no whole host key: {broken}") from None
    if not keys:
        raise ActionRefused(f"{source} says no host key, so the new image cannot be trusted")
    return keys, source


def _answered(answer: str, requested: Request) -> tuple[str, ...]:
    try:
        keys = decode(dict[str, list[str]], answer)["host_keys"] if answer else []
        return known_hosts.keys_in("\n".join(keys))
    except (ValueError, KeyError):
        raise ActionFailed(
            f'the last line that {requested.command[0]} printed is not {{"host_keys": [...]}}'
        ) from None


def _source_output(requested: Request, node: Node) -> str:
    try:
        if requested.host_key_file:
            return Path(requested.host_key_file).expanduser().read_text("utf-8", "replace")
        done = subprocess.run(
            [*requested.host_key, node.name],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_SOURCE_S,
            check=True,
        )
        return done.stdout
    except OSError as error:
        raise ActionRefused(f"the new host key cannot be read: {error.strerror}") from None
    except subprocess.SubprocessError as error:
        reason = type(error).__name__
        raise ActionRefused(f"{requested.host_key[0]} gave no host key ({reason})") from None


def _pins(node: Node) -> host_keys.Pins:
    return host_keys.of(node.connected().host)


ACTION = ReimageNode()
