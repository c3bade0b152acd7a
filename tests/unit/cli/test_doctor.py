"""`b200 doctor`: what is looked at on the controller, and what is said to be wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.cli import doctor
from b200kit.operations import site_problems
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.operations.site_problems import InventoryLook
from b200kit.store import database
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import data

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A controller without a fault, outside any site, whatever this machine is."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_ed25519").write_text("")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(doctor, "clock_synchronized", lambda: True)
    monkeypatch.setattr("locale.getpreferredencoding", lambda _: "UTF-8")
    monkeypatch.chdir(home)
    return home


def looked(capsys: Capture, code: int) -> dict[str, list[dict[str, Any]]]:
    """The parts that are no more than noted, or wrong, by name."""
    assert cli.main(["doctor", "--json"]) == code
    found: dict[str, list[dict[str, Any]]] = {}
    for part in json.loads(capsys.readouterr().out):
        if part["standing"] != "ok":
            found.setdefault(part["name"], []).append(part)
    return found


def test_a_sound_controller_without_a_site_has_nothing_to_correct(capsys: Capture) -> None:
    assert {*looked(capsys, 0)} == {"site"}
    assert cli.main(["doctor"]) == 0
    shown = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if line[0] != " "]
    assert ["clock", "ok"] in shown
    assert ["site", "note"] in shown


def test_what_is_wrong_says_what_to_do(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, sound: Path
) -> None:
    (sound / ".ssh/id_ed25519").unlink()
    monkeypatch.setattr("shutil.which", lambda name: None if name == "ssh" else f"/{name}")
    monkeypatch.setattr(doctor, "clock_synchronized", lambda: False)
    monkeypatch.setattr("locale.getpreferredencoding", lambda _: "ANSI_X3.4-1968")
    monkeypatch.setattr("resource.getrlimit", lambda _: (64, 64))
    found = looked(capsys, 1)
    assert {*found} == {"programs", "clock", "locale", "ssh keys", "open files", "site"}
    assert all(part["advice"] for parts in found.values() for part in parts)
    assert cli.main(["doctor"]) == 1
    assert_message(capsys.readouterr().out)


def test_programs_of_few_commands_are_noted(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "skopeo" else name)
    [part] = looked(capsys, 0)["programs"]
    assert (part["standing"], "skopeo" in part["seen"]) == ("note", True)


def site(home: Path) -> Path:
    """An inventory in a site here."""
    path = home / "inventories/prod.py"
    path.parent.mkdir()
    path.write_text("nodes = []\n")
    return path


@pytest.mark.parametrize(
    ("look", "wrong"),
    [
        (InventoryLook(("n01",), (), ()), 0),
        (InventoryLook(("n01",), ("n01",), ("n01: source.key: k is not there",)), 1),
        (InventoryRefused(["prod.py: SyntaxError", "prod.py: more"]), 2),
    ],
)
def test_the_inventory_is_read_as_a_run_reads_it(
    look: InventoryLook | InventoryRefused, wrong: int, sound: Path,
    capsys: Capture, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def read(path: Path) -> InventoryLook:
        assert path.name == "prod.py"
        if isinstance(look, InventoryRefused):
            raise look
        return look

    site(sound)
    monkeypatch.setattr(site_problems, "of_inventory", read)
    assert len(looked(capsys, bool(wrong)).get("site", [])) == wrong


def test_keys_are_no_matter_where_every_node_names_one(
    sound: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sound / ".ssh/id_ed25519").unlink()
    site(sound)
    monkeypatch.setattr(site_problems, "of_inventory", lambda _: InventoryLook(("n",), (), ()))
    assert looked(capsys, 0) == {}


def test_nodes_of_an_inventory_are_judged_before_any_connection(tmp_path: Path) -> None:
    path = tmp_path / "inventories/prod.py"
    path.parent.mkdir()
    path.write_text('nodes = [("n01", {"drivr": "580.126.20"})]\n')
    found = site_problems.of_inventory(path)
    assert (found.nodes, found.keyless) == (("n01",), ("n01",))
    keys = {line.split(": ")[1] for line in found.problems}
    assert {"drivr", "driver", "ssh_strict_host_key_checking"} <= keys


MOUNTS = {
    "ext4 /dev/sda1 rw": None,
    "nfs4 srv:/x rw,vers=4.2,local_lock=none": "WRONG",
    "fuse.sshfs h:/x rw": "WRONG",
}


@pytest.mark.process
@in_subtests(
    ("text", "said"),
    [
        ("", "no node is in it"),
        ('nodes = ["n01", "n01"]', "n01 is given twice"),
        ('nodes = ["n01", ("n02", {"ssh_hostname": "n01"})]', "have one address"),
        ('nodes = [("n01", {"ssh_user": 0})]', "n01: ssh_user: must be a string"),
        ('nodes = [("n01", {4: 5})]', "n01: 4: "),
        (f"nodes = [('n01', {data(gateway_port=2222, ssh_port=2222)})]", "n01: gateway_port: "),
    ],
    one_in=3,
)
def test_lists_are_read_as_a_run_reads_them(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "prod.py"
    path.write_text(text)
    assert [line for line in site_problems.of_inventory(path).problems if said in line]


@in_subtests(
    ("text", "said"),
    [
        ("raise SystemExit('locked')", "(locked)"),
        ("1 / 0", "ZeroDivisionError"),
        ("nodes = ['@local']", "@local: "),
        ("# caf\xe9", "no UTF-8"),
    ],
    one_in=3,
)
def test_inventory_without_nodes_to_look_at_is_one_line(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "prod.py"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InventoryRefused) as refused:
        site_problems.of_inventory(path)
    [line] = refused.value.lines
    assert said in line


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_store_on_a_shared_file_system_is_wrong(
    mount: str, sound: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    site(sound)
    monkeypatch.delenv(database.VARIABLE)
    monkeypatch.setattr(site_problems, "of_inventory", lambda _: InventoryLook(("n",), (), ()))
    line = f"36 1 0:1 / {sound} rw - {mount}\n"
    before = Path.read_text
    monkeypatch.setattr(
        Path, "read_text",
        lambda path, **how: line if path.name == "mountinfo" else before(path, **how),
    )  # fmt: skip
    standing = MOUNTS[mount]
    parts = looked(capsys, standing == "WRONG").get("store", [])
    assert [part["standing"] for part in parts] == ([standing] if standing else [])


def test_no_room_is_wrong(sound: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    site(sound)
    monkeypatch.setattr(site_problems, "of_inventory", lambda _: InventoryLook(("n",), (), ()))
    usage = shutil.disk_usage(sound)._replace(free=10**6)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert {*looked(capsys, 1)} == {"disk"}
