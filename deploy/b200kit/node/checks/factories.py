"""Makers of the checks that are one comparison on every GPU: a floor, a limit, a flag."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, passed, value
from b200kit.node.checks.judge import Check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView


def at_least(keys: tuple[str, ...], name: str, what: str, action: Action) -> Check:
    """A check that a GPU's number is not below an expectation."""

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        floor = expect.hardware(name)

        def look(gpu: GpuView) -> list[Finding]:
            return value(
                what,
                gpu.number(*keys),
                lambda number: number >= floor.value,
                lambda number: f"{gpu.subject} has {number} {floor.unit} of {what}",
                floor,
                action,
                gpu,
            )

        return each_gpu(state, look, passed(f"{what} is at least {floor.told}", floor))

    run.__doc__ = f"Every GPU has its {what}."
    return run


def at_most(keys: tuple[str, ...], name: str, what: str, action: Action) -> Check:
    """A check that a GPU's count is not above an expectation."""

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        limit = expect.hardware(name)

        def look(gpu: GpuView) -> list[Finding]:
            return value(
                what,
                gpu.number(*keys),
                lambda number: number <= limit.value,
                lambda number: f"{gpu.subject} has {number} {what}",
                limit,
                action,
                gpu,
            )

        return each_gpu(state, look, passed(f"{what}: at most {limit.told} on every GPU", limit))

    run.__doc__ = f"No GPU has too many {what}."
    return run


def is_set(keys: tuple[str, ...], name: str, told: str, action: Action) -> Check:
    """A check that a GPU's flag is as expected."""

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        wanted = expect.hardware(name, bool)

        def look(gpu: GpuView) -> list[Finding]:
            return value(
                ".".join(keys),
                gpu.flag(*keys),
                lambda flag: flag == wanted.value,
                lambda _: f"{gpu.subject} {told}",
                wanted,
                action,
                gpu,
            )

        return each_gpu(state, look, passed(f"{name} is {wanted.value} on every GPU", wanted))

    run.__doc__ = f"No GPU {told}."
    return run
