"""What the whole suite needs of this machine, installed once before the first test."""

from __future__ import annotations

import sys

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.lab.shell import ensure_host_packages, missing_host_packages

pytest_plugins = ["tests.messages", "tests.sample"]


def pytest_sessionstart(session: pytest.Session) -> None:
    """A compiler, gpg and the lab's tools: a fresh machine has few of them."""
    del session
    if missing_host_packages():
        ensure_host_packages(lambda line: print(line, file=sys.stderr, flush=True))


# Modules that take minutes, the longest first: whoever gets one last is waited for by all others.
LONGEST = (
    # CI's. The first that starts from saved disks makes them; bare nodes keep the others busy.
    *("test_rollout", "test_lost_hosts", "test_mirror", "test_killed_controller"),
    *("test_live_node", "test_reprovision", "test_upgrade", "test_watchdog", "test_weights"),
    *("test_settings", "test_hardening", "test_deaths", "test_firewall", "test_host_stages"),
    "test_sandbox_acts",
    # Of those with the real engine first the ones on the demo's node, which the others take down.
    *("test_demo", "test_rolling", "test_first_request", "test_golden_answers", "test_quality"),
    *("test_bench_serve", "test_engine_sizes", "test_vllm_parser"),
    *("test_two_nodes", "test_two_ranks"),
    # The night's.
    *("test_stack_faults", "test_wrong_answers", "test_watch", "test_proof", "test_monitoring"),
    *("test_slow_replica", "test_containers", "test_bring_up", "test_debian_13", "test_slurm"),
)

REAL_ENGINE = "tests/e2e/real_engine/"
CORPUS = tuple(f"tests/unit/node/checks/test_{name}.py" for name in ("corpus", "mutation"))
"""Both need the verdict of every case, which a worker has once."""


class ByModule(LoadScopeScheduling):  # type: ignore[misc]
    """A module stays on one worker, and so do those that share what takes long to make.

    All that serve with the real engine are one after another.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path in CORPUS:
            return CORPUS[0]
        return REAL_ENGINE if path.startswith(REAL_ENGINE) else path


@pytest.hookimpl(optionalhook=True)  # also without xdist (-p no:xdist)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByModule:
    """How tests are given to workers. Two real engines at once would leave none of them a CPU."""
    return ByModule(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is long begins first."""
    places = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: _place(item, places))


def _place(item: pytest.Item, places: dict[str, int]) -> int:
    return places.get(item.path.stem, len(places)) if "e2e" in item.path.parts else len(places)
