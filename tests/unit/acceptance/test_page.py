"""The page that a person signs has what was measured, held to what, and what was not measured."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from b200kit.acceptance import page, seal
from b200kit.node.lib import signature
from b200kit.node.state.acceptance import Floor
from b200kit.run import signed_proof
from tests.unit.acceptance import runs

FLOOR = Floor(650, "GB/s", "at least", "nine tenths of <what> we expect", "2026-11-21", "inferred")


@pytest.fixture
def shown(tmp_path: Path) -> str:
    """The page of a run without gpu_burn, whose all-reduce failed."""
    plan = runs.plan(floors={"gpu_to_gpu_gb_per_s": FLOOR}, missing=("gpu_burn",))
    path = runs.sealed(tmp_path, plan, {"all-reduce": "failed"})
    hosts = tmp_path / "known_hosts"
    allowed = partial(signed_proof.pinned, hosts, namespace=signature.ACCEPTANCE)
    return page.page(seal.verified(path, allowed))


def cells(shown: str, first: str) -> list[str]:
    """The row of a table that begins so."""
    rows = re.findall(r"<tr>(.*?)</tr>", shown)
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    return next(row for row in found if row[:1] == [first])


def test_page_says_machine_figures_floors_and_what_was_not_measured(shown: str) -> None:
    assert "NOT ACCEPTED" in shown
    assert runs.MACHINE.serial in shown
    assert all(serial in shown for serial in runs.SERIALS)
    row = cells(shown, "gpu_to_gpu_gb_per_s")
    assert row[1:7] == ["8", "771", "771", "771", "GB/s", "at least 650 GB/s"]
    assert row[7].startswith("inferred, 2026-11-21: ")
    assert cells(shown, "host_to_gpu_gb_per_s")[6] == "nothing"
    assert cells(shown, "all-reduce")[5] == "failed"
    assert cells(shown, "gemm-tensor")[5] == "missing"
    assert "wilicc/gpu-burn" in shown
    for what in ("name", "date", "signature"):
        assert f"<div>{what}</div>" in shown


def test_page_needs_nothing_else_and_escapes_what_it_shows(shown: str) -> None:
    assert "&lt;what&gt;" in shown
    assert not re.search(r"<script|<link|src=|href=", shown)
