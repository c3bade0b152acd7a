"""The machine with real vLLM in place of the stand-in: deployed once, taken down in any case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tests.lab as lab
from tests.e2e.driving import Outcome
from tests.lab.lab import say
from tests.lab.vm import vm as virtual_machine
from tests.vm.driving import Machine

RUN_S = 5400
"""How long the run may take: each of an engine's processes imports torch, emulated."""


@pytest.fixture(scope="session")
def vm() -> Iterator[Machine]:
    """The machine, bare, with the engine's disk; no lab before, no lab after."""
    lab.down()
    virtual_machine.up("healthy", say, "vllm-cpu")
    yield Machine()
    lab.down()


@pytest.fixture(scope="session")
def deployed(vm: Machine) -> Outcome:
    """The one run from a bare system to two replicas that serve."""
    return vm.deploy(seconds=RUN_S)
