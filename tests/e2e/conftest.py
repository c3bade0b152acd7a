"""The lab for end-to-end tests: brought up once, torn down whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tests.lab as lab

Boot = Callable[..., dict[str, Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs simulated nodes."""
    for item in items:
        if "tests/e2e" in str(item.path):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def lab_session() -> Iterator[None]:
    """No lab before, no lab after."""
    lab.down()
    yield
    lab.down()


@pytest.fixture(scope="module")
def boot(lab_session: None) -> Iterator[Boot]:
    """Boots fresh nodes with the stand-in engine; the module's nodes are gone afterwards."""

    def start(*scenarios: str, engine: str = "stand-in") -> dict[str, Any]:
        lab.down()
        return lab.up(len(scenarios), list(scenarios), engine=engine)

    yield start
    lab.down()
