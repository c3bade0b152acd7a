"""A run for a vendor names no site, or is not made."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.acceptance import sanitised
from b200kit.node.acceptance import folder as folders
from b200kit.records import archive
from b200kit.records.pseudonyms import Pseudonyms
from tests.unit.acceptance import runs

KEY = b"k" * 32
NAMED = (
    "n01", "pod7", runs.MACHINE.serial, runs.UUIDS[2], runs.SERIALS[5], "10.20.30.41", "hannelore",
    "9c:63:c0:11:22:33", "4f0c3b6e-0f5b",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    return runs.sealed(tmp_path_factory.mktemp("site"), runs.plan())


def texts(run: Path) -> dict[str, str]:
    """Its files."""
    return {name: (run / name).read_text() for name in folders.members(run)}


def test_everything_that_names_the_site_is_replaced_alike(run: Path) -> None:
    files = texts(run)
    assert all(any(name in text for text in files.values()) for name in NAMED)
    found = sanitised.sanitised(files, *folders.read(run), archive.words(), KEY)
    assert found.files.keys() == files.keys()
    everything = "\n".join(found.files.values()).lower()
    assert [name for name in NAMED if name.lower() in everything] == []
    assert "gpu_to_gpu_gb_per_s" in found.files[folders.LINES]
    assert found.counts["identity"] > 0
    raw = found.files["raw/002-gpu-to-gpu-1.out"].splitlines()
    other = found.files["raw/003-host-to-gpu-1.out"].splitlines()
    assert raw[1] == other[1]


def test_a_copy_that_can_be_read_keeps_its_figures(run: Path, tmp_path: Path) -> None:
    found = sanitised.sanitised(texts(run), *folders.read(run), archive.words(), KEY)
    (tmp_path / "raw").mkdir()
    for name, text in found.files.items():
        (tmp_path / name).write_text(text)
    (_, copied), (_, lines) = folders.read(tmp_path), folders.read(run)
    assert [line.test for line in copied] == [line.test for line in lines]
    assert [v.value for line in copied for v in line.values] == [
        v.value for line in lines for v in line.values
    ]


@pytest.mark.parametrize("word", ["gpu", "replica"])
def test_a_node_that_is_called_by_a_word_of_ours_is_refused(word: str, run: Path) -> None:
    files = {"raw/001-facts-1.out": f"seen on {word}, port 1\n"}
    plan = runs.plan(node=word)
    with pytest.raises(ValueError, match=r"001-facts-1\.out: a name or serial number"):
        sanitised.sanitised(files, plan, (), archive.words(), KEY)


def test_an_address_that_would_be_left_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pseudonyms, "text", lambda self, text: text)
    files = {"raw/001-facts-1.out": "peer 10.20.30.41\n"}
    with pytest.raises(ValueError, match="an address"):
        sanitised.sanitised(files, runs.plan(), (), archive.words(), KEY)
