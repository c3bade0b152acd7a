"""The table of plans for the whole catalogue, as a file that a person can read.

Renew it with `.venv/bin/python -m tests.unit.golden_plans > tests/data/plan/layouts.txt`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from b200kit.catalog import load
from b200kit.catalog.types import Model
from b200kit.cli import plan as plan_cli
from b200kit.engines import KINDS, kv_cache
from b200kit.inventory import defaults, engine_flags
from b200kit.node.placement import layout
from b200kit.node.placement.layout import Replica, Shape
from b200kit.sizing import planner
from b200kit.sizing.explain import tokens_text
from b200kit.sizing.fit import GpuPool, Requested
from b200kit.sizing.goals import GOALS
from tests.unit import numa_maps

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "data" / "plan" / "layouts.txt"
MAPS = ("two", "four", "six")
HEAD = """\
Plans for eight B200s: the catalogue by goal, contexts of 4096 tokens. KV tokens are a replica's,
computed, not measured. Below, where the replicas of each shape lie on hosts of two, four and six
NUMA nodes (two of the six without a GPU): [0,1]@0 is a group of GPUs 0 and 1 whose memory is NUMA
node 0.

Renew: .venv/bin/python -m tests.unit.golden_plans > tests/data/plan/layouts.txt
"""


def table() -> str:
    """The whole file."""
    rows, placed = [HEAD], dict[str, None]()
    for name, model in load.load().models.items():
        plans = {goal: plan(model, goal) for goal in GOALS}
        rows += [name, *(_row(goal, made) for goal, made in plans.items()), ""]
        placed |= {row: None for made in plans.values() for row in _places(made)}
    rows += [*sorted(placed), "", "CPUs by number of replicas", *_cpus()]
    return "\n".join(rows) + "\n"


def plan(model: Model, goal: str) -> planner.SizingPlan:
    """The plan for a model on a whole node."""
    hardware = load.load().hardware["hgx-b200"]
    pool = GpuPool(hardware.name, hardware.gpu_count, hardware.gpu_bytes, hardware.gpu_count)
    vllm = KINDS["vllm"]
    flags = engine_flags.of_goal(vllm, model, goal, load.load())
    requested = Requested(
        goal=goal,
        kv_dtype=kv_cache.stated(vllm, flags),
        drafted=vllm.drafted(flags),
        prefix_caching=vllm.prefix_caching(flags),
    )
    return planner.decide(defaults.subject(model), pool, requested)


def place(numa: str, replicas: int, shape: Shape) -> list[Replica]:
    """The replicas on a map."""
    return layout.place(numa_maps.state(numa), replicas, shape, range(8001, 8001 + replicas))


def _row(goal: str, made: planner.SizingPlan) -> str:
    shape = made.shape
    ways = f"{made.replicas} x {plan_cli.parallelism(made)}"
    batch = f"seqs {shape.max_num_seqs:<3}  batch {shape.max_num_batched_tokens:<5}"
    return f"  {goal:<10}  {ways:<10}  {batch}  KV {tokens_text(shape.kv_tokens or 0)}"


def _places(made: planner.SizingPlan) -> Iterator[str]:
    gpus = made.shape.gpus
    for numa in MAPS:
        homes = " ".join(map(_home, place(numa, made.replicas, made.shape)))
        yield f"{made.replicas} x {gpus} GPU{'s'[: gpus > 1]} on {numa:<4}  {homes}"


def _home(replica: Replica) -> str:
    gpus, nodes = (",".join(map(str, these)) for these in (replica.gpus, replica.numa_nodes))
    return f"[{gpus}]@{nodes}"


def _cpus() -> Iterator[str]:
    for numa in MAPS:
        state = numa_maps.state(numa)
        for replicas, tp in ((8, 1), (4, 2), (2, 4), (1, 8)):
            placed = place(numa, replicas, Shape(tp=tp))
            yield f"  {numa}, {replicas} x TP{tp}; free {layout.reserved(state, placed)}"
            yield from (f"    {_home(replica):<28}  {replica.cpus}" for replica in placed)


if __name__ == "__main__":
    sys.stdout.write(table())
