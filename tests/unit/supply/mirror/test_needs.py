"""What an inventory takes from its mirror: the stages' packages, the lock, the models."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.weights.manifest import ManifestFile
from b200kit.operations import mirror_needs
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.supply.mirror.needs import Needs
from b200kit.supply.models.manifest import origin, revision, written
from tests.unit.specs import VENDOR_FINGERPRINT, VENDOR_KEY

DATA = """
system = "debian12"
driver = "580.126.20"
source = {{"mirror": "https://m.example", "key": "{key}", "fingerprint": "{fingerprint}"}}
engine = {{"kind": "cuda", "version": "0.33.0"}}
model = "llama-3.3-70b-fp8"
model_revision = "{revision}"
goal = "balanced"
max_model_len = 8192
smoke = {{"requests": 120, "rate": 4.0, "input_tokens": 128, "output_tokens": 64}}
"""


def site(
    tmp_path: Path, nodes: str = '"n01", "n02"', more: str = "", fingerprint: str = ""
) -> Path:
    """An inventory's file, whose key is there."""
    folder = tmp_path / "inventories"
    (folder / "group_data").mkdir(parents=True, exist_ok=True)
    (folder / "mirror.asc").write_text(VENDOR_KEY)
    data = DATA.format(
        key=folder / "mirror.asc", fingerprint=fingerprint or VENDOR_FINGERPRINT, revision="a" * 64
    )
    (folder / "group_data/prod.py").write_text(data + more)
    (folder / "prod.py").write_text(f"nodes = [{nodes}]\n")
    return folder / "prod.py"


def packages(needs: Needs) -> dict[str, bool]:
    """Package with its version to whether it may be missing, of the first transaction."""
    return {each.key: each.optional for each in needs.transactions[0].packages}


def test_nodes_that_are_alike_are_one_transaction(tmp_path: Path) -> None:
    needs = mirror_needs.of_inventory(site(tmp_path))
    assert [each.system for each in needs.transactions] == ["debian12"]
    assert [each.name for each in needs.transactions[0].repositories] == [
        "cuda", "container-toolkit",
    ]  # fmt: skip
    wanted = packages(needs)
    assert wanted["nvidia-open=580.126.20"] is False
    assert wanted["g++"] is wanted["haproxy"] is False
    assert wanted["linux-headers-amd64"] is True
    assert "580.126.20" in needs.transactions[0].preferences
    [lock] = needs.locks
    assert Path(lock).name == "engine-vllm-cuda-py311.txt"
    [model] = needs.models
    assert (model.folder, needs.fingerprint) == (
        f"models/llama-3.3-70b-fp8/{'a' * 64}", VENDOR_FINGERPRINT,
    )  # fmt: skip
    assert needs.described.startswith("debian12, driver 580.126.20, ")


def test_nodes_that_differ_are_transactions_of_their_own(tmp_path: Path) -> None:
    nodes = '("n01", {"driver": "580.95.05"}), ("n02", {"system": "debian13"}), "n03"'
    needs = mirror_needs.of_inventory(site(tmp_path, nodes))
    assert [each.system for each in needs.transactions] == ["debian12", "debian13", "debian12"]
    assert [Path(lock).stem[-5:] for lock in needs.locks] == ["py311", "py313"]
    assert {"driver 580.126.20", "driver 580.95.05"} <= {*needs.described.split(", ")}


@pytest.mark.process
def test_nodes_of_a_kind_take_the_same_from_the_same_place(tmp_path: Path) -> None:
    entry = ManifestFile("config.json", 2, "0" * 64)
    raw = written([entry], origin(f"org/name@{'1' * 40}"))
    (tmp_path / "manifest").write_bytes(raw)
    other = {
        "source": "internet", "model_manifest": str(tmp_path / "manifest"),
        "model_revision": revision(raw),
    }  # fmt: skip
    nodes = f'"n01", ("n02", {other}), "n03"'
    with pytest.raises(InventoryRefused, match="b200 keys debian12"):
        mirror_needs.of_inventory(site(tmp_path, nodes), build=False)
    own = {"name": "own", "url": "https://o.example/", "fingerprint": VENDOR_FINGERPRINT}
    own |= {"key": str(tmp_path / "inventories/mirror.asc")}
    path = site(tmp_path, nodes, f"repositories = [{own}]\n")
    needs = mirror_needs.of_inventory(path, build=False)
    assert [(kind.nodes, kind.source) for kind in needs.kinds] == [
        (("n01", "n03"), "https://m.example"), (("n02",), None),
    ]  # fmt: skip
    assert len(needs.locks) == 1


@pytest.mark.process
def test_headers_are_those_of_the_kernels_that_nodes_run(tmp_path: Path) -> None:
    path = site(tmp_path)
    assert mirror_needs.of_inventory(path).notes
    needs = mirror_needs.of_inventory(path, ["6.1.0-31-cloud-amd64"])
    assert needs.notes == ()
    wanted = packages(needs)
    assert wanted["linux-headers-6.1.0-31-cloud-amd64"] is True
    assert wanted["linux-headers-cloud-amd64"] is True


@pytest.mark.process
def test_site_names_its_own_origin(tmp_path: Path) -> None:
    own = '[{"name": "own", "url": "https://o.example/", "key": "k", "fingerprint": "' + "0" * 40
    needs = mirror_needs.of_inventory(site(tmp_path, more=f'repositories = {own}"}}]\n'))
    assert [each.url for each in needs.transactions[0].repositories] == ["https://o.example/"]


def refusal(path: Path) -> tuple[str, ...]:
    """Why there is no mirror for an inventory."""
    with pytest.raises(InventoryRefused) as refused:
        mirror_needs.of_inventory(path)
    return refused.value.lines


@pytest.mark.process
def test_inventory_that_no_mirror_can_be_made_for_is_refused(tmp_path: Path) -> None:
    assert "is no file" in refusal(tmp_path / "none.py")[0]
    assert "prod.py:11: " in refusal(site(tmp_path, more="x = (\n"))[0]
    assert "there is no node" in refusal(site(tmp_path, nodes=""))[0]
    both = '("n01", {"source": "internet", "model_manifest": "m"}), ("n02", {"driver": "1"})'
    lines = refusal(site(tmp_path, nodes=both))
    assert ["n01: source:" in lines[0], "n02: driver:" in lines[1]] == [True, True]
    two = '("n01", {"source": {"mirror": "https://m.example", "key": "mirror.asc", "fingerprint": "'
    lines = refusal(site(tmp_path, nodes=f'{two}{"1" * 40}"}}}}), "n02"'))
    assert "b200 mirror key" in lines[0]
