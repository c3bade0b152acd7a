"""What a node serves as a document: there and back, whoever reads it where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from b200kit.inventory import served
from b200kit.inventory.parse import parse
from b200kit.inventory.served import NoWayBack
from b200kit.inventory.spec import NodeSpec
from tests.unit.specs import CATALOGUE, data

LOCK = "/srv/site/engine.txt"
ROOTS = {"{site}": "/srv/site"}
MORE: dict[str, Any] = {
    "settings": {"iommu": "off"},
    "replica_flags": {"1": {"seed": 3}},
    "firewall": {"allow": [{"port": 8000, "from": ["10.0.0.0/8"]}]},
    "storage": {"disks": ["/dev/disk/by-id/nvme-a"]},
    "weights": {"server": {"bind": "0.0.0.0", "from": ["10.0.0.0/24"]}},
    "source": None,
}


def spec(**changes: Any) -> NodeSpec:
    """A node, with *changes*; its lock is the site's."""
    given = data(**changes)
    found = parse(given | {"engine": {**given["engine"], "requirements": LOCK}}, CATALOGUE)
    assert isinstance(found, NodeSpec), found
    return found


def noted(of: NodeSpec) -> dict[str, Any]:
    """The document as a node has it."""
    found: dict[str, Any] = json.loads(json.dumps(served.document(of, {LOCK: "aa"}, ROOTS)))
    return found


def test_document_leads_back_to_the_spec() -> None:
    first = spec(**MORE)
    known = served.placed(noted(first), ROOTS)
    assert served.restored(first, known, {LOCK: "aa"}) == first


def test_rollback_leaves_what_is_the_sites() -> None:
    events = {"command": ["/usr/bin/notify", "--key=S3CRET"]}
    now = spec(driver="580.142.07", rollout={"max_out": 3}, fleet_weight=7, events=events)
    # It lies readable on the node.
    assert "S3CRET" not in json.dumps(noted(now))
    back = served.restored(now, served.placed(noted(spec()), ROOTS), {LOCK: "aa"})
    assert (back.driver, back.rollout.max_out, back.fleet_weight) == ("580.126.20", 3, 7)


def test_document_is_the_same_wherever_the_site_lies() -> None:
    there = noted(spec())
    assert LOCK not in json.dumps(there)
    elsewhere = served.placed(there, {"{site}": "/home/ops"})
    assert elsewhere["files"] == {"/home/ops/engine.txt": "aa"}
    assert elsewhere["keys"]["engine"]["requirements"] == "/home/ops/engine.txt"


@pytest.mark.parametrize(
    ("known", "digest"),
    [(None, "aa"), ({"schema": "another"}, "aa"), ("its own", "bb"), ("with a key of old", "aa")],
)
def test_no_way_back_where_it_is_not_known_exactly(known: Any, digest: str) -> None:
    if isinstance(known, str):
        document = served.placed(noted(spec()), ROOTS)
        old = {"of_old": 1} if known == "with a key of old" else {}
        known = {**document, "keys": document["keys"] | old}
    with pytest.raises(NoWayBack):
        served.restored(spec(), known, {LOCK: digest})


def test_differences_are_named_by_key_and_file() -> None:
    before = noted(spec())
    now = noted(spec(driver="580.142.07", settings={"iommu": "off"}))
    assert served.differences(before, now) == [
        "driver 580.126.20 -> 580.142.07",
        "settings.iommu none -> off",
    ]
    changed = {**before, "files": {"{site}/engine.txt": "bb"}}
    assert served.differences(before, changed) == ["{site}/engine.txt changed"]
