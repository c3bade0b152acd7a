"""Keys of power and images are validated before any connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory import secrets
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.operations import preflight
from tests.subtests import in_subtests
from tests.unit.nodes import spec as sound
from tests.unit.specs import CATALOGUE, data

BMC: dict[str, Any] = {"address": "https://10.0.0.7", "user": "b200", "password": {"env": "BMC"}}
MAAS: dict[str, Any] = {
    "method": "maas",
    "url": "https://maas/MAAS",
    "system": "4y3h7n",
    "token": {"env": "M"},
}


HTTPS = 'must be a URL that begins with "https://"'


@in_subtests(
    ("changes", "problem"),
    [
        ({"address": "http://10.0.0.7"}, f"address: {HTTPS}"),
        ({"address": "10.0.0.7"}, f"address: {HTTPS}"),
        ({"protocol": "ipmi"}, "address: must be a host name or an address for IPMI"),
        ({"ca_file": "ca.pem", "fingerprint": "0" * 64}, "fingerprint: is one way"),
        ({"fingerprint": "0" * 63}, "fingerprint: must be a SHA-256, 64 digits"),
        ({"protocol": "ipmi", "address": "h", "ca_file": "ca.pem"}, "ca_file: IPMI has no"),
        ({"password": "hunter2"}, "password: must be a mapping, not str"),
        ({"password": None}, "password: must be a mapping, not NoneType"),
    ],
)
def test_controller_that_cannot_be_is_refused_by_its_key(
    changes: dict[str, Any], problem: str
) -> None:
    found = problems(bmc=BMC | changes)
    assert any(line.startswith(f"bmc.{problem}") for line in found), found
    assert "hunter2" not in " ".join(found)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (MAAS | {"url": "http://maas/MAAS"}, 'url: must begin with "https://"'),
        ({"method": "maas"}, "url: MAAS needs url, system and token"),
        ({"method": "command"}, "command: is required"),
        (MAAS | {"host_key": ["x"], "host_key_file": "y"}, "host_key: is one source"),
    ],
)
def test_image_that_cannot_be_is_refused_by_its_key(section: dict[str, Any], problem: str) -> None:
    found = problems(reimage=section)
    assert any(line.startswith(f"reimage.{problem}") for line in found), found


def problems(**changes: Any) -> list[str]:
    found = parse(data(**changes), CATALOGUE)
    assert not isinstance(found, NodeSpec)
    return [f"{each.key}: {each.message}" for each in found]


def test_files_it_names_must_be_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    spec = sound(tmp_path, bmc=BMC | {"ca_file": missing}, reimage=MAAS | {"ca_file": missing})
    found = [(problem.key, problem.message) for problem in preflight._missing_files(spec)]
    message = f"{missing} cannot be read on the controller: No such file or directory"
    assert found == [("bmc.ca_file", message), ("reimage.ca_file", message)]


def test_only_who_mends_needs_the_controllers_password(tmp_path: Path) -> None:
    spec = sound(tmp_path, bmc=BMC, reimage=MAAS, api_key=None, hf_token=None)
    assert secrets.resolve(spec, reprovisioning=False) == ({}, [])
    assert [problem.key for problem in secrets.resolve(spec)[1]] == [
        "bmc.password",
        "reimage.token",
    ]
