"""`firewall`: try new rules, and keep them only when a new connection has proven them.

    firewall try --after 60    check the rules on standard input, remember what is there, start
                               the timer that brings it back, load the rules
    firewall keep              stop the timer; from now on every boot loads these rules
    firewall back              what the timer runs: load what was there before

Exit status: 0 done, 1 not done, with the reason on standard error. Nothing here touches another
table than ours.
"""

from __future__ import annotations

import argparse
import fcntl
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from b200kit.node.facts.nft_rules import TABLE
from b200kit.node.lib import durable_files, lock, program
from b200kit.node.lib.readings import command

RUN = Path("/run/b200kit")
KEPT = Path("/etc/b200kit/firewall.nft")
UNIT = "b200-firewall.service"
TIMER = "b200-firewall-back"


def trial() -> Path:
    """The rules under trial; they are on trial as long as this file is there."""
    return RUN / "firewall-trial.nft"


def before() -> Path:
    """A script that brings back the table as it was before the trial."""
    return RUN / "firewall-before.nft"


@contextmanager
def alone() -> Iterator[None]:
    """Keep and back never at the same time: whichever comes first wins."""
    with open(lock.opened(RUN / "firewall.lock"), "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def begin(after_s: int, rules: str) -> None:
    """Load *rules*, with the timer running that takes them back."""
    # Left by a run that was killed: its rules must not count as what was there before.
    back()
    candidate = RUN / "firewall-candidate.nft"
    durable_files.replace(candidate, rules)
    try:
        command(["nft", "-c", "-f", str(candidate)])
        durable_files.replace(before(), snapshot())
        start_timer(after_s)
        # Only now, with the timer running, does the unit find them.
        candidate.replace(trial())
        # Reload swaps the table in one transaction; a restart would leave the node open in between.
        command(["systemctl", "reload-or-restart", UNIT])
    except OSError:
        candidate.unlink(missing_ok=True)
        back()
        raise


def start_timer(after_s: int) -> None:
    """Have systemd run `firewall back` in a while, whatever becomes of us."""
    command(["systemctl", "stop", f"{TIMER}.timer"], accept=(0, 5))
    archive = shlex.quote(str(program.LOCATION))
    undo = f"{shlex.quote(sys.executable)} -I {archive} firewall back"
    timer = ["--quiet", "--collect", f"--unit={TIMER}", f"--on-active={after_s}"]
    command(["systemd-run", *timer, "--timer-property=AccuracySec=1s", "sh", "-c", undo])


def snapshot() -> str:
    """A script that makes the table what it is now, or takes it away when there is none."""
    head = f"table inet {TABLE}\ndelete table inet {TABLE}\n"
    tables = command(["nft", "list", "tables", "inet"])
    if f"table inet {TABLE}" not in tables.splitlines():
        return head
    return head + command(["nft", "-s", "list", "table", "inet", TABLE])


def keep() -> None:
    """Make the trial's rules those of every boot; OSError when they were taken back already."""
    with alone():
        if not (trial().exists() and before().exists()):
            raise OSError("the rules were taken back before this connection came")
        durable_files.replace(KEPT, trial().read_text(encoding="utf-8"))
        before().unlink()
        trial().unlink()
    command(["systemctl", "stop", f"{TIMER}.timer"], accept=(0, 5))
    command(["systemctl", "enable", "--quiet", UNIT])


def back() -> None:
    """Load what was there before the trial; nothing when no trial is on."""
    with alone():
        if not before().exists():
            return
        try:
            command(["nft", "-f", str(before())])
        except OSError:
            # Rather open than shut: somebody must be able to reach the node and repair it.
            command(["nft", "delete", "table", "inet", TABLE])
        trial().unlink(missing_ok=True)
        before().unlink()
        print("the rules on trial were not confirmed; what was there before is back")


def main(args: list[str]) -> int:
    """Run one act; 1 with its reason when it cannot be done."""
    parser = argparse.ArgumentParser(prog="firewall")
    acts = parser.add_subparsers(dest="act", required=True)
    acts.add_parser("try").add_argument("--after", type=int, required=True)
    acts.add_parser("keep")
    acts.add_parser("back")
    options = parser.parse_args(args)
    try:
        if options.act == "try":
            begin(options.after, sys.stdin.read())
        else:
            {"keep": keep, "back": back}[options.act]()
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
