"""A node of Debian 13, from a bare disk to live: systemd 257, Python 3.13, apt 3, HAProxy 3.0.

The whole of the golden path passes there, too: B200_LAB_OS=debian13. Here is what differs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tests.lab as lab
from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import Outcome, cursor, deploy, on, remote_commands
from tests.e2e.tools import hardened
from tests.lab.paths import lab_paths
from tests.lab.supply.gpg import signing_key

pytestmark = pytest.mark.long

NODE = "b200-1"
UNITS = ("vllm@0.service", "vllm@1.service")
# What decides how a node behaves, and the versions this road was seen with.
VERSIONS = {
    "systemctl --version": "systemd 257",
    "python3 --version": "Python 3.13",
    "apt-get --version": "apt 3.0",
    "haproxy -v": "HAProxy version 3.0",
}
# One observation, and the lock given back.
FEWEST = 2


@pytest.fixture(scope="module")
def bare(boot: Boot) -> None:
    """A node as the installer leaves it."""
    state = boot("healthy", system="debian13")
    assert (state["os"], state["engine"]["python"]) == ("debian13", "python3.13")


@pytest.fixture(scope="module")
def weak(bare: None, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What ready.py says where the vendor's key is the right one, and bound by SHA-1."""
    mirror, folder = lab.status()["mirror"], tmp_path_factory.mktemp("keys")
    repositories = [
        {"name": "vendor", **key_of(folder, "sha1")},
        {"name": "debian", **key_of(folder, "vendor")},
    ]
    for repository in repositories:
        repository["url"] = f"{mirror['url']}/apt/{repository['name']}/"
    lab.publish_vendor(key="sha1")
    asked = deploy("ready.py", "--data", f"repositories={json.dumps(repositories)}")
    lab.publish_vendor()
    return asked


def key_of(folder: Path, name: str) -> dict[str, str]:
    """One of the lab's keys, as an inventory names it."""
    with signing_key(lab_paths().gnupg, name) as key:
        (folder / f"{name}.asc").write_text(key.armored())
        return {"key": str(folder / f"{name}.asc"), "fingerprint": key.fingerprint}


@pytest.fixture(scope="module")
def first(weak: Outcome) -> Outcome:
    """The site is right; the bare node is brought to live."""
    return deploy("b200.py", *SHORT_SMOKE)


def test_key_bound_by_sha_1_is_named_before_a_change(weak: Outcome) -> None:
    assert (weak.code, weak.outcome(NODE)) == (1, "not ready"), weak.said[-3000:]
    with signing_key(lab_paths().gnupg, "sha1") as key:
        assert f"Signing key on {key.fingerprint} is not bound" in weak.host(NODE)["error"]
    assert "SHA1 is not considered secure" in weak.host(NODE)["error"]
    assert "sign your mirror by a newer key" in " ".join(weak.stdout.split())


def test_node_gets_live_with_the_versions_of_its_system(first: Outcome) -> None:
    assert first.code == 0, first.said[-3000:]
    assert first.host(NODE)["state"]["host"]["os"]["version_id"] == "13"
    seen = {asked: on(NODE, f"{asked} | head -n 1") for asked in VERSIONS}
    assert [asked for asked, word in VERSIONS.items() if not seen[asked].startswith(word)] == []
    assert on(NODE, "systemctl --failed --plain --no-legend") == ""
    assert "STAND-IN" in first.stdout


def test_units_hold_under_its_systemd(first: Outcome) -> None:
    assert first.code == 0, first.described(NODE)
    for unit in UNITS:
        hardened.assert_properties_are_in_force(NODE, unit)
        assert hardened.exposure(NODE, unit) <= hardened.EXPOSURE
    ours = ("b200-gate.service", "b200-agent.service", "vllm.target", "haproxy.service")
    assert hardened.unit_complaints(NODE, *ours, *UNITS) == []
    assert hardened.readers_of_the_key(NODE) == []
    assert set(hardened.outside(NODE).values()) <= hardened.LISTENS_OUTSIDE


def test_its_gateway_takes_the_configuration_without_a_warning(first: Outcome) -> None:
    assert first.code == 0, first.described(NODE)
    checked = lab.run(NODE, ["haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg"])
    assert (checked.returncode, checked.stderr) == (0, "")


def test_second_run_changes_nothing_in_two_commands(first: Outcome) -> None:
    assert first.code == 0, first.described(NODE)
    before = cursor(NODE)
    again = deploy("b200.py", *SHORT_SMOKE)
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.host(NODE)["stages"]
    assert remote_commands(NODE, before) == again.host(NODE)["commands"] == FEWEST
