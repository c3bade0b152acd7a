"""What a node with the key `source` is given: the list that apt reads, and where pip looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.converge.apt import install
from b200kit.inventory.keys.source import INTERNET
from b200kit.node.state.drift import Package
from b200kit.run.node import Node
from b200kit.serving import engine_install
from b200kit.supply.models import manifest
from b200kit.supply.models.manifest import Origin
from tests.fake.machine import Machine
from tests.unit.nodes import bare, planned
from tests.unit.specs import VENDOR_FINGERPRINT, data


def sourced(folder: Path, source: object) -> tuple[Node, Machine]:
    """A bare node whose inventory has a source."""
    (folder / "engine.txt").touch()
    engine = {**data()["engine"], "requirements": str(folder / "engine.txt")}
    del engine["wheelhouse"]
    repositories = data()["repositories"]
    repositories[0]["key"] = str(folder / "vendor.asc")
    if source == INTERNET:
        raw = manifest.written([], Origin("org/Model", "c" * 40))
        (folder / "manifest.json").write_bytes(raw)
    file = str(folder / "manifest.json") if source == INTERNET else None
    more: dict[str, Any] = {
        "model_manifest": file,
        "system": "debian12",
        "model_store": "",
        "repositories": repositories,
    }
    return bare(folder, source=source, engine=engine, **more)


def mirror(folder: Path) -> dict[str, str]:
    """A mirror, as an inventory names it."""
    key = str(folder / "vendor.asc")
    return {"mirror": "http://10.0.0.9", "key": key, "fingerprint": VENDOR_FINGERPRINT}


def test_apt_reads_the_list_of_a_mirror_alone_in_every_command_of_ours(tmp_path: Path) -> None:
    node, machine = sourced(tmp_path, mirror(tmp_path))
    source = "/etc/apt/sources.list.d/b200kit-mirror.sources"
    assert source in " ".join(planned(node, "host"))
    install(node, [Package("numactl")])
    assert len(machine.ran(f'packages install .*"only": "{source}"')) == 1


@pytest.mark.parametrize(
    ("by_mirror", "where"),
    [
        (True, "--no-index --find-links http://10.0.0.9/wheels/ --trusted-host 10.0.0.9"),
        (False, ""),
    ],
)
def test_pip_looks_in_the_mirror_or_in_its_own_index(
    tmp_path: Path, by_mirror: bool, where: str
) -> None:
    node, machine = sourced(tmp_path, mirror(tmp_path) if by_mirror else "internet")
    engine_install.install(node)
    [script] = machine.ran("-m pip install")
    assert "--no-deps --require-hashes --only-binary :all:" in script
    assert f"--retries 2 {where} -r" in script
    assert ("--no-index" in script) == by_mirror
