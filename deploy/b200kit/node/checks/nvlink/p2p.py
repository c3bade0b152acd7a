"""Peer-to-peer access of all ordered pairs of GPUs: links can be up while this is dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations

from b200kit.node.checks.findings import failed, passed, unread
from b200kit.node.checks.host.driver import OPTION_AWAY
from b200kit.node.checks.judge import Check, check
from b200kit.node.checks.node_scale import REGISTRATION, OnNode, board_of
from b200kit.node.checks.nvlink import cut
from b200kit.node.checks.nvlink.cut import Pair
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread

KINDS = ("read", "write", "nvlink")
WORDS = {1: "chipset", 2: "GPU", 3: "topology", 4: "disabled by registry", 5: "not supported"}
BY_REGISTRY = 4
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


def judge_kind(kind: str, expected: Expected, board: str, state: StateView) -> Iterator[Finding]:
    """Findings of one kind of access over all pairs."""
    gpus, at = state.gpus, state.at("p2p", kind)
    observed: dict[Pair, int] = {}
    lost: dict[Pair, str] = {}
    for a, b in permutations(range(len(gpus)), 2):
        try:
            observed[a, b] = at.number(a, b)
        except Unread as error:
            lost[a, b] = error.reason
    if lost:
        what = f"P2P {kind} of {len(lost)} of {len(lost) + len(observed)} pairs"
        found = unread(Unread(what, next(iter(lost.values()))))
        yield replace(found, subjects=named(gpus, lost))
    bad = {pair: status for pair, status in observed.items() if status != expected.value}
    for finding, pairs in faults(kind, expected, board, gpus, bad):
        yield replace(finding, subjects=named(gpus, pairs))
    if observed and not bad and not lost:
        yield passed(f"P2P {kind} works on all {len(observed)} ordered pairs", expected)


def named(gpus: list[GpuView], pairs: Iterable[Pair]) -> tuple[str, ...]:
    """Ordered pairs, "GPU 0 > GPU 3"."""
    return tuple(pair_name(gpus[a].subject, gpus[b].subject) for a, b in pairs)


def pair_name(one: str, other: str) -> str:
    """An ordered pair of GPUs by their names."""
    return f"{one} > {other}"


def faults(
    kind: str, expected: Expected, board: str, gpus: list[GpuView], bad: dict[Pair, int]
) -> Iterator[tuple[Finding, list[Pair]]]:
    """Each fault and the pairs that it explains: of the fabric first, then of a GPU, of a pair."""
    if asked := [pair for pair, status in bad.items() if status == BY_REGISTRY]:
        text = f"P2P {kind} is switched off by an option of the driver"
        read = f"{kind} {status_words([BY_REGISTRY])} on {len(asked)} ordered pairs"
        yield failed(text, read, expected, Action.NONE, remedy=OPTION_AWAY), asked
        bad = {pair: status for pair, status in bad.items() if status != BY_REGISTRY}
    groups = cut.groups(len(gpus), bad)
    if len(gpus) > 2 and len(groups) == len(gpus):
        # Not the GPUs' doing: with every pair dead, naming each of them would blame them all.
        pairs = len(gpus) * (len(gpus) - 1)
        read = f"{kind} {status_words(bad.values())} on {len(bad)} of {pairs} ordered pairs"
        text = f"no P2P {kind} between any two of {len(gpus)} GPUs"
        yield failed(text, read, expected, RESET, part=board), list(bad)
        return
    if cut.is_cut(groups):
        # One that is alone beside them may have lost its only neighbour: nor is it blamed.
        at = {position: n for n, group in enumerate(groups) for position in group}
        between = {(a, b): status for (a, b), status in bad.items() if at[a] != at[b]}
        text = cut.in_parts([[gpus[position].subject for position in group] for group in groups])
        read = f"{kind} {status_words(between.values())} on {len(between)} ordered pairs"
        summary = f"no P2P {kind} across: {text}"
        yield failed(summary, read, expected, Action.RESTART_SERVICE, part=board), [*between]
        bad = {pair: status for pair, status in bad.items() if pair not in between}
    guilty, alone = blame(list(bad))
    for position in guilty:
        of_it = [pair for pair in bad if position in pair]
        yield cut_off(kind, expected, gpus, position, bad), of_it
    for a, b in alone:
        read = f"{kind} {status_words([bad[a, b]])}"
        summary = f"no P2P {kind} from {gpus[a].subject} to {gpus[b].subject}"
        # Both reach the others, so what lies between them is at fault.
        subject = pair_name(gpus[a].subject, gpus[b].subject)
        yield failed(summary, read, expected, RESET, part=board, subject=subject), [(a, b)]


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
        return judge_kind(kind, expect.hardware("p2p.status"), board_of(expect), state)

    run.__doc__ = f"All ordered pairs have P2P {kind}."
    return run


for _kind in KINDS:
    check(f"p2p.{_kind}", OnNode(after=(*REGISTRATION.after, "fabric.status")))(make(_kind))
