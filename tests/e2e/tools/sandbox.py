"""Sandbox lines of the units' templates, what they must forbid, and units to try it in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
ACTS: dict[str, Any] = yaml.safe_load((ROOT / "tests/data/sandbox-acts.yaml").read_text("utf-8"))
FORBIDS: Mapping[str, Any] = ACTS["forbids"]
OTHERS: Mapping[str, str] = ACTS["others"]
TRY = "/opt/acts/try.py"
"""Where the program that tries the acts lies on a node."""
# Every directive by which systemd.exec(5) and systemd.resource-control(5) confine a process.
_SANDBOX = re.compile(
    r"(?m)^((?:Private|Protect|Restrict|SystemCall|IPAddress|Device)\w+|\w*Paths|\w*Capabilit\w+|"
    r"NoNewPrivileges|LockPersonality|MemoryDeny\w+|KeyringMode|UMask|RemoveIPC|ProcSubset|"
    r"DynamicUser|User)=(.*)$"
)
_VALUES = {"secrets": "/etc/b200kit/secrets", "root": "/srv/models", "user": "vllm"}


@dataclass(frozen=True)
class Line:
    """A sandbox line of a template."""

    directive: str
    value: str

    @property
    def text(self) -> str:
        """As a unit has it."""
        return f"{self.directive}={self.value}"

    @property
    def act(self) -> str | None:
        """The name of the act that it must forbid."""
        return next((key for key in (self.text, self.directive) if key in FORBIDS), None)

    @property
    def is_known(self) -> bool:
        """Whether the data says of it what it forbids, or what else it is for."""
        return self.act is not None or bool({self.text, self.directive} & {*OTHERS})


def templates() -> dict[str, list[Line]]:
    """Template to its sandbox lines; the same in every rendering but for paths and addresses."""
    found = {}
    for path in sorted((ROOT / "templates/systemd").iterdir()):
        # What podman makes of a container's section is podman's.
        section = path.read_text("utf-8").rpartition("[Service]")[2]
        lines = [Line(key, _filled(value)) for key, value in _SANDBOX.findall(section)]
        found[path.name.removesuffix(".j2")] = [line for line in lines if "{{" not in line.value]
    return {name: lines for name, lines in found.items() if lines}


def _filled(value: str) -> str:
    for name, known in _VALUES.items():
        value = value.replace(f"{{{{ {name} }}}}", known)
    return value


def unit(name: str, lines: Sequence[str], acts: Sequence[str]) -> str:
    """A unit that tries acts, one after another, between its sandbox lines."""
    quoted = " ".join(f'"{act}"' for act in acts)
    # The service manager itself opens the file, outside of the sandbox.
    return "\n".join(
        [
            "[Service]",
            "Type=oneshot",
            f"StandardOutput=file:/run/acts/{name}",
            f"Environment=U={name}",
            f"ExecStart=/usr/bin/python3 -I {TRY} {quoted}",
            *lines,
        ]
    )


# It says which acts succeed, and at last that it tried all.
PROGRAM = """\
import json, os, subprocess, sys, tempfile
table = json.load(open("/opt/acts/acts.json"))
os.environ["ACTS"] = "/opt/acts"
for name in sys.argv[1:]:
    try:
        os.environ["T"] = tempfile.mkdtemp(dir="/run/acts/free")
    except OSError:
        os.environ["T"] = "/run/acts/nowhere"
    done = subprocess.run(["sh", "-ec", table[name]["act"]], capture_output=True, text=True)
    if done.returncode == 0:
        print("could", name)
    else:
        print("not", name, done.returncode, " ".join(done.stderr.split())[-200:])
print("end")
"""
