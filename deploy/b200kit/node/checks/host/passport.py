"""The node against its own passport: nothing swapped, nothing lost, no counter climbing.

A node that was never accepted has no passport and nothing to be compared with. A passport that
cannot be read is not measured. `passport: renew` in the inventory accepts the node as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule, within
from b200kit.node.checks.host import passport_record
from b200kit.node.checks.judge import Check, check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread, View

PASSPORT = ("notes", "passport")
Compare = Callable[[Expectation, StateView, View], Iterator[Finding]]


def against_passport(compare: Compare) -> Check:
    """A check that compares with the passport where there is one to compare with."""

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        page = state.at(*PASSPORT)
        if state.is_null(*PASSPORT):
            yield passed("no passport yet: this node has not been accepted before")
        elif expect.passport() == "renew":
            yield passed("the passport is being renewed (inventory: passport renew)")
        elif (schema := page.text("schema")) != passport_record.SCHEMA:
            raise Unread("the passport", f"schema {schema}")
        else:
            found = list(within(compare(expect, state, page)))
            yield from found
            if not any(finding.blocks for finding in found):
                day = page.known(str, "accepted_at") or "an unknown day"
                yield passed(f"as accepted on {day}")

    run.__doc__ = compare.__doc__
    return run


def each_page(
    state: StateView, page: View, check_gpu: Callable[[GpuView, View], Iterator[Finding]]
) -> Iterator[Finding]:
    """What `check_gpu` finds on each GPU and its page; a GPU without a page is not measured."""

    def of_gpu(gpu: GpuView) -> Iterator[Finding]:
        place = passport_record.position(gpu)
        if page.known(dict, "gpus", place) is None:
            raise Unread("its page of the passport", f"the passport has no page for {place}")
        yield from check_gpu(gpu, page.at("gpus", place))

    for gpu in state.gpus:
        yield from within(of_gpu(gpu), gpu)


def compare_gpus(expect: Expectation, state: StateView, page: View) -> Iterator[Finding]:
    """No GPU was swapped, moved or taken out since the node was accepted."""
    del expect
    known = page.names("gpus")
    here = {passport_record.position(gpu): gpu for gpu in state.gpus}
    for place, gpu in here.items():
        if place in known:
            text, own = "is another GPU than was accepted", page.at("gpus", place)
            found = different(passport_record.IDENTITY, gpu, own, text)
            yield from within(found, gpu)
        else:
            summary = f"{gpu.subject} is in module {place}, empty when the node was accepted"
            yield failed(summary, "there", rule("empty", "passport"), Action.NONE, gpu)
    for place in sorted(set(known) - set(here)):
        serial = page.known(str, "gpus", place, "serial") or "?"
        summary = f"the GPU of module {place} (serial {serial}) is gone"
        expected = rule(f"serial {serial}", "passport")
        yield failed(summary, "not there", expected, Action.POWER_CYCLE, part=f"module {place}")


def compare_firmware(expect: Expectation, state: StateView, page: View) -> Iterator[Finding]:
    """No GPU's VBIOS, InfoROM or board part number changed since the node was accepted."""
    del expect

    def check_gpu(gpu: GpuView, own: View) -> Iterator[Finding]:
        return different(passport_record.FIRMWARE, gpu, own, "was changed since it was accepted")

    return each_page(state, page, check_gpu)


def different(keys: tuple[str, ...], gpu: GpuView, own: View, text: str) -> Iterator[Finding]:
    """Findings for the texts of a GPU that are not its page's; the first difference says enough."""
    for key in keys:
        observed, accepted = gpu.known(str, key), own.known(str, key)
        if None not in (observed, accepted) and observed != accepted:
            summary = f"{gpu.subject} {text}: {key} {observed}, not {accepted}"
            yield failed(summary, observed, rule(accepted, "passport"), Action.NONE, gpu)
            return
    for key in keys:  # none of those that are known differs
        gpu.text(key)
        own.text(key)


def compare_nics(expect: Expectation, state: StateView, page: View) -> Iterator[Finding]:
    """No NIC that carries data was lost since the node was accepted."""
    del expect
    accepted, here = page.get(list, "nics"), passport_record.data_nics(state)
    for address in sorted(set(map(str, accepted)) - set(here)):
        summary = f"the NIC at {address} is gone"
        expected = rule(f"{len(accepted)} NICs", "passport")
        yield failed(summary, "not there", expected, Action.POWER_CYCLE, part=f"PCI {address}")


def climbing(
    key: str, limit: str, what: str, read: Callable[[GpuView], int], *, lasting: bool
) -> Compare:
    """A comparison of a counter: any rise is noted, one above the limit fails.

    *lasting*: of the GPU's life, so that one that went back says nothing of what it counted.
    """

    def compare(expect: Expectation, state: StateView, page: View) -> Iterator[Finding]:
        most = expect.hardware(limit)

        def check_gpu(gpu: GpuView, own: View) -> Iterator[Finding]:
            if own.is_null(key):
                return  # this hardware has no such counter
            now, then = read(gpu), own.number(key)
            if lasting and now < then:
                raise Unread(what, f"{then} when accepted, {now} now: its InfoROM is another")
            if now > then:
                summary = f"{gpu.subject}: {what}: {then} when accepted, {now} now"
                more = f"{now - then} more"
                if now - then > most.value:
                    yield failed(summary, more, most, Action.RESET_GPU, gpu)
                else:
                    yield noted(f"{summary}; watch it", gpu, more, most)

        return each_page(state, page, check_gpu)

    compare.__doc__ = f"No GPU's count of {what} climbed far since the node was accepted."
    return compare


check("passport.gpus")(against_passport(compare_gpus))
check("passport.firmware")(against_passport(compare_firmware))
check("passport.nics")(against_passport(compare_nics))
check("passport.remap")(
    against_passport(
        climbing(
            "remapped_rows",
            "passport.remap_rise_max",
            "rows remapped for uncorrectable errors",
            passport_record.remapped_rows,
            lasting=True,
        )
    )
)
check("passport.recovery")(
    against_passport(
        climbing(
            "link_recoveries",
            "passport.recovery_rise_max",
            "NVLink recoveries",
            passport_record.link_recoveries,
            lasting=False,
        )
    )
)
