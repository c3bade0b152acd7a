"""A scenario's `image`: what a vendor or a site has put on a disk before it is provisioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab.hardware.scenario import load
from tests.lab.paths import host_address
from tests.lab.shell import run

USER = "ops"
"""Who enters a host that lets no root in."""
_SUDO = {"sudo": "NOPASSWD: ALL", "sudo-password": "ALL"}
_LOGIN = f"""
useradd --create-home --shell /bin/bash {USER}
install -d -m 700 -o {USER} -g {USER} /home/{USER}/.ssh
install -m 600 -o {USER} -g {USER} /root/.ssh/authorized_keys /home/{USER}/.ssh/
rm /root/.ssh/authorized_keys
echo PermitRootLogin no > /etc/ssh/sshd_config.d/00-image.conf
umask 227
"""
# What asks systemd whether it runs in a container is told that it does not, so that kernel, headers
# and firmware count as the host's own.
_BARE_METAL = r"""
printf '#!/bin/sh\necho none\nexit 1\n' > /usr/bin/systemd-detect-virt
for build in /lib/modules/*/build; do mkdir -p "$build"; : > "$build/Makefile"; done
"""


def login(scenario: str) -> dict[str, Any]:
    """How pyinfra enters a host of a scenario; nothing where it is root."""
    return {} if _image(scenario)["login"] == "root" else {"ssh_user": USER, "_sudo": True}


def entries(
    names: Sequence[str], scenarios: Mapping[str, str], kept: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Hosts as `lab.json` has them; one that is kept has the disk, and so the login, it had."""
    logins = {name: login(scenarios[name]) for name in names}
    logins |= {host["name"]: host.get("login", {}) for host in kept}
    return [
        {
            "name": name,
            "address": host_address(name),
            "scenario": scenarios[name],
            "login": logins[name],
        }
        for name in names
    ]


def users(hosts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Host to who enters it, where that is not root."""
    return {host["name"]: host["login"]["ssh_user"] for host in hosts if host.get("login")}


def install(root: Path, scenario: str) -> None:
    """Write a scenario's image onto a host's disk that has its keys and kernel already."""
    image = _image(scenario)
    script = "umask 022\n"
    if image["login"] != "root":
        sudo = f"{USER} ALL=(ALL) {_SUDO[image['login']]}"
        script += f"(set -e{_LOGIN}echo '{sudo}' > /etc/sudoers.d/image)\n"
    if image["bare_metal"]:
        script += _BARE_METAL
    for path, text in image["files"].items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    run(["chroot", root, "sh", "-ec", script + image["script"]])


def _image(scenario: str) -> dict[str, Any]:
    image: dict[str, Any] = load(scenario)["image"]
    return image
