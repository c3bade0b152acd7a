"""`b200 init` on two bare nodes: whom it believes, what it leaves there, what a second run says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Boot
from tests.e2e.driving import ROOT, cursor, deploy, on
from tests.e2e.site.outside import B200, Said
from tests.e2e.site.test_check_lab import HEALTHY, config, left_by
from tests.lab.own_network import join
from tests.lab.paths import host_address

pytestmark = pytest.mark.long

FIRST, SECOND = HEALTHY, "b200-2"
CONSOLE = "-----BEGIN SSH HOST KEY KEYS-----\n{keys}\n-----END SSH HOST KEY KEYS-----\n"


@pytest.fixture(scope="module")
def nodes(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes whose keys nobody knows, and the ssh_config that leads to them."""
    boot("healthy", "healthy")
    join()
    return config(tmp_path_factory.mktemp("ssh"), UserKnownHostsFile="/dev/null")


def init(ssh_config: Path, folder: Path, *words: str) -> Said:
    """Run `b200 init` as a person does."""
    asked = ["--to", str(folder), "--model", "llama-3.3-70b-fp8", "--goal", "latency"]
    done = subprocess.run(
        [str(B200), "init", "-F", str(ssh_config), *asked, *words], cwd=ROOT, capture_output=True,
        text=True, stdin=subprocess.DEVNULL, timeout=300, check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def fingerprint(name: str) -> str:
    """What somebody reads at the node's console."""
    return on(name, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]


def console(name: str, folder: Path) -> str:
    """A file with what cloud-init would have printed."""
    file = folder / f"{name}.log"
    file.write_text(CONSOLE.format(keys=on(name, "cat /etc/ssh/ssh_host_*_key.pub")))
    return f"{name}={file}"


def test_hosts_that_nobody_vouched_for_are_refused_with_what_to_compare(
    nodes: Path, tmp_path: Path
) -> None:
    said = init(nodes, tmp_path / "site", FIRST, SECOND)
    assert said.code == 3
    assert fingerprint(FIRST) in said.err
    assert fingerprint(SECOND) in said.err
    assert not (tmp_path / "site").exists()


def test_fingerprint_of_another_machine_is_refused(nodes: Path, tmp_path: Path) -> None:
    wrong = f"{SECOND}=SHA256:{'A' * 43}"
    said = init(nodes, tmp_path / "site", SECOND, "--fingerprint", wrong)
    assert (said.code, "not what you compared" in said.err) == (3, True), said.err
    assert not (tmp_path / "site").exists()


@pytest.fixture(scope="module")
def site(nodes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said, set[str]]:
    """A site by a console and a comparison, what was said, and what was left on the first node."""
    folder, said = tmp_path_factory.mktemp("init"), []
    vouched = ["--console", console(FIRST, folder)]
    vouched += ["--fingerprint", f"{SECOND}={fingerprint(SECOND)}"]
    left = left_by(
        FIRST, lambda: said.append(init(nodes, folder / "site", FIRST, SECOND, *vouched))
    )
    return folder / "site", said[0], left


def test_site_is_written_and_nothing_is_left(site: tuple[Path, Said, set[str]]) -> None:
    folder, said, left = site
    assert said.code == 0, said.said
    assert left == set()
    data = (folder / "inventories/group_data/prod.py").read_text()
    assert 'system = "debian12"' in data
    assert 'hardware = "hgx-b200"' in data
    hosts = (folder / "inventories/known_hosts").read_text()
    assert ("printed on its console" in hosts, "compared by you" in hosts) == (True, True)


def test_second_run_has_nothing_to_change(nodes: Path, site: tuple[Path, Said, set[str]]) -> None:
    again = init(nodes, site[0], FIRST, SECOND)
    assert (again.code, again.out) == (0, "nothing to change\n"), again.said


def test_node_behind_a_jump_host_is_reached_through_it_by_init_and_by_deploys(
    nodes: Path, tmp_path: Path
) -> None:
    address = host_address(FIRST)
    vouched = ["--fingerprint", f"{SECOND}={fingerprint(SECOND)}"]
    behind = [SECOND, "-J", f"root@{address}", *vouched]
    refused = init(nodes, tmp_path / "site", *behind)
    assert (refused.code, f"{address}: no host key" in refused.err) == (3, True), refused.err
    said = init(
        nodes, tmp_path / "site", *behind, "--fingerprint", f"{address}={fingerprint(FIRST)}"
    )
    assert said.code == 0, said.said
    inventories = tmp_path / "site/inventories"
    jump = f'ssh_proxy_jump = "root@{address}"'
    assert jump in (inventories / "group_data/all.py").read_text()
    since = cursor(SECOND)
    known = f"ssh_known_hosts_file={inventories / 'known_hosts'}"
    by_way = ["--data", f"ssh_proxy_jump=root@{address}", "--data", known]
    checked = deploy("check.py", "--limit", SECOND, *by_way)
    assert checked.outcome(SECOND) == "bare", checked.described(SECOND)
    log = on(SECOND, f"journalctl -o cat -t sshd --after-cursor='{since}'")
    assert f" from {address} " in log
    assert log.count("Accepted publickey") == log.count(
        f"Accepted publickey for root from {address} "
    )


def test_host_key_that_changed_is_refused(nodes: Path, site: tuple[Path, Said, set[str]]) -> None:
    on(SECOND, "rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh")
    said = init(nodes, site[0], FIRST, SECOND)
    changed = f"{SECOND}: WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED"
    assert (said.code, changed in said.err) == (3, True), said.err
