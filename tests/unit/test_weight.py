"""The budget of `make test`: what it took is compared at the speed that the machine had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests import weight

RELEASE = {"CPU-minutes of make test": 8.0, "milliseconds of the fixed loop": 20.0}


def run(cpu_minutes: float, loop_ms: float = 20.0, code: int = 0) -> weight.Run:
    """A run of the tests."""
    return weight.Run(100, cpu_minutes, 1.0, loop_ms, 0.5, code)


@pytest.mark.parametrize(
    ("cpu_minutes", "loop_ms", "kept"),
    [(8.0, 20.0, True), (11.9, 20.0, True), (12.1, 20.0, False), (18.0, 32.0, True)],
)
def test_run_may_take_half_as_much_again_as_the_release(
    cpu_minutes: float, loop_ms: float, kept: bool
) -> None:
    assert (weight.share_of_budget(run(cpu_minutes, loop_ms), RELEASE) <= 1) is kept


@pytest.mark.parametrize("last", [None, run(1.0, code=1), run(500.0)])
def test_budget_that_is_not_kept_or_was_not_measured_fails(
    last: weight.Run | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = tmp_path / "measured.json"
    if last:
        measured.write_text(json.dumps(vars(last)))
    monkeypatch.setattr(weight, "MEASURED", measured)
    assert weight.show(held=True) == 1
    assert weight.show(held=False) == 0


def test_every_figure_has_one_of_the_release() -> None:
    release = yaml.safe_load(weight.RELEASE.read_text(encoding="utf-8"))
    assert list(weight.figures(None)) == list(release["figures"])
