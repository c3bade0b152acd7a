"""How long a start may take follows what is read; no limit of the engine's own ends it earlier."""

from __future__ import annotations

import re

import pytest

from b200kit.inventory.spec import NodeSpec
from b200kit.run.node import Node
from b200kit.serving import replica, systemd_units
from b200kit.sizing import start_time
from tests.subtests import in_subtests
from tests.unit import states
from tests.unit.engines.test_catalogue_commands import asked


@in_subtests(
    ("checkpoint", "ranks", "least", "most"),
    [
        (16e9, 1, 1800, 1800),
        (70e9, 8, 1800, 1800),
        # DeepSeek R1 on eight ranks, and what public scripts allow DeepSeek-V4-Pro: 3600 s.
        (688e9, 8, 2700, 3600),
        (960e9, 8, 3600, 4200),
        (None, 8, 3600, 3600),
    ],
)
def test_limit_follows_the_bytes_that_are_read(
    checkpoint: float | None, ranks: int, least: int, most: int
) -> None:
    assert least <= start_time.limit_s(checkpoint, ranks) <= most


def test_every_further_rank_reads_the_checkpoint_again() -> None:
    assert start_time.limit_s(688e9, 8) > start_time.limit_s(688e9, 1)


VARIABLES = {"vllm": "VLLM_ENGINE_READY_TIMEOUT_S", "sglang": "SGLANG_WARMUP_TIMEOUT"}


@pytest.mark.parametrize("name", VARIABLES)
@in_subtests("asked_for", [None, 900])
def test_engine_may_load_as_long_as_its_unit_lets_it(name: str, asked_for: int | None) -> None:
    changes = {} if asked_for is None else {"warm_deadline_s": asked_for}
    spec = asked(name, "deepseek-r1-fp8", "throughput", **changes)
    assert isinstance(spec, NodeSpec)
    node = Node("n05", spec, state=states.healthy())
    given = replica.settings(node, node.layout()[0])
    allowed = int(replica.environment(node, given)[VARIABLES[name]])
    assert allowed == spec.warm_deadline_s == (asked_for or start_time.limit_s(688586727753, 8))
    # What systemd kills for lies one minute later, so that the engine's own message comes first.
    [unit] = systemd_units.shared_files(node, ())
    limit = re.search(rb"^TimeoutStartSec=(\d+)$", unit.content, re.MULTILINE)
    assert limit
    assert int(limit[1]) == allowed + 60
