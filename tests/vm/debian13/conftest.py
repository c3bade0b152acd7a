"""The machine again, with Debian 13: what its podman starts as the replicas, deployed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import Outcome
from tests.lab.lab import say
from tests.lab.standin import __version__
from tests.lab.vm import engine_image
from tests.lab.vm import vm as virtual_machine
from tests.lab.vm.inventory import PACE
from tests.vm.driving import Machine


def asked(image: str) -> dict[str, Any]:
    """Inventory data of a node whose replicas podman runs."""
    engine = {"kind": "stand-in", "version": __version__, "image": image, "environment": PACE}
    return {"engine": engine, "container_runtimes": ["podman"]}


@pytest.fixture(scope="session")
def vm() -> Iterator[Machine]:
    """The machine of Debian 13, bare; no lab before, no lab after."""
    lab.down()
    virtual_machine.up("healthy", say, system="debian13")
    yield Machine()
    lab.down()


@pytest.fixture(scope="session")
def image(vm: Machine) -> str:
    """The stand-in engine in the site's registry, by its digest."""
    return engine_image.publish()


@pytest.fixture(scope="session")
def serving(vm: Machine, image: str) -> Outcome:
    """The one run from a bare system to replicas in containers."""
    return vm.deploy(data=asked(image))
