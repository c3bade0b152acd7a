"""The lab for end-to-end tests: brought up once, torn down whatever happens.

Under pytest-xdist each worker has a lab of its own (worker gw0 has lab 1, and so on); without it
there is lab 0. A module stays on one worker, and all that share the demo's node, too (ByModule in
tests/conftest.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import ROOT, Outcome
from tests.lab.inventory import PATIENT
from tests.lab.live import KEPT
from tests.lab.own_network import join
from tests.lab.paths import ID_VARIABLE

if _worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ[ID_VARIABLE] = str(int(_worker.removeprefix("gw")) + 1)

Boot = Callable[..., dict[str, Any]]
Live = Callable[[int], dict[str, Any]]

# What is measured is not what these modules are about: few requests, and no objective to miss.
SHORT = {**PATIENT, "requests": 12, "loop_lag_ms": 1000}
SHORT_SMOKE = ("--data", f"smoke={json.dumps(SHORT)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs simulated nodes. What works on the demo's node comes first."""
    for item in items:
        if _is_here(item):
            item.add_marker(pytest.mark.lab)
    items.sort(key=_place)


def _is_here(item: pytest.Item) -> bool:
    return "tests/e2e" in str(item.path)


def _place(item: pytest.Item) -> int:
    """The modules that share the demo's node, those that boot their own, everything else."""
    if not _is_here(item):
        return 2
    return 0 if _uses_demo(item) else 1


def _uses_demo(item: pytest.Item) -> bool:
    return "demo" in getattr(item, "fixturenames", ())


@contextmanager
def _records_apart(made: pytest.TempPathFactory) -> Iterator[None]:
    """Records, transactions and the like in folders of their own."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in KEPT:
            patch.setenv(variable, str(made.mktemp(variable.lower()) / "kept"))
        yield


@pytest.fixture(scope="session", autouse=True)
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nodes of all labs have the same names: each worker keeps records and the like apart."""
    with _records_apart(tmp_path_factory):
        yield


@pytest.fixture(scope="module")
def unknown(kept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is known of a fresh node: not that one of its name is out of service, say."""
    with _records_apart(tmp_path_factory):
        yield


# Each of its steps has a limit of its own; two labs beside it take most of a small machine.
DEMO_HANGS_S = 1800


@pytest.fixture(scope="session")
def lab_session() -> Iterator[None]:
    """No lab before, no lab after."""
    lab.down()
    yield
    lab.down()


@pytest.fixture(scope="session")
def demo(lab_session: None) -> Outcome:
    """`make demo` on an engine chosen by what this machine can get. Its node stays up after it.

    Installing vLLM and getting it warm takes minutes, so all modules that need a node with it, and
    leave it able to serve, work on this one.
    """
    lab.down()
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=DEMO_HANGS_S,
        check=False,
    )
    join()
    found = re.search(r"(\S*reports/\S+)/report\.html", done.stdout)
    return Outcome(done.returncode, done.stdout, done.stderr, ROOT / found[1] if found else None)


@pytest.fixture(scope="session")
def real(demo: Outcome) -> Outcome:
    """The demo's node, where real vLLM serves on it."""
    assert demo.code == 0, demo.said[-4000:]
    if lab.status()["engine"]["stand_in"]:
        pytest.skip("vLLM's CPU build cannot be had, the demo's engine is a stand-in")
    return demo


@pytest.fixture(scope="module")
def boot(lab_session: None, unknown: None) -> Iterator[Boot]:
    """Boots fresh nodes with the stand-in engine; the module's nodes are gone afterwards."""

    def start(
        *scenarios: str, engine: str = "stand-in", system: str | None = None
    ) -> dict[str, Any]:
        lab.down()
        return lab.up(len(scenarios), list(scenarios), engine=engine, system=system)

    yield start
    lab.down()


@pytest.fixture(scope="module")
def live(lab_session: None, unknown: None) -> Iterator[Live]:
    """Starts nodes that are live with the stand-in engine; gone after the module, as with `boot`.

    They are deployed once for all workers, and start from the disks that were saved then. As a
    node has booted since, the next run of b200.py measures it again (the one change it makes).
    """

    def start(n: int = 1) -> dict[str, Any]:
        lab.down()
        return lab.up_live(n)

    yield start
    lab.down()
