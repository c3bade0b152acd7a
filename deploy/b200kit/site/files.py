"""An inventory's files out of its values: Python that pyinfra executes, a reason at every value."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from b200kit.node.lib import durable_files
from b200kit.run import known_hosts, places
from b200kit.run.login import JUMP
from b200kit.run.render import render
from b200kit.site import plan
from b200kit.site.plan import SeenNode, SiteRequest, SiteValue

NODES, DATA = "inventories/prod.py", "inventories/group_data/prod.py"
CONNECTION, HOSTS = "inventories/group_data/all.py", "inventories/known_hosts"
_WIDTH = 90
# Files of the site that are named by where they are.
_BESIDE = (plan.MIRROR_KEY, plan.CERTIFICATE, plan.API_KEY, plan.HF_TOKEN)


def written(
    nodes: Sequence[SeenNode],
    asked: SiteRequest,
    model: Any,
    choices: Mapping[str, Any],
    hosts: str,
) -> dict[str, str]:
    """Path to text; *hosts* is the known_hosts file as it is, whose other hosts stay."""
    shared = plan.common(nodes)
    rows = [(node, plan.own(node, shared)) for node in nodes]
    data = {**shared, **plan.served(asked, model, choices)}
    ways = {(node.login.user, node.login.key, node.login.jump) for node in nodes}
    if len(ways) > 1:
        rows = [(node, {**_login(node), **values}) for node, values in rows]
    everyone = _login(nodes[0]) if len(ways) == 1 else {}
    return {
        NODES: _text("nodes", rows=rows),
        DATA: _text("data", values=data, narrow=plan.narrow(model)),
        CONNECTION: _text("connection", values=everyone),
        HOSTS: _known(nodes, hosts),
    }


def make_key(folder: Path) -> Path | None:
    """Make the key that clients must present, readable by its owner; None where there is one."""
    path = folder / places.INVENTORIES / plan.API_KEY
    if path.exists():
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    durable_files.replace(path, secrets.token_hex(32) + "\n", 0o600)
    return path


def _login(node: SeenNode) -> dict[str, SiteValue]:
    login = node.login
    why = f"as ssh resolves {node.typed}"
    found = {"ssh_user": SiteValue(login.user, why)}
    if login.user != "root":
        found["_sudo"] = SiteValue(True, "not root")
    if login.key:
        found["ssh_key"] = SiteValue(login.key, why)
    if login.jump:
        found[JUMP] = SiteValue(login.jump, f"{why}: the jump host before it")
    return found


def _known(nodes: Sequence[SeenNode], text: str) -> str:
    for pin in dict.fromkeys(pin for node in nodes for pin in node.pins):
        if set(known_hosts.pinned(text, [pin.name])) != set(pin.keys):
            # The reason stays with the key: whoever comes later finds it, and the next run, too.
            lines = [f"{key} {pin.why}" for key in pin.keys]
            text = known_hosts.repinned(text, [pin.name], lines)
    return text


def _text(template: str, **values: object) -> str:
    return render(f"site/{template}.py.j2", python=_python, **values).decode()


def _python(value: object) -> str:
    """A literal, a key a line where it is long; a path beside the inventory is an expression."""
    if isinstance(value, dict):
        pairs = [f"{_python(key)}: {_python(each)}" for key, each in value.items()]
        text = f"{{{', '.join(pairs)}}}"
        return text if len(text) <= _WIDTH else "{\n" + "".join(f"    {p},\n" for p in pairs) + "}"
    if value in _BESIDE:
        return f'str(_here / "{value}")'
    return json.dumps(value) if isinstance(value, str) else repr(value)
