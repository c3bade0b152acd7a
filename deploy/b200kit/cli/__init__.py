"""`b200`: what is not a deploy. Each sub-command is a module of its own, loaded when asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

COMMANDS = {
    "audit": ("b200kit.cli.audit", "the log of every act on every node: verify it, show it"),
    "judge": ("b200kit.cli.judge", "judge a recorded NodeState: 0 fit, 1 unfit, 2 not measured"),
    "lab": ("tests.lab.cli", "simulated B200 nodes on this machine: up, down, status"),
    "plan": ("b200kit.cli.plan", "how a node should serve a model, and why"),
    "record": ("b200kit.cli.record", "measured runs: list, show, accept a baseline, compare"),
    "report": ("b200kit.cli.report", "show the report of the latest run, or of one"),
    "smoke": (
        "b200kit.cli.smoke",
        "latency of an endpoint: 0 pass, 1 fail, 2 invalid or bad input",
    ),
    "transaction": ("b200kit.cli.transaction", "nodes being mended: who holds what, since when"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one sub-command; 2 and the list of them when it is missing or unknown."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] not in COMMANDS:
        wanted = arguments and arguments[0] not in ("-h", "--help")
        print(_usage(), file=sys.stderr if wanted else sys.stdout)
        return 2 if wanted else 0
    module, _ = COMMANDS[arguments[0]]
    if module.startswith("tests."):
        # The lab lives beside the tests of a checkout, not in the installed package.
        sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    run = import_module(module).main
    status: int = run(arguments[1:])
    return status


def _usage() -> str:
    lines = [f"  {name:<11} {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(["usage: b200 COMMAND ...", "", *lines])


if __name__ == "__main__":
    sys.exit(main())
