"""Events: what happens on the node is sent to the site's command and webhook.

Off unless the inventory has `events`; then without files, units and spool. The configuration comes
before the watchdog starts, so that the first look has somebody to tell.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.inventory.keys.events import Events
from b200kit.inventory.secrets import Secret
from b200kit.node.events import config
from b200kit.node.events.config import CONFIG, EventPlan
from b200kit.node.events.spool import DIRECTORY
from b200kit.node.lib import documents
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, Unit
from b200kit.run.node import Node
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render
from b200kit.serving.replica import SECRETS

UNIT = "b200-events.service"
SPOOL = "b200-events.path"
AUTHORITY = f"{CONFIG.parent}/events-ca.pem"
URL, KEY = (f"{SECRETS}/{name}" for name in (config.URL, config.KEY))
_UNITS = tuple(f"/etc/systemd/system/{unit}" for unit in (SPOOL, UNIT))
_PATHS = (*_UNITS, str(CONFIG), AUTHORITY, URL, KEY)


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The sinks' configuration, and the unit that delivers to them; nothing where there is none."""
    del layout
    files = [] if node.headless or not node.spec.events else _files(node, node.spec.events)
    kept = {file.path for file in files}
    return DesiredState(
        files=tuple(files),
        units=(Unit(SPOOL),) if files else (),
        absent_files=tuple(path for path in _PATHS if path not in kept),
    )


def _files(node: Node, events: Events) -> list[File]:
    """Configuration and secrets first: the unit reads them when it starts."""
    restart = (f"restart:{UNIT}",)
    hook = events.webhook
    # The words of a command may be secret, too.
    found = [File(str(CONFIG), _document(node, events), 0o600, secret=True, notify=restart)]
    secrets = {}
    if hook:
        # Of some sites the URL is the secret; where it is none it does no harm as one.
        plain = Secret(hook.url.encode()) if isinstance(hook.url, str) else None
        secrets[URL] = plain or node.secrets.get("events.webhook.url")
        secrets[KEY] = node.secrets.get("events.webhook.key")
        if hook.ca_file:
            found.append(File(AUTHORITY, Path(hook.ca_file).read_bytes(), notify=restart))
    given = {path: secret.reveal() for path, secret in secrets.items() if secret}
    for path, content in given.items():
        found.append(File(path, content, 0o600, secret=True, notify=restart))
    words = {"program": INSTALLED, "spool": DIRECTORY, "credentials": list(given)}
    for unit in (UNIT, SPOOL):
        content = render(f"systemd/{unit}.j2", spec=node.spec, **words)
        found.append(File(f"/etc/systemd/system/{unit}", content, notify=(f"restart:{unit}",)))
    return found


def _document(node: Node, events: Events) -> bytes:
    """What the node program needs to know (b200kit/node/events/config.py)."""
    hook = events.webhook
    plan = EventPlan(
        node=node.name,
        kept=events.kept,
        deadline_s=events.deadline_s,
        command=tuple(events.command),
        webhook=hook is not None,
        ca_file=AUTHORITY if hook and hook.ca_file else "",
    )
    return documents.to_bytes(plan)


def plan(node: Node) -> list[Change]:
    """Deliver to the sinks of the inventory, and to no other."""
    target = desired(node, ())
    left = [path for path in target.absent_files if drift.is_present(path, node.state or {})]
    return [*([_removal(left)] if left else []), *converge(node, target)]


def _removal(left: Sequence[str]) -> Change:
    """What an earlier inventory asked for; of events that wait, those without a sink go."""
    steps = [f"rm -f {shlex.join(left)}", "systemctl daemon-reload"]
    if str(CONFIG) in left:
        steps = [f"systemctl disable --now {SPOOL} {UNIT}", *steps, f"rm -rf {DIRECTORY}"]

    def remove(node: Node) -> None:
        node.connected().run(" && ".join(steps))

    return Change(f"remove {', '.join(left)}", remove)


STAGE = Stage(name="events", desired=desired, plan=plan)
