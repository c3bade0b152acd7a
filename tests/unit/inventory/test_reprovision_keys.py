"""Keys of power and images are validated before any connection."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory import secrets
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.operations import named_files, preflight
from b200kit.run.session import RUN
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.nodes import spec as sound
from tests.unit.specs import CATALOGUE, data

BMC: dict[str, Any] = {"address": "https://10.0.0.7", "user": "b200", "password": {"env": "BMC"}}
MAAS: dict[str, Any] = {
    "command": ["b200-maas", "https://maas/MAAS", "4y3h7n"],
    "token": {"env": "M"},
}


@in_subtests(
    "changes",
    [
        {"address": "http://10.0.0.7"},
        {"address": "10.0.0.7"},
        {"address": "https://10.0.0.7:99999"},
        {"protocol": "ipmi"},
        {"command": "b200-ipmi"},
        {"ca_file": "ca.pem", "fingerprint": "0" * 64},
        {"fingerprint": "0" * 63},
        {"command": ["b200-ipmi"], "address": "h", "ca_file": "ca.pem"},
        {"command": ["b200-ipmi"], "address": "h", "system": "1"},
        {"password": "hunter2"},
        {"password": None},
    ],
)
def test_controller_that_cannot_be_is_refused_by_its_key(changes: dict[str, Any]) -> None:
    found = problems(bmc=BMC | changes)
    assert_message(*found)
    assert "hunter2" not in " ".join(found)


@pytest.mark.parametrize(
    "section",
    [
        {"method": "maas", "url": "https://maas/MAAS", "command": ["x"]},
        {},
        {"command": []},
        MAAS | {"host_key": ["x"], "host_key_file": "y"},
    ],
)
def test_image_that_cannot_be_is_refused_by_its_key(section: dict[str, Any]) -> None:
    assert_message(*problems(reimage=section))


@in_subtests(
    "senders",
    [
        ["slurm"],
        ["haproxy", "b200-slurm"],
        "haproxy",
        [[]],
        [["b200-slurm", 1]],
        [["b200-slurm"], ["b200-slurm"]],
    ],
)
def test_sender_is_our_gateways_or_a_command_and_no_name(senders: object) -> None:
    assert_message(*problems(traffic=senders))


def test_senders_are_commands_in_their_order(tmp_path: Path) -> None:
    senders = ["haproxy", ["b200-slurm"], ["b200-kubernetes", "--delete-unmanaged"]]
    assert sound(tmp_path, traffic=senders).traffic == ("haproxy", *map(tuple, senders[1:]))


def problems(**changes: Any) -> list[str]:
    found = parse(data(**changes), CATALOGUE)
    assert not isinstance(found, NodeSpec)
    return [f"{each.key}: {each.message}" for each in found]


def test_files_it_names_must_be_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    spec = sound(tmp_path, bmc=BMC | {"ca_file": missing}, reimage=MAAS)
    found = [(problem.key, problem.message) for problem in named_files.missing(spec)]
    message = f"{missing} cannot be read on the controller: No such file or directory"
    assert found == [("bmc.ca_file", message)]


def test_commands_must_be_programs_of_the_controller_or_beside_b200(tmp_path: Path) -> None:
    here = Path(sys.executable).name
    bmc = BMC | {"command": [str(tmp_path / "bmc")]}
    spec = sound(tmp_path, traffic=["haproxy", [here], ["b200-slrm", "x"]], bmc=bmc, reimage=MAAS)
    found = {problem.key: problem.message for problem in named_files.away(spec)}
    assert found.keys() >= {"traffic.2", "bmc.command"}
    assert "traffic.1" not in found
    assert_message(found["traffic.2"])


@pytest.mark.parametrize(
    ("entry", "refused"), [("check.py", []), ("reprovision.py", ["traffic.0"])]
)
def test_only_who_mends_needs_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, refused: list[str]
) -> None:
    monkeypatch.setattr(RUN, "entry", entry)
    spec = sound(tmp_path, traffic=[["b200-slrm"]], api_key=None, hf_token=None)
    assert [problem.key for problem in preflight._checked("n01", spec)[1]] == refused


def test_only_who_mends_needs_the_controllers_password(tmp_path: Path) -> None:
    spec = sound(tmp_path, bmc=BMC, reimage=MAAS, api_key=None, hf_token=None)
    assert secrets.resolve(spec, reprovisioning=False) == ({}, [])
    assert [problem.key for problem in secrets.resolve(spec)[1]] == [
        "bmc.password",
        "reimage.token",
    ]
