"""Power and heat of a GPU: less than its board's power makes it slow, and its group with it.

A site may cap its GPUs on purpose (settings.power_limit_w). Then every GPU has exactly that cap;
one of less slows its group, one of more is what the site's feed or cooling does not bear.

Margins of heat are T.Limit offsets, not degrees: what is left to the limit. Slowing down begins
where it falls below the GPU's own slowdown margin, -3 on B200 (NVSentinel docs/designs/042).
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import HEAT, SETTING
from b200kit.node.state.expectation import Expectation, Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.view import GpuView, StateView

BOARD = {"power_max_mw": "maximum", "power_default_mw": "default"}
"""Key to what people call it; what nobody sets says which board it is."""
ENFORCED = "power_enforced_mw"
UNIT = "b200-power.service"
_KEY = "settings.power_limit_w"
_NOT_ASKED = (
    f"where the site caps its GPUs on purpose, say so: {_KEY} of the inventory; else find what set"
    " it (nvidia-smi -pl, the management controller)"
)
_NOT_HELD = f"b200 deploy sets it, and {UNIT} at every boot: its journal says why it did not"


def cap_of(expect: Expectation) -> Expected | None:
    """The site's cap in mW; None where it has none. Raises Unexpected for what is no cap."""
    entry = expect.settings().at("power_limit_w")
    if entry.is_missing():
        return None
    watts = entry.number("desired")
    if not 0 < watts <= 5000:
        raise Unexpected(_KEY, f"{watts} is no number of watts")
    return Expected(watts * 1000, "mW", f"{_KEY} of the inventory")


def has_gpus(state: StateView) -> bool:
    """Whether the driver lists GPUs, which then can be given a limit."""
    return bool(state.known_gpus)


def is_other(state: StateView, watts: object) -> bool:
    """Whether the limit of a GPU is known to be another than so many watts."""
    limits = {gpu.known(int, ENFORCED) for gpu in state.known_gpus}
    return bool(limits - {None, int(str(watts)) * 1000})


def capped(state: StateView) -> str:
    """How far GPUs are below their own limit, "700 W of 1000 W"; empty where none is known to be.

    For tables: figures of capped GPUs are no figures of whole ones.
    """
    low, count = [], len(state.known_gpus)
    for gpu in state.known_gpus:
        now, own = gpu.known(int, ENFORCED), gpu.known(int, "power_default_mw")
        if now is not None and own is not None and now < own:
            low.append(f"{now / 1000:g} W of {own / 1000:g} W")
    some = f" on {len(low)} of {count} GPUs" if len(low) < count else ""
    return f"{', '.join(sorted(set(low)))}{some}" if low else ""


@check("power.limit", SETTING)
def limit(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU may draw what its board is for, or exactly what the site caps it at."""
    board, cap = expect.hardware("power.limit"), cap_of(expect)

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        for key in (*BOARD, ENFORCED):
            found = [*within(judged(gpu, key, board, cap), gpu)]
            yield from found
            if any(finding.status is Status.FAIL for finding in found):
                break

    text = f"every GPU may draw {board.text}"
    if cap:
        text = f"every GPU is capped at {_watts(cap)} of {_watts(board)}, as {_KEY} asks"
    return each_gpu(state, check_gpu, passed(text, cap or board))


def judged(gpu: GpuView, key: str, board: Expected, cap: Expected | None) -> Iterator[Finding]:
    """The finding of one limit that is not as it must be, in mW."""
    reading = gpu.number(key)
    read, watts = f"{key} {reading}", f"{reading / 1000:g} W"
    if key in BOARD and reading < board.value:
        what = f"a {BOARD[key]} power limit of {watts}, not {_watts(board)}"
        summary = f"{gpu.subject} has {what}: the board or its VBIOS is another one"
        yield failed(summary, read, board, Action.NONE, gpu)
    elif key == ENFORCED and cap and reading != cap.value:
        summary = f"{gpu.subject} has an enforced power limit of {watts}, not the site's cap"
        text = f"{summary} of {_watts(cap)}"
        yield failed(text, read, cap, Action.NONE, gpu, remedy=_NOT_HELD)
    elif key == ENFORCED and not cap and reading < board.value:
        summary = f"{gpu.subject} has an enforced power limit of {watts}, not {_watts(board)}"
        text = f"{summary}, and no cap is asked for"
        yield failed(text, read, board, Action.NONE, gpu, remedy=_NOT_ASKED)


def _watts(expected: Expected) -> str:
    return f"{expected.value / 1000:g} W"


@check("thermal.margin", HEAT)
def margin(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU is so hot that it slows down; memory that is warm is noted."""
    warm = expect.hardware("thermal.memory_warm")
    expected = rule("the GPU's slowdown margin or more", "NVSentinel docs/designs/042")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        left, slowdown = gpu.number("temperature_margin_c"), gpu.number("slowdown_margin_c")
        if left < slowdown:
            summary = f"{gpu.subject} is too hot: margin {left} C, it slows down below {slowdown} C"
            read = f"temperature margin {left} C, slowdown margin {slowdown} C"
            text = f"{summary}; look at its cooling"
            yield failed(text, read, expected, Action.POWER_CYCLE, gpu)
        if (degrees := gpu.number("memory_temperature_c")) > warm.value:
            yield noted(f"{gpu.subject}: memory is at {degrees} C", gpu, f"{degrees} C", warm)

    return each_gpu(
        state, check_gpu, passed("every GPU is cooler than where it slows down", expected)
    )
