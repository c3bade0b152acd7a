"""Hardware counters as they are read; what they come to is decided by the verdict's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.acceptance import counters
from b200kit.node.state.view import StateView
from tests.unit import states

FALLEN = "NVRM: Xid (PCI:0000:{}): 79, pid=1, GPU has fallen off the bus."


@pytest.fixture(autouse=True)
def edac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two memory controllers, of which one does not say its corrected errors."""
    for name, content in {"mc0/ue_count": "0\n", "mc0/ce_count": "7\n", "mc1/ue_count": "2\n",
                          "mc1/ce_count": "many\n"}.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(counters, "EDAC", tmp_path)
    return tmp_path


def test_every_counter_of_a_node_is_read() -> None:
    found = counters.read(StateView(states.healthy()), lambda: [])
    names = {name.partition("/")[0] for name in found}
    gpus_own = counters.OF_GPUS.keys() | counters.OF_LINKS.keys() | {"xids"}
    assert names == gpus_own | {"sxids", "edac_ue", "edac_ce"}
    assert names > counters.CORRECTED
    assert counters.lacking(8, dict(found)) == []
    own = {name: count for name, count in found.items() if name.startswith("edac")}
    assert own == {"edac_ue/mc0": 0, "edac_ce/mc0": 7, "edac_ue/mc1": 2}


def test_what_cannot_be_read_has_no_key() -> None:
    state = states.healthy()
    state["gpus"][3]["ecc_volatile_uncorrected"] = {"unmeasured": "Not Supported (3)"}
    state["gpus"][4]["links"][5]["recovery_failed"] = {"unmeasured": "Unknown Error (999)"}

    def no_log() -> list[str]:
        raise OSError("not permitted")

    found = counters.read(StateView(state), no_log)
    assert "ecc_volatile_uncorrected/GPU 2" in found
    assert "ecc_volatile_uncorrected/GPU 3" not in found
    assert "nvlink_recovery_failed/GPU 4" not in found
    assert not [name for name in found if name.startswith(("xids", "sxids"))]


def test_without_nvml_only_the_hosts_are_read() -> None:
    state = {"gpus": {"unmeasured": "it did not answer"}}
    found = counters.read(StateView(state), lambda: [])
    assert {name.partition("/")[0] for name in found} == {"edac_ue", "edac_ce", "sxids"}


def test_messages_are_counted_by_gpu_and_by_address_where_there_is_none() -> None:
    log = [FALLEN.format("8f:00"), FALLEN.format("8f:00"), FALLEN.format("01:00")]
    found = counters.read(StateView(states.healthy()), lambda: log)
    own = {name: count for name, count in found.items() if name.startswith("xids/") and count}
    assert own == {"xids/GPU 0": 2, "xids/0000:01:00.0": 1}
