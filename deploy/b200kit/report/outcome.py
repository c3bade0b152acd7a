"""The words for how a host ended, their tone, and the exit code of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from b200kit.node.checks.bare import BARE
from b200kit.report.document import clean, mapping, read, show

GOOD = {"live", "fit", "ready", "removed", "accepted"}
UNMEASURED = "unmeasured"
WORDS = {
    "live": ("LIVE", "good", "passed every stage, smoke test included"),
    "fit": ("fit", "good", "every check passed or is waived"),
    "ready": ("ready", "good", "`b200 ready`: no obstacle"),
    "removed": ("REMOVED", "good", "`b200 remove`: nothing of b200kit is left on it"),
    "accepted": ("ACCEPTED", "good", "`b200 accept`: every test passed, and the gate; sealed"),
    "not accepted": ("NOT ACCEPTED", "bad", "`b200 accept`: a test failed, or the gate; sealed"),
    "not ready": ("NOT READY", "bad", "`b200 ready`: obstacles"),
    "red": ("RED", "bad", "refused at gate or proof; nothing serves there"),
    "unfit": (
        "UNFIT", "bad",
        "`b200 check`: a check failed; `b200 repair`: not taken out, with the reason",
    ),
    "failed": ("FAILED", "bad", "a stage could not do its work; one line names the cause"),
    "unreachable": ("UNREACHABLE", "bad", "no connection, or another host key than the pinned one"),
    BARE: ("BARE", "idle", "`b200 check`: the GPUs are right, and no driver is installed yet"),
    "quarantined": (
        "QUARANTINED", "bad",
        "needs repair and stays out of service; the line names why, or the part",
    ),
    "rolled back": (
        "ROLLED BACK", "bad",
        "`b200 deploy`: the change was bad; the node serves what it served before",
    ),
    "held": (
        "HELD", "idle", "`b200 deploy`: not changed, as a rollout stopped or the floor forbids it",
    ),
    "not reached": ("NOT REACHED", "idle", "the run ended before this node's turn"),
    "unmeasured": (
        "UNKNOWN", "unknown",
        "`b200 check`, `b200 accept`: nothing failed, but something could not be read",
    ),
}  # fmt: skip
"""How a host ended, in a record's word: the label a person reads, its tone, what it means."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one host ended: the recorded word, the label a person reads, a tone for colour."""

    word: str
    label: str
    tone: str


def outcome_of(host: object) -> Outcome:
    """Return the outcome of a HostRecord; one without an outcome is unknown, never good."""
    value = read(host, "outcome")
    word = clean(value).lower() if isinstance(value, str) else "unmeasured"
    label, tone, _ = WORDS.get(word, (clean(word).upper() or "UNKNOWN", "unknown", ""))
    stage = read(host, "stage")
    if word == "failed" and isinstance(stage, str):
        label = f"FAILED at {clean(stage)}"
    return Outcome(word, label, tone)


def is_good(host: object) -> bool:
    """Say whether a host ended as requested: live or fit."""
    return outcome_of(host).word in GOOD


def is_check(record: object) -> bool:
    """Say whether the run only judged (its hosts are fit, ready or accepted or not, never live)."""
    return show(read(record, "entry")).endswith(("check.py", "ready.py", "burnin.py"))


def hosts_of(record: object) -> dict[str, object]:
    """Return the HostRecords by name, in the order of the record."""
    return mapping(read(record, "hosts"))


def ranked(record: object) -> dict[str, object]:
    """Return the HostRecords as a person needs them: what is bad, then unknown, then the rest."""
    tones = ("bad", "unknown", "idle")
    rank = {tone: place for place, tone in enumerate(tones)}
    found = hosts_of(record).items()
    return dict(sorted(found, key=lambda one: rank.get(outcome_of(one[1]).tone, len(tones))))


def exit_code(record: object) -> int:
    """Return 0 only if at least one host was selected and every one is live or fit, else 1.

    A check none of whose hosts is worse than not measured exits with 2, as `b200 judge` does, and
    with 3 where each that is not fit is bare.
    """
    words = {outcome_of(host).word for host in hosts_of(record).values()}
    if words and words <= GOOD:
        return 0
    if not words or not is_check(record) or not words <= {*GOOD, BARE, UNMEASURED}:
        return 1
    return 2 if UNMEASURED in words else 3


def host_exit_code(record: object, host: object) -> int:
    """Return the exit code of this host alone."""
    return exit_code({"entry": read(record, "entry"), "hosts": {"": host}})


def failed_hosts(record: object) -> list[str]:
    """Return the names of the hosts that are neither live nor fit."""
    return [n for n, host in hosts_of(record).items() if not is_good(host)]


def counts(record: object) -> dict[str, int]:
    """Return how many hosts ended in each outcome word."""
    return dict(Counter(outcome_of(host).word for host in hosts_of(record).values()))


def totals(record: object) -> str:
    """Return the totals in words: ``4 nodes: 2 fit, 1 unfit, 1 unknown``."""
    number = len(hosts_of(record))
    parts = [
        f"{count} {'unknown' if word == 'unmeasured' else word}"
        for word, count in counts(record).items()
    ]
    return f"{number} node{'' if number == 1 else 's'}: {', '.join(parts) or 'none selected'}"
