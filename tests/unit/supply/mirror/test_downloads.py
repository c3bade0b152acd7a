"""What one node of each kind downloads, as `b200 mirror plan` says it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from b200kit.cli.supply.mirror import download_text
from b200kit.node.weights.manifest import ManifestFile
from b200kit.supply.mirror import wanted
from b200kit.supply.mirror.needs import MirroredModel, Needs, NodeKind, PackageSet
from b200kit.supply.mirror.wanted import WantedFiles
from tests.messages import assert_message


def asked(system: str) -> PackageSet:
    """What nodes of a system ask of apt."""
    return PackageSet(system, (), (), "")


def files(*sizes: int) -> dict[str, ManifestFile]:
    """Files of these sizes, by a name that no other has."""
    return {
        f"{n}-{size}": ManifestFile(f"{n}-{size}", size, "0" * 64) for n, size in enumerate(sizes)
    }


def test_node_downloads_its_own_kinds_packages_wheels_and_model() -> None:
    old, new = asked("debian12"), asked("debian13")
    small, large = (MirroredModel(name, "a" * 64, "", "") for name in ("small", "large"))
    nodes = tuple(f"n{number:02}" for number in range(9))
    needs = Needs("", "", (
        NodeKind(nodes, "http://m.example", old, "py311", large),
        NodeKind(("x1",), None, new, None, small),
    ), (), "")  # fmt: skip
    apts: Any = ((SimpleNamespace(of=old), files(10, 20)), (SimpleNamespace(of=new), files(5)))
    models = (
        (small, b"", tuple(files(7).values())),
        (large, b"", tuple(files(7 * 10**10).values())),
    )
    of = WantedFiles(apts, {"py311": files(300), "py313": files(4000)}, models)
    found = list(wanted.downloads(needs, of))
    assert [(each.packages, each.wheels, each.model) for each in found] == [
        (30, 300, 7 * 10**10), (5, 0, 7),
    ]  # fmt: skip
    assert_message(*map(download_text, found))
