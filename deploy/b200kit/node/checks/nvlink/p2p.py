"""Peer-to-peer access of all ordered pairs of GPUs: links can be up while this is dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from b200kit.node.checks.findings import failed, passed, unread
from b200kit.node.checks.judge import Check, check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unmeasured

KINDS = ("read", "write", "nvlink")
WORDS = {1: "chipset", 2: "GPU", 3: "topology", 4: "disabled by registry", 5: "not supported"}
Pair = tuple[int, int]
RESET = Action.RESET_GPU


def blame(bad: list[Pair]) -> tuple[list[int], list[Pair]]:
    """The GPUs that explain the bad ordered pairs, and the pairs no single GPU explains.

    A GPU is blamed when pairs with more than one peer are bad because of it, the worst first, so
    that one GPU out of the fabric is one finding and not fourteen.
    """
    left, guilty = list(bad), []
    while left:
        peers = Counter(gpu for pair in {tuple(sorted(pair)) for pair in left} for gpu in pair)
        worst, count = peers.most_common(1)[0]
        if count < 2:
            break
        guilty.append(worst)
        left = [pair for pair in left if worst not in pair]
    return guilty, left


def judge_kind(kind: str, expected: Expected, state: StateView) -> Iterator[Finding]:
    """Findings of one kind of access over all pairs."""
    gpus = state.gpus()
    if isinstance(gpus, Unmeasured):
        yield unread(f"P2P {kind}", gpus)
        return
    observed = {(a, b): reading for a, b, reading in state.pairs(kind)}
    unknown = [reading for reading in observed.values() if isinstance(reading, Unmeasured)]
    bad = {pair: r for pair, r in observed.items() if isinstance(r, int) and r != expected.value}
    if unknown:
        reason = Unmeasured(unknown[0].reason)
        yield unread(f"P2P {kind} of {len(unknown)} of {len(observed)} pairs", reason)
    if len(gpus) > 2 and len(bad) == len(observed):
        # Not the GPUs' doing: with every pair dead, naming each of them would blame them all.
        reading = f"{kind} {status_words(bad.values())} on all {len(bad)} ordered pairs"
        yield failed(f"no P2P {kind} between any two of {len(gpus)} GPUs", reading, expected, RESET)
        return
    guilty, pairs = blame(list(bad))
    for position in guilty:
        yield cut_off(kind, expected, gpus, position, bad)
    for a, b in pairs:
        reading = f"{kind} {status_words([bad[a, b]])}"
        summary = f"no P2P {kind} from {gpus[a].subject} to {gpus[b].subject}"
        part = f"{gpus[a].part} and {gpus[b].part}"
        yield failed(summary, reading, expected, RESET, gpus[a], part)
    if observed and not bad and not unknown:
        yield passed(f"P2P {kind} works on all {len(observed)} ordered pairs", expected)


def cut_off(
    kind: str, expected: Expected, gpus: list[GpuView], position: int, bad: dict[Pair, int]
) -> Finding:
    """The finding for one GPU that several peers cannot reach or that cannot reach them."""
    gpu, count = gpus[position], len(gpus)
    pairs = [pair for pair in bad if position in pair]
    statuses = status_words(bad[pair] for pair in pairs)
    peers = len({other for pair in pairs for other in pair if other != position})
    summary = f"{gpu.subject} has no P2P {kind} with {peers} of its {count - 1} peers"
    return failed(summary, f"{kind} {statuses} on {len(pairs)} ordered pairs", expected, RESET, gpu)


def status_words(numbers: Iterable[int]) -> str:
    """NVML P2P statuses in words, "status 3 (topology)"."""
    return ", ".join(f"status {n} ({WORDS.get(n, 'unknown')})" for n in sorted(set(numbers)))


def make(kind: str) -> Check:
    """The check of one kind."""

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        return judge_kind(kind, expect.hardware("p2p.status"), state)

    run.__doc__ = f"All ordered pairs have P2P {kind}."
    return run


for _kind in KINDS:
    check(f"p2p.{_kind}")(make(_kind))
