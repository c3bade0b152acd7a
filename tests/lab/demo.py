"""`make demo`: boot a simulated 8x B200 node and run the real deploy against it over SSH."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import tests.lab as lab

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ("inventories/lab.py", "deploy/b200.py", "-y")


def main(system: str | None = None) -> int:
    """Lab up, deploy, and how to go on; returns the deploy's exit code."""
    started = time.monotonic()
    try:
        state = lab.up(1, ["healthy"], system=system)
    except lab.LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    _tell_engine(state["engine"])
    print(f"demo: pyinfra {' '.join(DEPLOY)}", file=sys.stderr, flush=True)
    pyinfra = Path(sys.executable).with_name("pyinfra")
    code = subprocess.run([pyinfra, *DEPLOY], cwd=ROOT, env=os.environ, check=False).returncode
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    print(f"\ndemo took {minutes} m {seconds:02d} s. What next:")
    print("  make test                                        the tests")
    print("  .venv/bin/pyinfra inventories/lab.py deploy/b200.py -y    again: nothing changes")
    print("  .venv/bin/pyinfra inventories/lab.py deploy/check.py -y   the topology check alone")
    print("  .venv/bin/b200 lab down                          tear it down (or: make down)")
    return code


def _tell_engine(engine: dict[str, object]) -> None:
    if engine["stand_in"]:
        print(
            "demo: vLLM's CPU build cannot be had for this node, so a STAND-IN ENGINE with vLLM's "
            "HTTP contract serves instead; its latencies say nothing about vLLM",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
