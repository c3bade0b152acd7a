"""A monitored node for a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.monitoring.monitored import Monitored, monitored


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """Scraped four times a second, and no alert waits."""
    with monitored(tmp_path_factory.mktemp("monitored")) as found:
        yield found
