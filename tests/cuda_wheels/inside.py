"""Programs run as the engine of a replica would be: by its very unit, with another ExecStart=."""

from __future__ import annotations

import base64
import json
import shlex
from dataclasses import dataclass
from typing import Any

from tests.e2e.driving import on

NODE, UNIT = "b200-1", "vllm@0.service"
_PLACE, _DROP_IN = "/run/tried", f"/run/systemd/system/{UNIT}.d/zz-tried.conf"
# Gate, user, sandbox and environment stay those of the unit. The service manager opens the files.
_INSTEAD = f"""\
[Service]
Type=oneshot
Restart=no
ExecStartPre=
ExecStart=
ExecStartPost=
ExecStopPost=
ExecStart=/bin/sh {_PLACE}/script
StandardOutput=truncate:{_PLACE}/out
StandardError=truncate:{_PLACE}/err
"""
_START = f"systemctl daemon-reload; systemctl reset-failed {UNIT}; systemctl start {UNIT}"


def _put(path: str, text: str) -> None:
    on(NODE, f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {path}")


@dataclass(frozen=True)
class Done:
    """One program that ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line on stderr, where Python names the exception."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else ""


class Inside:
    """The sandbox of replica 0."""

    def __init__(self) -> None:
        started = on(NODE, f"systemctl show -P ExecStart {UNIT}")
        [program] = [word for word in started.split() if word.endswith("/bin/vllm")]
        self.venv = program.removesuffix("/bin/vllm")

    def shell(self, script: str) -> Done:
        """Run a shell script; its programs find the engine's own first."""
        on(NODE, f"mkdir -p {_PLACE} $(dirname {_DROP_IN})")
        _put(f"{_PLACE}/script", f'mkdir -p "$HOME"\n{script}\n')
        _put(_DROP_IN, _INSTEAD)
        on(NODE, f"{_START}; rm {_DROP_IN}")
        code = on(NODE, f"systemctl show -P ExecMainStatus {UNIT}; systemctl daemon-reload")
        return Done(int(code), on(NODE, f"cat {_PLACE}/out"), on(NODE, f"cat {_PLACE}/err"))

    def python(self, program: str) -> Done:
        """Run a program by the engine's Python."""
        return self.shell(f"exec {self.venv}/bin/python -c {shlex.quote(program)}")

    def steps(self, *names: str) -> dict[str, dict[str, Any]]:
        """Answers of the engine probe's steps, each taken whatever came of those before it."""
        program = (
            "import sys; sys.path.insert(0, '/usr/local/lib/b200kit/node.pyz')\n"
            "from b200kit.node.cli import main\nsys.exit(main(sys.argv[1:]))"
        )
        begin = f"{self.venv}/bin/python -I -B -c {shlex.quote(program)} _engine-step"
        lines = [f"{begin} {name} $B200KIT_PROBE; echo" for name in names]
        answers = [
            json.loads(line) for line in self.shell("\n".join(lines)).out.split("\n") if line
        ]
        return dict(zip(names, answers, strict=True))
