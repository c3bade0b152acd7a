"""The key `rails`: what cannot be is named by its key and place."""

from __future__ import annotations

from typing import Any

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

RAIL: dict[str, Any] = {
    "rail": 0, "hca": "mlx5_0", "leaf": "leaf-01", "port": "swp1", "gbit": 400, "mtu": 9000,
    "lossless": True, "tclass": 106, "priority": 3,
}  # fmt: skip
OTHER = RAIL | {"rail": 1, "hca": "mlx5_3"}


def without(*keys: str, **changes: object) -> dict[str, Any]:
    return {key: value for key, value in (RAIL | changes).items() if key not in keys}


def problems(*rails: dict[str, Any]) -> dict[str, str]:
    found = parse(data(rails=list(rails)), CATALOGUE)
    return {} if isinstance(found, NodeSpec) else {p.key: p.message for p in found}


@in_subtests(
    "rails",
    [
        (RAIL, OTHER),
        (RAIL, RAIL | {"rail": 1, "hca_port": 2}),
        (without("leaf", "port", "mtu", "tclass", "priority", lossless=False),),
        (without("priority", lossless=False),),
        (),
    ],
)
def test_sound_rails_are_taken(rails: tuple[dict[str, Any], ...]) -> None:
    assert problems(*rails) == {}


@in_subtests(
    ("rails", "key"),
    [
        ((RAIL, OTHER | {"rail": 0}), "rails.1.rail"),
        ((RAIL, OTHER | {"hca": "mlx5_0"}), "rails.1.hca"),
        ((without("priority"),), "rails.0.priority"),
        ((without("tclass"),), "rails.0.tclass"),
        ((without("tclass", lossless=False),), "rails.0.tclass"),
        ((without("leaf"),), "rails.0.leaf"),
        ((without("lossless"),), "rails.0.lossless"),
        ((RAIL | {"gbit": 0},), "rails.0.gbit"),
        ((RAIL | {"hca": "/dev/mlx5"},), "rails.0.hca"),
        ((RAIL | {"priorty": 3},), "rails.0.priorty"),
    ],
)
def test_what_cannot_be_is_named_by_its_place(rails: tuple[dict[str, Any], ...], key: str) -> None:
    found = problems(*rails)
    assert list(found) == [key]
    assert_message(found[key])
