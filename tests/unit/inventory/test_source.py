"""The key `source`: what follows from it, and what an inventory cannot say beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from b200kit.catalog import systems
from b200kit.catalog.types import Preset
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, VENDOR_FINGERPRINT, data

PRESET = Preset("vendor", "https://vendor.example/d12/", "https://vendor.example/key", "A" * 40)
DEBIAN_12 = replace(systems.load()["debian12"], repositories=(PRESET,))
KNOWN = replace(CATALOGUE, systems={**systems.load(), "debian12": DEBIAN_12}, site="site")
MIRROR = {
    "mirror": "https://mirror.example.internal/b200/",
    "key": "keys/mirror.asc",
    "fingerprint": VENDOR_FINGERPRINT,
}


def sourced(**changes: Any) -> dict[str, Any]:
    """Inventory data of a node on Debian 12 that has a source, *changes* on top."""
    own = data(system="debian12")
    for name in ("repositories", "model_store"):
        del own[name]
    del own["engine"]["wheelhouse"]
    return own | changes


def spec_of(**changes: Any) -> NodeSpec:
    """The spec of sound data."""
    found = parse(sourced(**changes), KNOWN)
    assert isinstance(found, NodeSpec), found
    return found


def test_internet_means_presets_and_the_tools_own_defaults() -> None:
    spec = spec_of(source="internet")
    [repository] = spec.repositories
    assert (repository.url, repository.key) == (PRESET.url, "site/keys/vendor.asc")
    assert (spec.engine.wheelhouse, spec.model_store) == ("", "")
    assert spec.model_manifest == f"site/models/tiny-llama-{spec.model_revision[:12]}.json"


def test_none_at_all_may_be_what_an_inventory_asks_for() -> None:
    assert spec_of(source="internet", repositories=[]).repositories == ()


def test_own_repositories_come_instead_of_presets() -> None:
    spec = spec_of(source="internet", repositories=data()["repositories"])
    assert [each.url for each in spec.repositories] == ["https://mirror.example.internal/apt/"]


def test_mirror_is_repository_wheelhouse_and_model_store() -> None:
    spec = spec_of(source=MIRROR)
    [repository] = spec.repositories
    assert repository.url == "https://mirror.example.internal/b200/apt/debian12/"
    assert (repository.key, repository.fingerprint) == ("keys/mirror.asc", VENDOR_FINGERPRINT)
    assert (repository.suites, repository.components) == ("debian12", "main")
    assert spec.engine.wheelhouse == "https://mirror.example.internal/b200/wheels/"
    assert spec.model_store == "https://mirror.example.internal/b200/models"


REFUSED: dict[str, dict[str, Any]] = {
    "no system": {"source": MIRROR, "system": None},
    "a store beside a mirror": {"source": MIRROR, "model_store": "https://models.example"},
    "a store beside the internet": {"source": "internet", "model_store": "https://models.example"},
    "a wheelhouse beside a mirror": {
        "source": MIRROR,
        "engine": data()["engine"],
    },
    "nothing at all": {},
    "a manifest beside a mirror": {"source": MIRROR, "model_manifest": "models/a.json"},
    "another word": {"source": "intranet"},
    "a mirror without a key": {"source": {"mirror": "https://mirror.example"}},
    "a mirror that is no URL": {"source": {**MIRROR, "mirror": "file:///srv/mirror"}},
    "a fingerprint cut short": {"source": {**MIRROR, "fingerprint": "ABCD"}},
    "another system": {"source": "internet", "system": "debian11"},
    "a system that nobody ran": {"source": "internet", "system": "ubuntu2604"},
    "a token in plain text": {
        "source": {**MIRROR, "mirror": "http://10.0.0.9"},
        "hf_token": {"env": "TOKEN"},
    },
}


@in_subtests("case", list(REFUSED))
def test_one_line_for_each_thing_that_cannot_be(case: str) -> None:
    found = parse(sourced(**REFUSED[case]), KNOWN)
    assert isinstance(found, list)
    assert_message(*[f"{problem.key}: {problem.message}" for problem in found])


@pytest.mark.parametrize("given", [MIRROR, "internet"])
def test_engine_from_an_image_needs_no_wheels(given: object) -> None:
    image = {
        "kind": "cuda",
        "version": "0.33.0",
        "image": f"registry.example/vllm@sha256:{'a' * 64}",
    }
    spec = spec_of(source=given, engine=image, container_runtimes=["podman"])
    assert spec.engine.wheelhouse == ""
