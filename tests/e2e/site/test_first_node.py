"""docs/first-node.md as a newcomer types it: an empty directory, two bare nodes, the first tokens.

What its first part needs is simulated outside and gone before the second one. The nodes reach
nothing but the mirror.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Boot
from tests.e2e.driving import ROOT
from tests.e2e.site.outside import COMMIT, REPOSITORY, Outside, world
from tests.lab.inventory import nodes
from tests.lab.own_network import join, outside
from tests.lab.paths import BRIDGE_ADDRESS, MODEL_NAME, lab_paths
from tests.lab.state import read_state
from tests.lab.supply.mirror_process import stop_mirror

pytestmark = pytest.mark.long

PAGE = ROOT / "docs/first-node.md"
NODES = {"n01": "b200-1", "n02": "b200-2"}
MIRROR = "10.0.0.1"
# What differs for a simulated node: the engine, patience with a busy machine, and its clock.
LAB = (
    "engine", "numa_policy", "reboot_deadline_s", "fabric_deadline_s", "warm_deadline_s",
    "warm_tolerance", "stage_timeout_s", "watchdog", "clock_synchronized", "smoke",
    "cpu_wait_limit_factor",
)  # fmt: skip
MOST_LINES = 12
"""That a person types until the nodes are live."""


def lines(heading: str) -> list[str]:
    """The commands below a heading of the page."""
    [_, part] = PAGE.read_text().split(f"\n## {heading}\n")
    return re.findall(r"(?m)^    (.+)$", part.partition("\n## ")[0])


AWAY, SITE = lines("With internet access"), lines("At the site")


@dataclass(frozen=True)
class Newcomer:
    """Somebody in a clone, with a home of their own."""

    home: Path
    environment: dict[str, str]

    @property
    def inventories(self) -> Path:
        """What they have made of the empty directory."""
        return self.home / "site/inventories"

    def types(self, typed: list[str]) -> str:
        """Type lines of the page into one shell, which ends at the first that fails."""
        activate = f". {self.home}/b200/bin/activate 2>/dev/null || true"
        script = "\n".join([activate, "set -ev", *map(self._own, typed)])
        # What is left in the background ends with its terminal.
        asked = ["bash", "-c", f"trap 'jobs -p | xargs -r kill' EXIT\n{script}\n"]
        done = subprocess.run(
            asked, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=1200,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        print(done.stderr, done.stdout, sep="\n")
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
        return done.stdout

    def _own(self, line: str) -> str:
        words = {"REPO@COMMIT": f"{REPOSITORY}@{COMMIT}", "MODEL": MODEL_NAME}
        words |= {"DISK": str(self.home / "disk"), MIRROR: BRIDGE_ADDRESS}
        words |= {"KERNEL": os.uname().release}
        for word, own in words.items():
            line = line.replace(word, own)
        return line


@pytest.fixture(scope="module")
def home(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bare nodes that ssh knows as n01 and n02, and a home with nothing but pip's settings."""
    boot("healthy", "healthy")
    join()
    home = tmp_path_factory.mktemp("newcomer")
    for folder in ("disk", "bin", ".config", ".ssh"):
        (home / folder).mkdir()
    (home / ".config/pip").symlink_to(Path("~/.config/pip").expanduser())
    config = lab_paths().ssh_config.read_text()
    for name, node in NODES.items():
        config = re.sub(rf"(?m)^Host {node}$", f"Host {name}", config)
    (home / ".ssh/config").write_text(config)
    # Whatever HOME says, ssh reads the settings of the user it runs as.
    ssh = home / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {home}/.ssh/config "$@"\n')
    ssh.chmod(0o755)
    return home


@pytest.fixture(scope="module")
def first(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    """The first part of the page, with internet access."""
    state = read_state(lab_paths())
    work, path = tmp_path_factory.mktemp("outside"), f"{home}/bin:{os.environ['PATH']}"
    [init] = [number for number, line in enumerate(AWAY) if line.startswith("b200 init")]
    with world(lab_paths(), state["model"]["revision"], work) as there:
        newcomer = Newcomer(
            home, there.environment() | {"HOME": str(home), "PATH": path, "PIP_QUIET": "2"}
        )
        with outside():
            newcomer.types(AWAY[:1])
            play_the_vendor(home, there, state["mirror"])
            newcomer.types(AWAY[1:init])
        newcomer.types(AWAY[init : init + 1])
        edit(newcomer.inventories / "group_data/prod.py")
        with outside():
            newcomer.types(AWAY[init + 1 :])
    return newcomer


def play_the_vendor(home: Path, there: Outside, mirror: dict[str, Any]) -> None:
    """Have the catalogue that was installed name the lab's vendor."""
    shutil.copy(mirror["apt_key"], there.home / "www/vendor.pub")
    [systems] = home.glob("b200/lib/*/site-packages/b200kit/catalog/systems")
    vendor = {
        "name": "cuda", "url": f"{there.url}/apt/vendor/", "key_url": f"{there.url}/vendor.pub",
        "fingerprint": mirror["apt_fingerprint"],
        "source": "the lab", "date": "", "kind": "measured",
    }  # fmt: skip
    file = systems / "debian12.yaml"
    system = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**system, "repositories": [vendor]}))


def edit(data: Path) -> None:
    """Change what is not so for simulated nodes."""
    [(_, host), _] = nodes()
    own = {key: host[key] for key in LAB}
    own["engine"].pop("wheelhouse")
    with data.open("a") as file:
        file.writelines(f"{key} = {value!r}\n" for key, value in own.items())


def test_page_leads_from_an_empty_directory_to_the_first_tokens(first: Newcomer) -> None:
    stop_mirror(lab_paths())
    said = first.types(SITE)
    assert "2 nodes: 2 live" in said
    assert said.partition("exit 0\n")[2].strip(), "no answer was printed"


def test_lines_that_are_typed_are_few() -> None:
    live = next(number for number, line in enumerate(SITE) if line == "b200 deploy")
    assert len(AWAY) + live + 1 <= MOST_LINES
