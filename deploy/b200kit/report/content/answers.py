"""What the golden answers of a smoke test came to, as rows: beside the reference, by replica."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.report.document import Unmeasured, mapping, number, read, show


def answers(smoke: object) -> Iterator[tuple[str, str]]:
    """Yield (name, text); what was not read says so."""
    golden = read(smoke, "golden")
    if isinstance(golden, Unmeasured) or not mapping(golden):
        yield "answers", str(golden) if isinstance(golden, Unmeasured) else "unmeasured"
        return
    yield "answers", _outcome(golden)
    for name, one in sorted(mapping(read(golden, "replicas")).items()):
        yield f"answers of {show(name)}", _of_replica(one)


def _outcome(golden: object) -> str:
    outcome, why = (read(golden, "reference", key) for key in ("outcome", "why"))
    if isinstance(outcome, str):
        return f"{show(outcome)} ({show(why)})"
    doubt = read(golden, "doubt")
    if isinstance(doubt, str) and doubt:
        return f"unmeasured: {show(doubt)}"
    return "unmeasured: they were not compared with the reference"


def _of_replica(one: object) -> str:
    nats, why = number(read(one, "nats")), read(one, "why")
    apart = "distance unmeasured" if nats is None else f"largest distance {nats:.3g} nats"
    where = f"; {show(why)}" if isinstance(why, str) and why else ""
    return f"{show(read(one, 'outcome'))} beside most replicas, {apart}{where}"
