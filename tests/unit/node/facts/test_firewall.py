"""Reading the firewall and the ports of SSH, and the trial of new rules on the node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import firewall
from b200kit.node.host import firewall_trial
from tests.messages import assert_message

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when uid timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1
   1: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9999 1
   2: 0A00000A:0016 0A000001:C001 01 00000000:00000000 00:00000000 00000000     0        0 1235 1
"""
TCP6 = """  sl  local_address                         remote_address  st tx rx tm uid timeout inode
   0: 00000000000000000000000000000000:08AE 00000000000000:0000 0A 0:0 00:0 0 0 0 77 1
"""


def process(root: Path, pid: int, parent: int, name: str, environ: str = "") -> Path:
    """A process below a /proc of our own."""
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "environ").write_text(environ)
    (folder / "stat").write_text(f"{pid} ({name} (odd)) S {parent} 1 1 0\n")
    return folder


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc with an sshd on ports 22 and 2222, and this process below sudo below a session."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    (tmp_path / "net/tcp6").write_text(TCP6)
    sshd = process(tmp_path, 800, 1, "sshd")
    (sshd / "fd/3").symlink_to("socket:[1234]")
    (sshd / "fd/4").symlink_to("socket:[77]")
    process(tmp_path, 801, 1, "haproxy").joinpath("fd/3").symlink_to("socket:[9999]")
    process(tmp_path, 900, 800, "sh", "SSH_CONNECTION=10.0.0.1 49153 10.0.0.10 2200\0A=b\0")
    process(tmp_path, 901, 900, "sudo", "SSH_CONNECTION=broken\0")
    process(tmp_path, os.getpid(), 901, "python3", "HOME=/root\0")
    monkeypatch.setattr(firewall, "PROC", tmp_path)
    monkeypatch.setattr(firewall, "command", lambda argv: "")
    return tmp_path


def test_ports_of_ssh_are_those_of_sshd_and_of_this_session(proc: Path) -> None:
    assert firewall.ssh_ports() == [22, 2200, 2222]


def test_session_without_ssh_has_no_port(proc: Path) -> None:
    (proc / "900/environ").write_text("A=b\0")
    assert firewall.session_port() is None
    assert firewall.ssh_ports() == [22, 2222]


def test_port_on_which_systemd_listens_for_sshd_counts(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = (
        "Listen=0.0.0.0:2022 (Stream)\nListen=[::]:2022 (Stream)\nActiveState=active\n"
        "\nListen=[::]:4444 (Stream)\nActiveState=inactive\n"
    )
    monkeypatch.setattr(firewall, "command", lambda argv: shown)
    assert firewall.socket_units() == {2022}


def program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An nft of our own, first on the path."""
    path = folder / "bin" / "nft"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


def test_table_that_is_not_there_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo 'Error: No such file or directory' >&2; exit 1", monkeypatch)
    assert firewall.table() is None


@pytest.mark.parametrize(
    "said", ["[]", '{"nftables": [], "nftables": []}', '{"nftables": 1}', '{"nftables": [1]}', "{}"]
)
def test_table_of_another_form_is_unmeasured(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, f"echo '{said}'", monkeypatch)
    assert "unmeasured" in firewall.firewall()["rules"]


def test_kernel_that_cannot_is_no_table_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "echo 'Error: Operation not permitted' >&2; exit 1", monkeypatch)
    with pytest.raises(OSError, match="Operation not permitted"):
        firewall.table()


def test_node_without_nft_is_unmeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reading = firewall.firewall()["rules"]
    assert "nft" in reading["unmeasured"]


class Node:
    """Stands in for nft, systemctl and systemd-run: the table is a text."""

    def __init__(self) -> None:
        self.table = "old rules"
        self.calls: list[str] = []
        self.timer = False
        self.fails = ""

    def command(self, argv: list[str], accept: tuple[int, ...] = (0,)) -> str:
        """What the programs do, and an OSError where the test wants one."""
        del accept
        words = " ".join(argv)
        self.calls.append(words)
        if self.fails and self.fails in words:
            raise OSError(f"{argv[0]} exited 1: no")
        if words.startswith("systemd-run"):
            self.timer = True
        elif words.startswith("systemctl stop"):
            self.timer = False
        elif words.startswith("systemctl reload-or-restart"):
            assert self.timer, "loaded without a timer that takes it back"
            self.table = firewall_trial.trial().read_text()
        elif words.startswith("nft list tables"):
            return "table inet b200kit\n" if self.table else ""
        elif words.startswith("nft -s list"):
            return self.table
        elif words.startswith("nft -f"):
            content = Path(argv[2]).read_text()
            self.table = content.partition("delete table inet b200kit\n")[2]
        elif words.startswith("nft delete"):
            self.table = ""
        return ""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with rules, and places below a folder."""
    stand_in = Node()
    monkeypatch.setattr(firewall_trial, "RUN", tmp_path)
    monkeypatch.setattr(firewall_trial, "KEPT", tmp_path / "etc/firewall.nft")
    monkeypatch.setattr(firewall_trial, "command", stand_in.command)
    return stand_in


def left(tmp_path: Path) -> list[str]:
    """What a trial left below /run."""
    names = [path.name for path in tmp_path.glob("firewall-*")]
    return sorted(name for name in names if "lock" not in name)


def test_rules_that_are_kept_are_those_of_the_next_boot(node: Node, tmp_path: Path) -> None:
    firewall_trial.begin(60, "new rules")
    assert node.table == "new rules"
    assert not firewall_trial.KEPT.exists()
    firewall_trial.keep()
    assert firewall_trial.KEPT.read_text() == "new rules"
    assert not node.timer
    assert node.calls[-1] == "systemctl enable --quiet b200-firewall.service"
    assert left(tmp_path) == []


def test_rules_that_nobody_confirms_go_and_the_old_ones_come(node: Node, tmp_path: Path) -> None:
    firewall_trial.begin(60, "new rules")
    firewall_trial.back()
    assert node.table == "old rules"
    assert not firewall_trial.KEPT.exists()
    assert left(tmp_path) == []


def test_node_that_had_no_rules_has_none_again(node: Node) -> None:
    node.table = ""
    firewall_trial.begin(60, "new rules")
    firewall_trial.back()
    assert node.table == ""


def test_what_was_taken_back_cannot_be_kept(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    firewall_trial.begin(60, "new rules")
    firewall_trial.back()
    assert firewall_trial.main(["keep"]) == 1
    assert_message(capsys.readouterr().err)
    assert not firewall_trial.KEPT.exists()


def test_timer_that_comes_after_the_confirmation_does_nothing(node: Node) -> None:
    firewall_trial.begin(60, "new rules")
    firewall_trial.keep()
    firewall_trial.back()
    assert node.table == "new rules"


def test_trial_of_a_killed_run_is_not_taken_for_what_was_there(node: Node) -> None:
    firewall_trial.begin(60, "rules of a killed run")
    firewall_trial.begin(60, "new rules")
    firewall_trial.back()
    assert node.table == "old rules"


def test_rules_that_nft_refuses_are_never_loaded(node: Node, tmp_path: Path) -> None:
    node.fails = "nft -c"
    with pytest.raises(OSError, match="nft exited 1"):
        firewall_trial.begin(60, "nonsense")
    assert node.table == "old rules"
    assert not node.timer
    assert left(tmp_path) == []


def test_without_a_timer_nothing_is_loaded(node: Node, tmp_path: Path) -> None:
    node.fails = "systemd-run"
    with pytest.raises(OSError, match="systemd-run"):
        firewall_trial.begin(60, "new rules")
    assert node.table == "old rules"
    assert left(tmp_path) == []


def test_unit_that_fails_leaves_the_old_rules(node: Node) -> None:
    node.fails = "reload-or-restart"
    with pytest.raises(OSError, match="systemctl"):
        firewall_trial.begin(60, "new rules")
    assert node.table == "old rules"


def test_old_rules_that_cannot_come_back_leave_the_node_open(node: Node) -> None:
    firewall_trial.begin(60, "new rules")
    node.fails = "nft -f"
    firewall_trial.back()
    assert node.table == ""


def test_an_act_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left_with:
        firewall_trial.main(["burn"])
    assert left_with.value.code == 2


def test_standard_input_has_the_rules(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin: Any = type("Input", (), {"read": lambda self: "new rules"})()
    monkeypatch.setattr("sys.stdin", stdin)
    assert firewall_trial.main(["try", "--after", "30"]) == 0
    assert node.table == "new rules"
    assert any("--on-active=30" in call for call in node.calls)
