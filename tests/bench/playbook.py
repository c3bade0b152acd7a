"""The states of nodes as an Ansible playbook of ordinary modules, and how it is run at its best.

No content is in the playbook, as Ansible would take braces in it for a template: files are copied
from sources. What else comes from the states is marked as text that is no template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from b200kit.node.state.drift import File
from tests.bench import node_states
from tests.bench.node_states import States

PLAYBOOK, INVENTORY, CONFIGURATION = "playbook.yml", "hosts.json", "ansible.cfg"
AT_ITS_BEST = "facts off, pipelining, forks >= nodes, strategy free, ControlPersist within a run"


class Plain(str):
    """Text that Ansible must not take for a template."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(Plain, lambda dumper, text: dumper.represent_scalar("!unsafe", text))


def playbook(states: States, sources: Path) -> str:
    """YAML of one play; a host's files lie in *sources*/HOST (`node_states.source`)."""
    play = {
        "hosts": "all",
        "gather_facts": False,
        "strategy": "free",
        "tasks": [_files(states, sources), *_packages(states), _units(states)],
    }
    return yaml.dump([play], Dumper=_Dumper, sort_keys=False)


def _files(states: States, sources: Path) -> dict[str, Any]:
    return {
        "name": "Files",
        "no_log": True,
        # One by one: a tree in one copy takes fewer commands, and more modules for its directories.
        "ansible.builtin.copy": {
            "src": f"{sources}/{{{{ inventory_hostname }}}}/{{{{ item.source }}}}",
            "dest": "{{ item.path }}",
            "owner": "{{ item.owner }}",
            "group": "{{ item.group }}",
            "mode": "{{ item.mode }}",
        },
        "loop": [_place(file) for file in states.files],
    }


def _place(file: File) -> dict[str, str]:
    owner, group = file.owner.split(":")
    texts = {"source": node_states.source(file), "path": file.path, "owner": owner, "group": group}
    return {**{key: Plain(text) for key, text in texts.items()}, "mode": f"{file.mode:04o}"}


def _packages(states: States) -> list[dict[str, Any]]:
    names = [f"{p.name}={p.version}" if p.version else p.name for p in states.packages]
    options = {"state": "present", "install_recommends": False, "update_cache": False}
    return [
        {"name": "Packages", "ansible.builtin.apt": {"name": [*map(Plain, names)], **options}},
        {
            "name": "Holds",
            "ansible.builtin.dpkg_selections": {"name": "{{ item }}", "selection": "hold"},
            "loop": [*map(Plain, states.holds)],
        },
    ]


def _units(states: States) -> dict[str, Any]:
    state = {True: {"state": "started"}, False: {}}
    return {
        "name": "Units",
        "ansible.builtin.systemd_service": {
            "name": "{{ item.name }}",
            "enabled": True,
            "state": "{{ item.state | default(omit) }}",
        },
        "loop": [{"name": Plain(unit.name), **state[unit.active]} for unit in states.units],
    }


def inventory(connections: Mapping[str, Mapping[str, Any]]) -> str:
    """An inventory of hosts by their connection as pyinfra names it."""
    hosts = {name: _connection(reached) for name, reached in connections.items()}
    return json.dumps({"all": {"hosts": hosts}})


def _connection(reached: Mapping[str, Any]) -> dict[str, Any]:
    held_to = f"-o UserKnownHostsFile={reached['ssh_known_hosts_file']} -F /dev/null"
    return {
        "ansible_host": reached["ssh_hostname"],
        "ansible_user": reached.get("ssh_user", "root"),
        "ansible_ssh_private_key_file": reached["ssh_key"],
        "ansible_ssh_common_args": f"{held_to} -o StrictHostKeyChecking=yes -o BatchMode=yes",
        # Nothing is looked for that is known.
        "ansible_python_interpreter": "/usr/bin/python3",
    }


def configuration(folder: Path, forks: int) -> str:
    """ansible.cfg; sockets of connections and scratch files are in *folder*."""
    return f"""\
[defaults]
home = {folder}/home
forks = {forks}
gathering = explicit
nocolor = true
[connection]
pipelining = true
[ssh_connection]
ssh_args = -o ControlMaster=auto -o ControlPersist=60s
control_path_dir = {folder}/ctl
"""
