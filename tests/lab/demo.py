"""`make demo`: boot a simulated 8x B200 node and run the real deploy against it over SSH."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import tests.lab as lab

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ("-i", "inventories/lab.py")
QUESTION = "Say hello."


def main(system: str | None = None) -> int:
    """Lab up, deploy, and how to go on; returns the deploy's exit code."""
    started = time.monotonic()
    try:
        state = lab.up(1, ["healthy"], system=system)
    except lab.LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    _tell_engine(state["engine"])
    # Others that are up may be there for their faults.
    node = str(state["hosts"][0]["name"])
    code = _run("deploy", node) or _run("ask", node, QUESTION)
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    if code:
        print(f"demo: {node} is not live: its lines above say why", file=sys.stderr)
        return code
    lab_id = os.environ.get("B200_LAB_ID")
    b200 = f"{f'B200_LAB_ID={lab_id} ' if lab_id else ''}.venv/bin/b200"
    print("(tiny-llama has random weights: its words mean nothing)")
    print(f"\ndemo took {minutes} m {seconds:02d} s. What next:")
    for command, does in (
        (f"{b200} deploy -i inventories/lab.py", "again: nothing changes"),
        (f"{b200} check -i inventories/lab.py", "the topology check alone"),
        (f"{b200} lab down", "tear it down"),
        ("make test", "the tests"),
    ):
        print(f"  {command:<62} {does}")
    return 0


def _run(*words: str) -> int:
    """Run b200 over the lab's inventory, as a person would type it."""
    command = [words[0], *INVENTORY, *words[1:]]
    print(f"demo: b200 {shlex.join(command)}", file=sys.stderr, flush=True)
    program = Path(sys.executable).with_name("b200")
    return subprocess.run([program, *command], cwd=ROOT, env=os.environ, check=False).returncode


def _tell_engine(engine: dict[str, object]) -> None:
    if engine["stand_in"]:
        print(
            "demo: vLLM's CPU build cannot be had for this node, so a STAND-IN ENGINE with vLLM's "
            "HTTP contract serves instead; its latencies say nothing about vLLM",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
