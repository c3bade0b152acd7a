"""`b200 check`, a newcomer's look at nodes without an inventory; nothing is left there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import Boot
from tests.e2e.driving import ROOT, deploy, on
from tests.lab.hardware.image import USER
from tests.lab.own_network import join
from tests.lab.paths import lab_paths

pytestmark = pytest.mark.long

B200 = Path(sys.executable).with_name("b200")
HEALTHY, FAULTY, BARE = "b200-1", "b200-2", "b200-3"
PASSWORD = "open sesame"
# The whole file system, and what is mounted at /run, /tmp, /var and /dev/shm: kind, mode, owner,
# size, time and path. Left out are logs, the journal, what PAM, logind and systemd keep of a
# session, and what the node's own services write.
# Brackets, so that the shell that asks is not found.
_AT_WORK = "[/]proc/[0-9]+/fd/[0-9]+"
_SESSION = "^[s]shd: root@notty"
_LOOK = """
find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /var/log -o -path /run/log \
  -o -path /run/systemd -o -path /run/user -o -path /run/utmp -o -path /run/sudo \
  -o -path /var/lib/systemd -o -path /var/lib/b200-lab -o -path '/run/b200*' \
  -o -path '/var/lib/b200kit/*' \\) -prune -o -printf '%y %m %U %s %T@ %p\\n'
for place in /run /tmp /var /dev/shm; do
  find $place -xdev \\( -path /var/log -o -path /run/log -o -path /run/systemd -o -path /run/user \
  -o -path /run/utmp -o -path /var/lib/b200-lab -o -path /var/lib/systemd \\) \
  -prune -o -printf '%y %m %U - - %p\\n'
done
"""


@dataclass(frozen=True)
class Said:
    """One finished command."""

    code: int
    out: str
    err: str

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """The hosts of a record."""
        found: dict[str, dict[str, Any]] = json.loads(self.out)["hosts"]
        return found


def check(*words: str, config: Path | None = None, stdin: str = "") -> Said:
    """Run `b200 check` as a person does, in the lab's network."""
    asked = [str(B200), "check", "-F", str(config or lab_paths().ssh_config), "--json", *words]
    done = subprocess.run(
        asked, cwd=ROOT, capture_output=True, text=True, input=stdin, timeout=300, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr)


def looked(name: str) -> set[str]:
    """All that is on a node and stays: two listings agree on it.

    The node's own services replace their files by way of a temporary one, which a single listing
    can catch.
    """
    lines = set(on(name, _LOOK).splitlines()) & set(on(name, _LOOK).splitlines())
    assert len(lines) > 5000
    return lines


def left_by(destination: str, act: Callable[[], object]) -> set[str]:
    """What *act* left on the healthy node, but for the paths that any login there touches."""
    before = looked(HEALTHY)
    login = ["ssh", "-F", str(lab_paths().ssh_config), destination, "true"]
    subprocess.run(login, check=True, capture_output=True)
    logged_in = looked(HEALTHY)
    act()
    moved = {_path(line) for line in before ^ logged_in}
    assert len(moved) < 10, moved
    return {line for line in logged_in ^ looked(HEALTHY) if _path(line) not in moved}


def _path(line: str) -> str:
    return line.split(" ", 5)[5]


def config(folder: Path, **options: str) -> Path:
    """The lab's ssh_config with other values."""
    lines = [
        next((f"    {key} {value}" for key, value in options.items() if key in line), line)
        for line in lab_paths().ssh_config.read_text().splitlines()
    ]
    path = folder / "ssh_config"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def nodes(boot: Boot) -> None:
    """A healthy node and one with a fault, both with a driver, and a bare one."""
    boot("healthy", "gpu2-no-nvlink", "healthy")
    done = deploy("b200.py", "--limit", HEALTHY, "--limit", FAULTY)
    assert (done.outcome(HEALTHY), done.outcome(FAULTY)) == ("live", "red"), done.said[-3000:]
    join()
    return


@pytest.fixture(scope="module")
def user(nodes: None) -> Callable[[str], None]:
    """A user on the healthy node who is not root; what sudo asks of them is a rule of sudoers."""
    on(
        HEALTHY,
        f"useradd --create-home --shell /bin/bash {USER} && echo '{USER}:{PASSWORD}' | chpasswd; "
        f"install -d -m 700 -o {USER} /home/{USER}/.ssh && "
        f"install -m 600 -o {USER} /root/.ssh/authorized_keys /home/{USER}/.ssh/",
    )

    def may(rule: str) -> None:
        on(HEALTHY, f"echo '{USER} ALL=(ALL) {rule}' > /etc/sudoers.d/door")

    return may


def test_healthy_node_is_fit_and_the_fault_is_named(nodes: None) -> None:
    started = time.monotonic()
    said = check(HEALTHY, FAULTY)
    print(f"b200 check of two nodes: {time.monotonic() - started:.1f} s")
    assert said.code == 1, said.err
    assert said.hosts[HEALTHY]["outcome"] == "fit", said.hosts[HEALTHY]["error"]
    worst = next(f for f in said.hosts[FAULTY]["verdict"]["findings"] if f["status"] == "fail")
    assert (worst["check"], worst["subject"]) == ("nvlink.links", "GPU 2")
    assert said.hosts[FAULTY]["outcome"] == "unfit"


def test_bare_node_is_recognised_as_one(nodes: None) -> None:
    found = check(BARE).hosts[BARE]
    assert found["expectation"]["hardware"]["name"] == "hgx-b200"
    assert found["outcome"] == "bare"


def test_bad_host_costs_a_good_one_nothing(nodes: None, tmp_path: Path) -> None:
    lab.unplug(BARE)
    try:
        said = check(HEALTHY, BARE)
    finally:
        lab.plug(BARE)
    assert said.code == 1
    assert {name: host["outcome"] for name, host in said.hosts.items()} == {
        HEALTHY: "fit",
        BARE: "unreachable",
    }


def test_unknown_host_key_is_refused_before_anything_is_run(nodes: None, tmp_path: Path) -> None:
    before = looked(HEALTHY)
    empty = config(tmp_path, UserKnownHostsFile="/dev/null", StrictHostKeyChecking="no")
    said = check(HEALTHY, config=empty)
    assert (said.code, said.hosts[HEALTHY]["outcome"]) == (1, "unreachable")
    assert said.hosts[HEALTHY]["cause"] == "host-key-unknown"
    assert looked(HEALTHY) == before


def test_nothing_is_left_on_the_node(nodes: None) -> None:
    codes = []
    assert left_by(HEALTHY, lambda: codes.append(check(HEALTHY).code)) == set()
    assert codes == [0]


def test_nothing_is_left_where_the_connection_breaks(nodes: None) -> None:
    assert left_by(HEALTHY, cut_off) == set()


def cut_off() -> None:
    """Break the connection as soon as somebody is logged in, and while the program is at work.

    The watcher runs before anybody comes, and the program is stopped where it is seen: however slow
    the machine is, it has not ended by then.
    """
    asked = [str(B200), "check", "-F", str(lab_paths().ssh_config), HEALTHY]
    kill, stop = f"pkill -KILL -f '{_SESSION}'", f"pkill -STOP -f '{_AT_WORK}'"
    for act in (
        f"until {kill}; do sleep 0.01; done",
        f"until {stop}; do sleep 0.01; done; {kill}; pkill -CONT -f '{_AT_WORK}'",
    ):
        with ThreadPoolExecutor(1) as pool:
            watch = pool.submit(on, HEALTHY, f'timeout 60 sh -c "{act}"')
            until(lambda: bool(on(HEALTHY, "pgrep -f '[t]imeout 60'; true")))
            done = subprocess.run(asked, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
            watch.result()
        assert done.returncode == 1
    until(lambda: not on(HEALTHY, f"pgrep -f '{_AT_WORK}'; true"))


def until(seen: Callable[[], bool]) -> None:
    """Return when *seen*, or after a minute."""
    deadline = time.monotonic() + 60
    while not seen() and time.monotonic() < deadline:
        time.sleep(0.1)


def test_user_with_sudo_sees_what_root_sees(user: Callable[[str], None]) -> None:
    user("NOPASSWD: ALL")
    who, said = f"{USER}@{HEALTHY}", []
    assert left_by(who, lambda: said.append(check(who))) == set()
    assert said[0].hosts[who]["outcome"] == "fit", said[0].out[-1000:]


def test_password_of_sudo_is_asked_for_and_shown_nowhere(user: Callable[[str], None]) -> None:
    user("ALL")
    who = f"{USER}@{HEALTHY}"
    refused = check(who).hosts[who]
    assert (refused["outcome"], refused["cause"]) == ("failed", "sudo-refused")
    given = check("-K", who, stdin=f"{PASSWORD}\n")
    assert given.hosts[who]["outcome"] == "fit", given.hosts[who]["error"]
    wrong = check("-K", who, stdin="wrong\n").hosts[who]
    assert wrong["outcome"] == "failed"
    assert PASSWORD not in given.out + given.err
    assert PASSWORD not in on(HEALTHY, "journalctl --no-pager -o cat; cat /var/log/* 2>/dev/null")
    assert on(HEALTHY, "journalctl --no-pager -o cat -t sudo | grep -c 'incorrect password'") <= "1"


def test_page_and_wall_time_of_the_door(nodes: None, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    variables = {**os.environ, "HOME": str(tmp_path)}
    asked = [str(B200), "check", "-F", str(lab_paths().ssh_config), "--page", str(page), HEALTHY]
    done = subprocess.run(asked, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "NV18" in done.stdout
    assert "<svg" in page.read_text()
