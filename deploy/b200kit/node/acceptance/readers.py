"""What each tool prints, read into figures. Pure.

A reader returns every figure that the tool owes, or raises why there is none: `HardwareFailed`
where the tool itself says that the hardware is bad, `NotApplicable` where it says that there is no
such thing here, and `Unusable` for everything else, which says nothing of the hardware. A log that
is not whole is Unusable, whatever its exit status; so is a clean log with another one than 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from b200kit.node.bandwidth import tests as bandwidth
from b200kit.node.bandwidth.tests import PEER, Unusable
from b200kit.node.lib import documents
from b200kit.node.lib.documents import LARGE, Object
from b200kit.node.state.acceptance import MetricValue

EIO = 5
SCALES = ((30, "gib"), (20, "mib"), (10, "kib"))


class HardwareFailed(Exception):
    """The tool says that the hardware is bad; the text says what it said."""


class ToolNotApplicable(Exception):
    """The tool says that this hardware has no such thing; the text says what it said."""


@dataclass(frozen=True)
class Printed:
    """What a tool printed, how it ended, and how many GPUs it was to test."""

    out: str
    err: str
    status: int
    gpus: int

    @property
    def last(self) -> str:
        """Its last word, on one line of at most 200 characters."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return " ".join(lines[-1].split())[:200] if lines else "it said nothing"

    def require_success(self) -> None:
        """Raise Unusable where a whole log ends with a failure that the log does not explain."""
        if self.status:
            raise Unusable(f"exit status {self.status} after a clean result: {self.last}")

    def document(self) -> Object:
        """The document from its first to its last brace; something may stand before it."""
        begin, end = self.out.find("{"), self.out.rfind("}") + 1
        try:
            return documents.decode(Object, self.out[max(begin, 0) : end], LARGE)
        except ValueError:
            raise Unusable(f"exit status {self.status}, no whole JSON: {self.last}") from None


Reader = Callable[..., tuple[MetricValue, ...]]


def read(words: tuple[str, ...], printed: Printed) -> tuple[MetricValue, ...]:
    """The figures by a reader and its words, as the table of tests has them."""
    return READERS[words[0]](printed, *words[1:])


def nvbandwidth(printed: Printed, test: str, metric: str) -> tuple[MetricValue, ...]:
    """GB/s of each GPU, or of each ordered pair of them."""
    found = bandwidth.read_nvbandwidth(printed.out, test)
    if any(one.wrong for one in found):
        raise HardwareFailed("data came back wrong")
    if not found:
        raise ToolNotApplicable("nvbandwidth waives it here")
    values = [MetricValue(metric, one.subject, one.value, "GB/s") for one in found if one.value]
    owed = printed.gpus * (printed.gpus - 1) if test == PEER else printed.gpus
    if len(values) != owed:
        raise Unusable(f"{len(values)} figures, not {owed}")
    printed.require_success()
    return tuple(values)


def all_reduce(printed: Printed) -> tuple[MetricValue, ...]:
    """Bus bandwidth in GB/s of each message size, all_reduce_8_gib_gb_per_s."""
    found = bandwidth.read_all_reduce(printed.out)
    if any(one.wrong for one in found):
        raise HardwareFailed(f"{sum(one.wrong or 0 for one in found)} sums came back wrong")
    if any(len(one.gpus) != printed.gpus or one.value is None or not one.bytes for one in found):
        raise Unusable(f"its table is not one of {printed.gpus} GPUs")
    if any(one.wrong is None for one in found):
        raise Unusable("it did not check its sums")
    printed.require_success()
    return tuple(
        MetricValue(
            f"all_reduce_{_size(one.bytes or 0)}_gb_per_s", one.subject, one.value or 0.0, "GB/s"
        )
        for one in found
    )


def _size(count: int) -> str:
    shift, unit = next(((s, u) for s, u in SCALES if count >> s << s == count), (0, "b"))
    return f"{count >> shift}_{unit}"


def stress_ng(printed: Printed, stressor: str) -> tuple[MetricValue, ...]:
    """Operations a second of one stressor that verified its results. 0.15 to 0.19's lines.

    Its exit status 2 is a stressor's failure, and one that could not be started, too (its manual).
    """
    said = printed.out + printed.err
    wrong = re.findall(r"^stress-ng: fail:\s*\[[0-9]+\]\s*(.*)$", said, re.MULTILINE)
    if printed.status == 2 and wrong:
        raise HardwareFailed(wrong[0][:200])
    rates = re.search(rf"\]\s+{stressor}\s+[0-9]+\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+\s+([0-9.]+)", said)
    if "successful run completed" not in said or not rates:
        raise Unusable(f"exit status {printed.status}, no whole log: {printed.last}")
    printed.require_success()
    return (MetricValue(f"{stressor}_bogo_ops_per_s", "node", float(rates[1]), "1/s"),)


def fio(printed: Printed) -> tuple[MetricValue, ...]:
    """Operations a second of a disk, and the 99th percentile of their latency in us. fio 3's JSON.

    Raises Unusable for reads that went by the page cache: they are none of the disk.
    """
    jobs = printed.document().get("jobs")
    try:
        (job,) = jobs if isinstance(jobs, list) else []
        options, reads = job["job options"], job["read"]
        disk, error = str(options["filename"]).rpartition("/")[2], int(job["error"])
        latency = reads["clat_ns"]
        figures = float(reads["iops"]), float(latency["percentile"]["99.000000"]) / 1000
        is_direct, count = options.get("direct") == "1", int(latency["N"])
    except (LookupError, TypeError, ValueError) as fault:
        raise Unusable(f"exit status {printed.status}, a result without {fault}") from None
    if error == EIO:
        raise HardwareFailed(f"{disk} returned an I/O error")
    if error or not is_direct or not count:
        raise Unusable(f"error {error} of {disk}, {count} reads, direct: {is_direct}")
    printed.require_success()
    iops, p99 = figures
    return MetricValue("read_iops", disk, iops, "1/s"), MetricValue("read_p99_us", disk, p99, "us")


def dcgm(printed: Printed) -> tuple[MetricValue, ...]:
    """How many tests passed and were left out, and warnings (DCGM's dcgm_diag_schema.json).

    The order of the rules is glimmer-burnin's: no test: not applicable where it says so, else
    unusable; all left out: not applicable; one failed: hardware; one not run: unusable.
    """
    body = printed.document().get("DCGM Diagnostic")
    tests = list(_dcgm_tests(body))
    said = printed.out.lower()
    if not tests:
        if "unsupported" in said or "not supported" in said:
            raise ToolNotApplicable(f"DCGM has no diagnostic for this hardware: {printed.last}")
        raise Unusable(f"exit status {printed.status}, no test in its document: {printed.last}")
    statuses = [status for _, status, _ in tests]
    if set(statuses) == {"skip"}:
        raise ToolNotApplicable("DCGM leaves out every test here")
    if failed := [f"{name}: {why}" for name, status, why in tests if status == "fail"]:
        raise HardwareFailed("; ".join(failed)[:400])
    if other := [name for name, status, _ in tests if status not in ("pass", "skip", "warn")]:
        raise Unusable(f"{', '.join(other)} did not run")
    printed.require_success()
    counts = {
        "dcgm_passed": sum(status != "skip" for status in statuses),
        "dcgm_skipped": statuses.count("skip"),
        "dcgm_warnings": sum(bool(why) for _, _, why in tests),
    }
    return tuple(MetricValue(metric, "node", float(count), "") for metric, count in counts.items())


def _dcgm_tests(body: Any) -> Iterator[tuple[str, str, str]]:
    """Name, status and warnings of each test of each entity."""
    try:
        for category in body["test_categories"]:
            for test in category["tests"]:
                results = test.get("results") or [test["test_summary"]]
                for result in results:
                    where = f"{result.get('entity_group', '')} {result.get('entity_id', '')}"
                    warnings = [
                        f"{one['warning']} (error {one.get('error_id')})"
                        for one in result.get("warnings", [])
                    ]
                    name = f"{test['name']} {where}".strip()
                    yield name, str(result["status"]).lower(), "; ".join(warnings)
    except (LookupError, TypeError, AttributeError):
        return


def gpu_burn(printed: Printed, metric: str) -> tuple[MetricValue, ...]:
    """Gflop/s of each GPU, the median of its progress lines (wilicc/gpu-burn, gpu_burn-drv.cpp).

    Its exit status is no verdict; each GPU has a line at the end, OK or FAULTY.
    """
    gpus = dict(re.findall(r"^\s*GPU ([0-9]+): (OK|FAULTY)\s*$", printed.out, re.MULTILINE))
    progress = [
        (re.findall(r"\(([0-9]+) Gflop/s\)", line), re.findall(r"[0-9]+", after))
        for line in re.split(r"[\r\n]+", printed.out)
        if "proc'd:" in line and "errors:" in line
        for after in [line.partition("errors:")[2].partition("temps:")[0]]
    ]
    whole = [(speeds, errors) for speeds, errors in progress if len(speeds) == printed.gpus]
    if len(gpus) != printed.gpus or not whole:
        raise Unusable(f"exit status {printed.status}, no whole log: {printed.last}")
    faulty = {index for index, word in gpus.items() if word == "FAULTY"}
    faulty |= {str(i) for _, errors in whole for i, count in enumerate(errors) if int(count)}
    if "DIED" in printed.out:
        raise Unusable("a process of it died")
    if faulty:
        raise HardwareFailed(f"GPU {', '.join(sorted(faulty, key=int))} computed wrong results")
    printed.require_success()
    later = [speeds for speeds, _ in whole[len(whole) // 4 :]]
    return tuple(
        MetricValue(
            metric, f"GPU {i}", float(median(int(speeds[i]) for speeds in later)), "Gflop/s"
        )
        for i in range(printed.gpus)
    )


READERS: dict[str, Reader] = {
    one.__name__: one for one in (nvbandwidth, all_reduce, stress_ng, fio, dcgm, gpu_burn)
}
