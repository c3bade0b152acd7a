"""`b200 quality`: two servers compared, recorded, and judged as the node's own check judges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.operations import served
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.quality import kept
from b200kit.quality.kept import ServedModel
from tests.lab.supply import models
from tests.messages import assert_message, lines_with
from tests.unit.node.client.server_thread import MODEL, fast, running
from tests.unit.supply.mirror.test_needs import site

Capture = pytest.CaptureFixture[str]
REVISION = "a" * 64


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    """Where the original is served."""
    with running() as url:
        yield url


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose nodes serve the model `MODEL` in FP8."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "config.json").write_text(json.dumps(config()))
    more = f'model = "{MODEL}"\nmodel_config_file = "{folder / "config.json"}"\n'
    more += 'engine["flags"] = {"enforce-eager": True}\n'
    return site(folder, more=more)


@pytest.fixture(scope="module")
def known(inventory: Path) -> ServedModel:
    """What a node is to serve, as the inventory says; it takes seconds to be read."""
    return served.of_node(inventory, "n01")


@pytest.fixture
def asked(
    inventory: Path,
    known: ServedModel,
    tmp_path: Path,
    reference: str,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """A command line without its candidate; the inventory has been read."""
    monkeypatch.setattr(served, "of_node", lambda *_: known)
    return [
        "quality", "compare", "n01", "-i", str(inventory), "--reference", reference,
        "--requests", "24", "--output-tokens", "16",
    ]  # fmt: skip


def config() -> dict[str, object]:
    """Of the lab's model, quantised."""

    return models.config() | {"quantization_config": {"quant_method": "fp8"}}


def run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    status = cli.main(list(words))
    output = capsys.readouterr()
    return status, output.out, output.err


@pytest.mark.parametrize(
    ("fault", "status"), [("rounded", 0), ("drifted", 1), ("garbled", 1), ("parrot", 2), ("", 2)]
)
def test_candidate_is_within_the_limits_or_not_or_nothing_was_compared(
    capsys: Capture, asked: list[str], tmp_path: Path, fault: str, status: int
) -> None:
    with running(fast(fault)) as candidate:
        code, out, err = run(capsys, *asked, "--candidate", candidate)
    assert code == status, (out, err)
    assert bool(kept.KEPT.names()) == (status != 2)
    if status == 2:
        said = [line for line in lines_with(err, "b200 quality: ") if "clear text" not in line]
        assert_message(*[line.replace(candidate, "CANDIDATE") for line in said])
        return
    listed, shown, _ = run(capsys, "quality", "list")
    assert listed == 0
    assert f"fp8 weights of {MODEL}" in shown
    assert REVISION[:12] in shown


def test_more_of_the_record_is_what_was_asked_of_whom(
    capsys: Capture, asked: list[str], reference: str
) -> None:
    with running(fast("rounded")) as candidate:
        code, out, _ = run(capsys, *asked, "--candidate", candidate, "--json")
    entry = json.loads(out)
    assert code == 0
    assert entry["key"] == {
        "model": MODEL, "revision": REVISION, "engine": "vllm", "lowered": ["fp8 weights"],
    }  # fmt: skip
    assert (entry["reference"]["url"], entry["candidate"]["url"]) == (reference, candidate)
    assert entry["itself"]["kl_nats"] == [0, 0, 0]


def refused(capsys: Capture, inventory: Path, words: list[str]) -> None:
    """The comparison is refused, in the words on file."""
    code, _, err = run(capsys, *words, "--candidate", "http://127.0.0.1:9")
    assert code == 2
    folder = str(inventory.parents[1])
    assert_message(*[line.replace(folder, "SITE") for line in lines_with(err, "b200")])


def test_node_that_the_inventory_lacks_is_refused_before_anything_is_sent(
    capsys: Capture, inventory: Path, tmp_path: Path
) -> None:
    words = ["quality", "compare", "n09", "-i", str(inventory), "--reference", "http://127.0.0.1:9"]
    refused(capsys, inventory, words)


def test_model_as_it_was_published_is_refused_before_anything_is_sent(
    capsys: Capture,
    inventory: Path,
    known: ServedModel,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = replace(known, key=replace(known.key, lowered=()))
    monkeypatch.setattr(served, "of_node", lambda *_: whole)
    refused(capsys, inventory, asked)


def test_inventory_that_is_not_there_is_known_to_be_so() -> None:
    with pytest.raises(InventoryRefused, match="nowhere"):
        served.of_node(Path("nowhere.py"), "n01")


def test_no_record_is_named(capsys: Capture, tmp_path: Path) -> None:
    assert run(capsys, "quality", "list")[0] == 2
