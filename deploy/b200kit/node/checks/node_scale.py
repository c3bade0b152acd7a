"""Faults on the scale of the node: what all GPUs show at once is no GPU's own. Pure.

Eight findings "replace GPU n" with one cause would have eight healthy GPUs replaced, or blame one
half of a fabric that is cut in two. So the findings of a check that all GPUs share, or one half of
them, become one finding of the node, whose part is what they share. A check declares (`OnNode`)
what helps there, where that is not what helps a single GPU, and which faults explain its own.
What could not be read for one reason is one finding in any case, with the parts listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from b200kit.node.lib.cpulist import format as ranges
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding, Status, cause
from b200kit.node.state.view import StateView

FEWEST = 3
"""Of fewer GPUs, all are not more than each of them."""
EVERY, HALF = "every GPU", "half of the GPUs"
MOST_SUMMARIES, MOST_READ = 3, 64
"""Different things that a summary says, and what was read, a part each."""
_GPU, _AT = re.compile(r"GPU ([0-9]+)"), "the GPU at "


@dataclass(frozen=True)
class OnNode:
    """What a fault means where all GPUs show it, or half of them.

    `kind`: of those findings of the check only. `action`: None for that of a single GPU. `part`:
    what to look at if it returns, where {board} is the GPUs' common board, which it is by default
    where a reset may help. `remedy`: what to do, where the action's words do not say it. `after`:
    checks whose fault of the whole node explains this one, so that what helps there is tried first.
    """

    kind: str = ""
    action: Action | None = None
    part: str | None = None
    remedy: str = ""
    after: tuple[str, ...] = ()


SETTING = OnNode(part="")
"""What somebody set: no part is to blame for it."""
HEAT = OnNode(
    action=Action.NONE,
    part="",
    remedy="look at the inlet temperature, fans, filters and power supplies of the node",
)
"""All GPUs at once: the room or the node's supply, which a new part does not mend."""
_BEFORE = (
    "modules.loaded",
    "nics.management-port",
    "nics.management-state",
    "packages.lockstep",
    "fabric.units",
    "fabric.mode",
    "fabric.nvlsm-installed",
    "fabric.nvlsm",
    "nvlink.links",
)
"""Checks of what a registration needs: with a fault there, it is only the consequence."""
REGISTRATION = OnNode(
    action=Action.RESTART_SERVICE, part="{board}", after=(*_BEFORE, "fabric.state")
)
"""A GPU that alone is not registered well is reset; where all are not, the fabric manager is."""
NAMED = {"each": OnNode(), "setting": SETTING, "registration": REGISTRATION}
"""Those that rows of checks name."""


def fold(
    findings: Sequence[Finding],
    declared: Sequence[OnNode],
    everyone: Sequence[Sequence[str]],
    board: str,
) -> list[Finding]:
    """The findings of one check, with those that are one fault, or one missing reading, as one."""
    left = list(findings)
    if len(left) < 2:
        return left
    about_gpus = {name for names in everyone for name in names}
    for key in (_reading, _kind, _action):
        # By identity and in one pass: an attacker's node has as many findings as it likes.
        told: dict[int, Finding | None] = {}
        for group in _groups(left, key):
            who = _shared(group, everyone)
            if who or (key is _reading and about_gpus >= set(_names(group))):
                told |= {id(finding): None for finding in group}
                ones = _alike(group)
                told |= {id(same[0]): _as_one(same, who, declared, board) for same in ones}
        left = [one for f in left if (one := told.get(id(f), f)) is not None]
    return left


def board_of(expect: Expectation) -> str:
    """What the GPUs of a node share."""
    hgx = (expect.known(str, "hardware", "name") or "").startswith("hgx")
    return "the HGX baseboard" if hgx else "the board of the GPUs"


def explained(
    findings: Sequence[Finding], declared: Mapping[str, Sequence[OnNode]]
) -> list[Finding]:
    """The findings; one of the node that follows from another asks for no more than that one."""
    of_node = [f for f in findings if f.status is Status.FAIL and f.subject == "node"]
    found = []
    for finding in findings:
        after = {name for on in declared.get(finding.check, ()) for name in on.after}
        first = next((f for f in of_node if f.check in after), None) if finding in of_node else None
        if first and first is not finding:
            action = min(finding.action, max(first.action, Action.RESTART_SERVICE))
            summary = f"{finding.summary}, which follows from {first.check}"
            finding = replace(finding, summary=summary, action=action)
        found.append(finding)
    return found


def gpus_of(state: StateView) -> list[tuple[str, ...]]:
    """The GPUs as findings name them, in order: those of NVML, and those of the bus."""
    by_nvml = tuple(gpu.subject for gpu in state.known_gpus)
    at = [str(entry.reading("address")) for entry in state.known_items("pci", "gpus")]
    known = [state.gpu_at(address) for address in at]
    on_bus = (g.subject if g else f"the GPU at {a}" for g, a in zip(known, at, strict=True))
    return [by_nvml, tuple(on_bus)]


def in_words(names: Sequence[str]) -> str:
    """ "GPU 0-3", as people name several."""
    numbers = [match[1] for name in names if (match := _GPU.fullmatch(name))]
    if len(names) == 1:
        return names[0]
    if all(name.startswith(_AT) for name in names):
        return f"the GPUs at {', '.join(name.removeprefix(_AT) for name in names)}"
    if len(numbers) < len(names):
        return ", ".join(names)
    return f"GPU {ranges(map(int, numbers))}"


def _reading(finding: Finding) -> Hashable:
    """What several parts have alike: a reading that is missing, a note."""
    alike = finding.status in (Status.UNMEASURED, Status.PASS) and finding.subject != "node"
    return (finding.status, _text(finding), cause(finding.read)) if alike else None


def _action(finding: Finding) -> Hashable:
    """What is of a part, not of the node already."""
    failed = finding.status in (Status.FAIL, Status.WAIVED) and finding.subject != "node"
    return (finding.action,) if failed else None


def _kind(finding: Finding) -> Hashable:
    return (action, finding.kind) if (action := _action(finding)) else None


def _groups(
    findings: Iterable[Finding], key: Callable[[Finding], Hashable]
) -> Iterable[list[Finding]]:
    groups: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        if (of := key(finding)) is not None:
            groups.setdefault(of, []).append(finding)
    return [group for group in groups.values() if len(group) > 1]


def _alike(group: Iterable[Finding]) -> list[list[Finding]]:
    """The findings of a group, apart where they are waived."""
    apart: dict[str, list[Finding]] = {}
    for finding in group:
        apart.setdefault(str(finding.waiver), []).append(finding)
    return list(apart.values())


def _names(group: Iterable[Finding]) -> list[str]:
    """What findings are about, each once."""
    return list(dict.fromkeys(name for f in group for name in (f.subject, *f.subjects)))


def _shared(group: Iterable[Finding], everyone: Iterable[Sequence[str]]) -> str:
    """Who shares it: "every GPU", or "half of the GPUs"; nothing where it is of each by itself."""
    for names in everyone:
        named, (middle, odd) = set(names) & set(_names(group)), divmod(len(names), 2)
        if len(names) >= FEWEST and len(named) == len(names):
            return EVERY
        if middle >= FEWEST and not odd and named in (set(names[:middle]), set(names[middle:])):
            return HALF
    return ""


def _text(finding: Finding) -> str:
    """A part's summary without its name."""
    return re.sub(rf"{re.escape(finding.subject)}(?![0-9])", "\0", cause(finding.summary))


def _as_one(group: Sequence[Finding], who: str, declared: Iterable[OnNode], board: str) -> Finding:
    """One finding for several of one check; of the node, where who shares it are many."""
    first, names = group[0], _names(group)
    kind = first.kind if len({f.kind for f in group}) == 1 else ""
    on = next((on for on in declared if on.kind in ("", kind)), OnNode())
    failed = first.status is Status.FAIL
    action = first.action if on.action is None or not failed else on.action
    part = ("{board}" if action >= Action.RESET_GPU else "") if on.part is None else on.part
    half = [f"{who} at once, so what they share is at fault"] if failed and who == HALF else []
    apart = _joined([f"{f.subject}: {f.read}" for f in group], MOST_READ)
    return replace(
        first,
        summary="; ".join([_joined([*_summaries(group)], MOST_SUMMARIES), *half]),
        subject="node" if who else in_words(names),
        subjects=tuple(names),
        read=cause(first.read) if len({cause(f.read) for f in group}) == 1 else apart,
        action=action,
        part=part.format(board=board) if failed else "",
        remedy=(on.remedy if failed else "") or first.remedy,
    )


def _joined(texts: Sequence[str], most: int) -> str:
    more = [f"and {len(texts) - most} more"] * (len(texts) > most)
    return "; ".join([*texts[:most], *more])


def _summaries(group: Iterable[Finding]) -> Iterable[str]:
    """Each summary once, with the parts that have it."""
    by_text: dict[str, list[str]] = {}
    for finding in group:
        by_text.setdefault(_text(finding), []).append(finding.subject)
    for text, names in by_text.items():
        whom = f"each of {in_words(names)}" if len(names) > 1 else names[0]
        yield text.replace("\0", whom)
