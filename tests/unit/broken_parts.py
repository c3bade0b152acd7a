"""Fit states with some GPUs broken, any number of states, the same for each number in every run.

Which GPUs, and in how many ways, is drawn: one, some, a half, all; the links of all to one switch;
a fabric that is cut into groups. What is found may name the broken ones only, or what they share.
"""

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache

from b200kit.node.checks.judge import judge
from b200kit.node.state.verdict import Action, Finding, Status
from tests.unit import corpus, states
from tests.unit.states import State

FIXED = 150
"""How many `make test` tries."""
ALL = range(8)
KINDS = ("read", "write", "nvlink")
GROUPS = ([ALL[:4], ALL[4:]], [ALL[::2], ALL[1::2]], [ALL[n : n + 2] for n in ALL[::2]])
"""Into what a fabric falls: halves of two kinds, and quarters."""
_GPU, _ADDRESS = re.compile(r"GPU (\d+)\b"), re.compile(r"PCI ([0-9a-f:.]+)")
_MODULES = re.compile(r"^modules? ([\d, ]+)$")


@dataclass(frozen=True)
class Broken:
    """One state, and which GPUs were broken in which ways."""

    number: int
    gpus: frozenset[int]
    ways: tuple[str, ...]
    state: State
    expectation: State

    def wrong(self) -> Iterator[str]:
        """Findings that blame a GPU that is whole, or what GPUs share for one that is whole."""
        for finding in judge(self.expectation, self.state).findings:
            if finding.status is Status.FAIL and finding.action >= Action.RESTART_SERVICE:
                if named := self._named(finding) - self.gpus:
                    yield f"{finding.check} blames {sorted(named)}: {finding.summary}"
                whole = [name for name in finding.subjects if not self._has_broken(name)]
                if "board" in finding.part and whole and "in_groups" not in str(self.ways):
                    yield f"{finding.check} blames {finding.part} for {whole}: {finding.summary}"

    def _has_broken(self, name: str) -> bool:
        """Whether a GPU, or one of a pair, is broken."""
        return any(int(index) in self.gpus for index in _GPU.findall(name)) or not _GPU.search(name)

    def _named(self, finding: Finding) -> set[int]:
        """The GPUs that are to be reset, isolated or replaced."""
        alone = finding.subject if _GPU.fullmatch(finding.subject) else ""
        text = f"{finding.part} {alone}"
        found = {int(index) for index in _GPU.findall(text)}
        found |= {_at()[address][0] for address in _ADDRESS.findall(text) if address in _at()}
        if match := _MODULES.match(finding.part):
            found |= {_of_module()[int(number)] for number in match[1].split(", ")}
        return found


@cache
def _at() -> dict[str, tuple[int, State]]:
    return {gpu["pci_address"]: (gpu["index"], gpu) for gpu in states.healthy()["gpus"]}


@cache
def _of_module() -> dict[int, int]:
    return {gpu["module_id"]: gpu["index"] for gpu in states.healthy()["gpus"]}


@cache
def _fit() -> list[bytes]:
    """What to judge by and a state, of each fit case of the corpus with the usual eight GPUs."""
    cases = [c for c in corpus.corpus().cases if c.fit == "fit" and c.hardware == "hgx-b200"]
    pairs = [(case.expectation(), case.state()) for case in cases]
    usual = [(gpu["uuid"], gpu["pci_address"]) for gpu in states.healthy()["gpus"]]
    same = [p for p in pairs if [(g["uuid"], g["pci_address"]) for g in p[1]["gpus"]] == usual]
    return [pickle.dumps(pair) for pair in same]


def case(number: int) -> Broken:
    """The state of a number."""
    draw = random.Random(number)
    expectation, state = pickle.loads(draw.choice(_fit()))
    broken: set[int] = set()
    ways = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        chosen = _chosen(draw)
        way = draw.choice(sorted(WAYS))
        present = {gpu["index"] for gpu in state["gpus"] if isinstance(gpu["uuid"], str)}
        hit = {*WAYS[way](state, sorted(chosen & present), draw)}
        broken |= hit
        ways.append(f"{way} of {sorted(hit)}")
    return Broken(number, frozenset(broken), tuple(ways), state, expectation)


def _chosen(draw: random.Random) -> set[int]:
    some = draw.sample(ALL, draw.randint(1, 8))
    half = draw.choice((ALL[:4], ALL[4:]))
    return {*draw.choice(([draw.randrange(8)], some, some, half, ALL))}


Way = Callable[[State, list[int], random.Random], Collection[int]]
WAYS: dict[str, Way] = {}


def way(function: Way) -> Way:
    """Register a way in which GPUs break; it returns which it broke."""
    WAYS[function.__name__] = function
    return function


def _gpus(state: State, chosen: Collection[int]) -> list[State]:
    return [gpu for gpu in state["gpus"] if gpu["index"] in chosen]


READINGS: dict[str, tuple[object, ...]] = {
    "fabric.state": (1, 2),
    "fabric.status": (23, 999),
    "fabric.health_summary": (2, 3),
    "fabric.health_mask": (0x81, 0x84, 0x90, 0x580),
    "ecc": (False,),
    "ecc_volatile_uncorrected": (1, 5),
    "ecc_aggregate_uncorrected": (900, 4000),
    "sram.volatile_uncorrected": (1, 2),
    "sram.aggregate_uncorrected": (900,),
    "sram.threshold_exceeded": (True,),
    "remap.failure": (True,),
    "remap.pending": (True,),
    "remap.uncorrectable": (600,),
    "repair.channel_pending": (True,),
    "pcie.width": (8, 4),
    "pcie.max_generation": (3, 4),
    "memory_total_mib": (163840,),
    "inforom_valid": (False,),
    "recovery_action": (1, 2, 3, 6),
    "temperature_margin_c": (-5, -9),
    "clocks_event_reasons": (8, 64, 128),
    "mig": (True,),
    "gsp_enabled": (False,),
    "power_enforced_mw": (500000, 700000),
}
"""Readings of a GPU to values of one that is at fault."""


@way
def reading(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """One reading of each is bad, of all alike or of each by itself."""
    key, alike = draw.choice(sorted(READINGS)), draw.random() < 0.5
    *above, last = key.split(".")
    value = draw.choice(READINGS[key])
    for gpu in _gpus(state, chosen):
        for part in above:
            gpu = gpu[part]
        gpu[last] = value if alike else draw.choice(READINGS[key])
    return chosen


@way
def links_down(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """All links, or the same ones, or other ones of each, are down."""
    same = draw.choice((ALL[:9], range(18), range(9, 18), draw.sample(range(18), 3)))
    alike = draw.random() < 0.7
    for gpu in _gpus(state, chosen):
        down = same if alike else draw.sample(range(18), draw.randint(1, 18))
        for link in gpu["links"]:
            if link["link"] in down:
                link.update(state=0, speed_mbps=0)
    return chosen


@way
def links_missing(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """Links that NVML does not list."""
    left = draw.choice((0, 0, 9, 17))
    for gpu in _gpus(state, chosen):
        gpu["links"] = gpu["links"][:left]
    return chosen


@way
def link_errors(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """Links that count errors, or are slow, or failed to recover."""
    key, value = draw.choice(
        (("effective_errors", 9), ("malformed_packets", 3), ("recovery_failed", 2),
         ("effective_ber", 0x105), ("speed_mbps", 26562), ("version", 6))
    )  # fmt: skip
    for gpu in _gpus(state, chosen):
        for link in draw.sample(gpu["links"], min(len(gpu["links"]), draw.randint(1, 18))):
            link[key] = value
    return chosen


@way
def bus(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """The kernel sees a narrow or slow link, or counted errors."""
    kind = draw.choice(("current_link_width", "max_link_speed", "aer"))
    addresses = {gpu["pci_address"] for gpu in _gpus(state, chosen)}
    for entry in state["pci"]["gpus"]:
        if entry["address"] in addresses:
            entry[kind] = {
                "current_link_width": 8,
                "max_link_speed": "16.0 GT/s PCIe",
                "aer": {"correctable": 0, "nonfatal": draw.choice((0, 2)), "fatal": 1},
            }[kind]
    return chosen


@way
def lost(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """NVML counts them and tells nothing of them."""
    del draw
    gone = {"unmeasured": "GPU is lost (15)"}
    for gpu in _gpus(state, chosen):
        gpu.update({key: gone for key in gpu if key != "index"})
    return chosen


@way
def absent(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """NVML does not list them; the bus may."""
    gone = _gpus(state, chosen)
    if draw.random() < 0.5:
        addresses = [str(gpu["pci_address"]) for gpu in gone]
        bus = state["pci"]["gpus"]
        state["pci"]["gpus"] = [gpu for gpu in bus if gpu["address"] not in addresses]
    for kind, rows in state["p2p"].items():
        left = [n for n, gpu in enumerate(state["gpus"]) if gpu["index"] not in chosen]
        state["p2p"][kind] = [[rows[a][b] for b in left] for a in left]
    state["gpus"] = [gpu for gpu in state["gpus"] if gpu["index"] not in chosen]
    return chosen


@way
def no_peers(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """Nobody reaches them, or they reach nobody."""
    kinds, ways = draw.sample(KINDS, draw.randint(1, 3)), draw.choice(("to", "from", "both"))
    _cut(
        state,
        kinds,
        lambda a, b: (a in chosen and ways != "to") or (b in chosen and ways != "from"),
    )
    return chosen


@way
def no_pair(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """Some pairs of theirs do not reach each other."""
    pairs = {tuple(draw.choices(chosen, k=2)) for _ in chosen}
    _cut(state, draw.sample(KINDS, draw.randint(1, 3)), lambda a, b: (a, b) in pairs)
    return chosen


@way
def in_groups(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """The fabric is cut, along halves or quarters or around them; also by its cliques."""
    groups = draw.choice((*GROUPS, [chosen, [n for n in ALL if n not in chosen]]))
    of = {gpu: number for number, group in enumerate(groups) for gpu in group}
    if draw.random() < 0.5:
        _cut(state, draw.sample(KINDS, draw.randint(1, 3)), lambda a, b: of[a] != of[b])
    else:
        for gpu in _gpus(state, ALL):
            if isinstance(gpu["uuid"], str):
                gpu["fabric"]["clique_id"] = of[gpu["index"]]
    # No group is more at fault than another, unless one GPU is alone in it.
    there = [{gpu["index"] for gpu in _gpus(state, group)} for group in groups]
    return [gpu for group in there if len(group) == 1 for gpu in group]


@way
def xid(state: State, chosen: list[int], draw: random.Random) -> Collection[int]:
    """The kernel logged messages of them; of a lost link, their peers, too."""
    code, alike = draw.choice((31, 48, 64, 79, 119, 145, 149, 999)), draw.random() < 0.7
    for gpu in _gpus(state, chosen):
        one = code if alike else draw.choice((48, 79, 119, 149))
        text = "NETIR_LINK_EVT Fatal" if one == 149 else "RLW_REMAP Fatal" if one == 145 else "x"
        address = next(a for a, (index, _) in _at().items() if index == gpu["index"])
        state["xids"].append({"pci_address": address, "code": one, "text": text})
    if chosen and code == 149 and alike:
        for address in draw.sample(sorted(_at()), 3):
            state["xids"].append({"pci_address": address, "code": 145, "text": "RLW_REMAP Fatal"})
    return chosen


def _cut(state: State, kinds: Collection[str], dead: Callable[[int, int], bool]) -> None:
    indexes = [gpu["index"] for gpu in state["gpus"]]
    for kind in kinds:
        rows = state["p2p"][kind]
        for a, row in enumerate(rows):
            for b, entry in enumerate(row):
                if a != b and entry == 0 and dead(indexes[a], indexes[b]):
                    row[b] = 3
