"""The page of the fleet over two live nodes: a fault, a node that is switched off, and both mended.

One `b200 watch` follows all of it, as on a wall; what it shows is read from its screens.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import ROOT, cursor, deploy, on
from tests.e2e.tools import agent_file
from tests.interrupts import heed_interrupts

pytestmark = pytest.mark.long

NODE, OTHER = "b200-1", "b200-2"
B200 = Path(sys.executable).with_name("b200")
EVERY_S = 2
_END = re.compile(r"^as read at .*$", re.MULTILINE)
# What 20 answers cost the node: user and system seconds of all that bash began.
_COST = """bash -c 'one() { python3 -I /usr/local/lib/b200kit/node.pyz standing; }
one | wc -c; for i in {1..20}; do one >/dev/null; done; times'"""
_LOGINS = "journalctl -u ssh -o cat --no-pager --after-cursor='{}' | grep -c 'Accepted publickey'"
# The lab's own nodes are looked at every 300 s, and prove nothing.
PROVEN = (
    "--data", 'watchdog={"health_check_s": 2, "health_check_deadline_s": 25}',
    "--data", 'proof={"health_ttl_s": 30}',
)  # fmt: skip


@dataclass
class Wall:
    """A `b200 watch` that runs: the screens that it printed, and its page."""

    process: subprocess.Popen[str]
    printed: Path
    page: Path

    def screens(self) -> list[str]:
        """Every whole screen so far."""
        return _END.split(self.printed.read_text())[:-1]

    def until(self, *texts: str, seconds: float = 200) -> float:
        """Seconds until a new screen shows all these texts."""
        began, known = time.monotonic(), len(self.screens())
        while not any(all(t in s for t in texts) for s in self.screens()[known:]):
            assert self.process.poll() is None, self.printed.read_text()[-3000:]
            assert time.monotonic() < began + seconds, self.screens()[-1]
            time.sleep(0.2)
        return time.monotonic() - began


@pytest.fixture(scope="module")
def wall(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wall]:
    """Two nodes that serve under a proof, and who watches them."""
    live(2)
    proven = deploy("b200.py", *PROVEN)
    assert proven.code == 0, proven.said[-3000:]
    folder = tmp_path_factory.mktemp("wall")
    page = folder / "page.html"
    words = [str(B200), "watch", "-i", "inventories/lab.py", "--every", str(EVERY_S)]
    words += ["--page", str(page)]
    with (folder / "printed").open("w") as out:
        process = subprocess.Popen(
            words, cwd=ROOT, stdout=out, text=True, preexec_fn=heed_interrupts
        )
        yield Wall(process, folder / "printed", page)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_sound_nodes_are_one_line_and_each_is_asked_over_one_connection(wall: Wall) -> None:
    here = cursor(NODE)
    print(f"both serve after {wall.until('2 nodes  serving', 'b200-[1-2]'):.1f} s")
    for _ in range(3):
        wall.until("2 nodes  serving")
    assert int(on(NODE, _LOGINS.format(here) + " || true")) <= 1
    assert "b200-[1-2]" in wall.page.read_text()
    size, _, took = on(NODE, _COST).strip().split("\n")
    print(f"standing: {size} bytes, {took.strip()} of CPU time for 20")


def look() -> None:
    """As often as a fault is confirmed by, and over."""
    agent_file.look(NODE, 3)


def test_a_fault_shows_what_is_out_and_since_when_until_it_is_over(wall: Wall) -> None:
    lab.inject(NODE, "seventeen-links")
    try:
        look()
        took_s = wall.until(f"{NODE}  PARTLY OUT  since ", "GPU 3 has 17 of 18 NVLinks up", "-> ")
        assert "1 node  serving" in wall.screens()[-1]
        assert "PARTLY OUT" in wall.page.read_text()
    finally:
        lab.inject(NODE, "healthy")
        look()
    print(f"a fault is shown after {took_s:.1f} s, over {wall.until('2 nodes  serving'):.1f} s")


def test_a_node_that_is_off_is_not_read_and_holds_nobody(wall: Wall) -> None:
    lab.kill(OTHER)
    print(f"off is shown after {wall.until(f'{OTHER}  NOT READ  since '):.1f} s")
    began = time.monotonic()
    for _ in range(3):
        wall.until("1 node  serving", f"{OTHER}  NOT READ")
    print(f"three rounds of the other take {time.monotonic() - began:.1f} s")
    lab.power_on(OTHER)
    print(f"back is shown after {wall.until('2 nodes  serving'):.1f} s")
