"""Four replicas of real vLLM, of which one is slower or stalls now and then: named with its kind.

The delays are put into the worker of that replica (tests/bench/faulty_engine/delays.py): each step
takes longer, or one of a hundred requests waits for two seconds. Four replicas that are sound come
first, measured by the same limits. Run by hand, on a machine that does nothing else:

    .venv/bin/pytest -s tests/e2e/real_engine/one_of_four.py

Beside other labs on two CPUs (load 21) sound replicas differed by 15 times in the median TTFT: the
smoke test is right to say so. tests/e2e/site/test_slow_replica.py has the stand-in instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tests.lab as lab
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import structure
from tests.bench.golden_faults import HOOK as SOURCE
from tests.e2e.driving import Outcome, cursor, deploy, on
from tests.e2e.tools.watching import Watched
from tests.lab.inventory import PATIENT

NODE, ODD = "b200-1", 2
HOOK, DELAYS, FOLDER = "/opt/faulty", "/run/delays", "/run/systemd/system/vllm@.service.d"
EVERY = 100
# Two busy CPUs carry four engines: sound ones differ here by more than a tenth, and wait for more
# than a second only beside a stall. A replica is asked as often as it takes to meet one for sure.
SMOKE = PATIENT | {
    "loop_lag_ms": 1000, "requests": 30, "rate": 24.0, "output_tokens": 8, "stall_ms": 1500.0,
    "direct_requests": EVERY, "replica_slowdown": 2.0,
}  # fmt: skip
# With other GPUs all of them stop at once, and nobody uses them here.
LAYOUT = ("replicas=4", "tensor_parallel=2", "max_num_seqs=16", "min_available=0")
DATA = (*LAYOUT, f"smoke={json.dumps(SMOKE)}")
ARGUMENTS = [word for each in DATA for word in ("--data", each)]


@pytest.fixture(scope="module")
def sound(real: Outcome) -> Iterator[Outcome]:
    """The demo's node with four replicas, whose workers can be delayed; none is."""
    for name in ("sitecustomize.py", "delays.py"):
        source = (SOURCE / name).read_text(encoding="utf-8")
        lab.run(NODE, ["sh", "-c", f"mkdir -p {HOOK}; cat > {HOOK}/{name} <<'END'\n{source}\nEND"])
    line = f"[Service]\\nEnvironment=PYTHONPATH={HOOK} STEP_DELAY={DELAYS}/%%i.json\\n"
    on(NODE, f"mkdir -p {DELAYS} {FOLDER}; printf '{line}' > {FOLDER}/delays.conf")
    yield deploy("b200.py", *ARGUMENTS)
    on(NODE, f"rm -r {FOLDER} {HOOK} {DELAYS}; systemctl daemon-reload")


@contextmanager
def delayed(delay: dict[str, float]) -> Iterator[None]:
    """One replica is delayed so, until the end of the block."""
    path = f"{DELAYS}/{ODD}.json"
    on(NODE, f"echo '{json.dumps(delay)}' > {path}.new; mv {path}.new {path}")
    try:
        yield
    finally:
        on(NODE, f"rm {path}")


def measured(delay: dict[str, float]) -> Outcome:
    """A smoke test while one replica is delayed so.

    Without the watchdog, which would restart a replica that is slower than the others meanwhile.
    """
    on(NODE, "systemctl stop b200-agent")
    try:
        with delayed(delay):
            return deploy("smoke.py", *ARGUMENTS)
    finally:
        on(NODE, "systemctl start b200-agent")


def reasons(outcome: Outcome) -> list[str]:
    """What the smoke test says, with its figures printed; each reason begins with a path."""
    smoke = structure(SmokeResult, outcome.host(NODE)["smoke"])
    for name, path in smoke.paths.items():
        print(name, path.completed, path.ttft, path.tpot, path.itl)
    print(smoke.verdict, smoke.reasons, smoke.replicas)
    return list(smoke.reasons)


def test_four_sound_replicas_pass(sound: Outcome) -> None:
    assert (sound.code, sound.outcome(NODE)) == (0, "live"), sound.said[-4000:]
    assert reasons(sound) == []
    compared = sound.host(NODE)["smoke"]["replicas"]["compared"]
    assert {each["path"] for each in compared} == {f"direct-{n}" for n in range(4)}


def test_replica_whose_steps_take_longer_is_named_as_slower(sound: Outcome) -> None:
    done = measured({"each_s": 0.15})
    assert (done.code, done.outcome(NODE)) == (1, "failed"), done.said[-4000:]
    said = reasons(done)
    assert any(line.startswith(f"direct-{ODD}: slower than the other") for line in said), said
    assert all(line.startswith(f"direct-{ODD}: ") for line in said), said


def test_replica_that_stalls_in_one_request_of_a_hundred_is_named_as_stalling(
    sound: Outcome,
) -> None:
    done = measured({"stall_s": 2.0, "every": EVERY})
    assert (done.code, done.outcome(NODE)) == (1, "failed"), done.said[-4000:]
    said = reasons(done)
    stalled = [line for line in said if "stood still for" in line]
    assert stalled == said, said
    assert any(line.startswith(f"direct-{ODD}: request") for line in stalled), said
    # Through the gateway it may be met, too; at no other replica.
    assert {line.partition(":")[0] for line in said} <= {f"direct-{ODD}", "gateway"}, said


def test_slow_replica_is_out_until_it_is_as_fast_as_the_others(sound: Outcome) -> None:
    seen = Watched(NODE, (0, 1, 2, 3))
    seen.load(8, 40)
    here = cursor(NODE)
    with delayed({"each_s": 0.5}):
        found = seen.until(lambda: seen.out() == {ODD}, 300)
    back = seen.until(lambda: seen.out() == set(), 600)
    lost = [one["error"] for one in seen.stop_load() if one["error"]]
    said = next(line for line in seen.said(here).splitlines() if "slow: ITL" in line)
    print(
        f"| slow replica (of four) | {ODD} | {found:.1f} | {back:.1f} | {len(lost)} | 0 | {said} |"
    )
    assert said.startswith(f"vllm{ODD}: ")
    assert lost == []
