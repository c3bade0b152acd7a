"""Re-image: a new image by the provisioning system, its host key from a source that is trusted.

The node is never trusted to say who it is. A source says the new host key (the system's own
answer, a file or a command of the site's), it is pinned for this node alone, and the node must
answer with it; where no source says one, it must answer with the key that is pinned already.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from b200kit.inventory.keys.reprovision import Reimage as Request
from b200kit.operations import reboot
from b200kit.reprovision import reimage
from b200kit.reprovision.actions import ActionFailed, ActionRefused, Say
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.reimage import Progress, Provisioner, Unreached
from b200kit.run import host_keys, known_hosts
from b200kit.run.node import Node, duration
from b200kit.run.remote import RemoteError

AFTER = "re-image"
_SOURCE_S = 60


class Reimage:
    """See b200kit.reprovision.actions.RemediationAction."""

    def facts(self, node: Node) -> dict[str, Any]:
        """Asks the system before anything is done, so that a wrong key for it costs nothing."""
        system = reimage.of(node)
        try:
            pins = tuple(_pins(node).keys())
            return {"host_keys": pins, "boot_id": reboot.boot_id_or_none(node), **system.facts()}
        finally:
            system.close()

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
        done = _until_done(node, intent, say, started + limit)
        keys, source = _trusted(node, done)
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


def _until_done(node: Node, intent: IntentLine, say: Say, end: float) -> Progress:
    system, last = reimage.of(node), ""
    try:
        while True:
            progress = _look(system, intent)
            for line in progress.observed:
                if line != last:
                    last = line
                    say(line)
            if progress.done:
                return progress
            if time.monotonic() > end:
                limit = duration(node.spec.reprovision.deadlines.reimage)
                raise ActionFailed(
                    f"the new image was not there after {limit}; last observed: {last or 'nothing'}"
                )
            time.sleep(system.poll_s)
    finally:
        system.close()


def _look(system: Provisioner, intent: IntentLine) -> Progress:
    """Where the image stands; a system that does not answer now may before the deadline."""
    try:
        return system.advance(intent)
    except Unreached as silent:
        return Progress((str(silent),))


def _trusted(node: Node, done: Progress) -> tuple[tuple[str, ...], str]:
    """The new host keys and their source; none where the pinned key stays."""
    requested = reimage.requested_of(node)
    if not (requested.host_key or requested.host_key_file):
        return done.host_keys, "MAAS" if requested.method == "maas" else requested.command[0]
    source = requested.host_key_file or requested.host_key[0]
    try:
        keys = known_hosts.keys_in(_source_output(requested, node))
    except ValueError as broken:
        raise ActionRefused(f"{source} says no whole host key: {broken}") from None
    if not keys:
        raise ActionRefused(f"{source} says no host key, so the new image cannot be trusted")
    return keys, source


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


ACTION = Reimage()
