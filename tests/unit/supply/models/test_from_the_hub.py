"""A node with `source = "internet"`: the manifest from the controller, the files from the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from b200kit.cli import main
from b200kit.inventory.spec import NodeSpec
from b200kit.node.weights import fetch
from b200kit.node.weights.manifest import ManifestFile
from b200kit.supply.models import hub_model, manifest
from tests.lab.supply.internet.hub import Hub
from tests.messages import assert_message
from tests.unit.nodes import bare, make
from tests.unit.specs import data
from tests.unit.supply.models.conftest import REPOSITORY, SHARDS, TOKEN

WHAT = f"{REPOSITORY}@{'c' * 40}"
Console = pytest.CaptureFixture[str]


@pytest.fixture
def pinned(hub: Hub, tmp_path: Path) -> Path:
    """The manifest that `b200 model pin` made, by the name that an inventory has for it."""
    assert main(["model", "pin", WHAT, "--to", str(tmp_path / "models")]) == 0
    [path] = (tmp_path / "models").iterdir()
    return path


def fetched(hub: Hub, pinned: Path, dest: Path, token: str | None = None, *more: str) -> int:
    """What the node's downloader makes of it."""
    words = ["--dest", str(dest), "--manifest", str(pinned), "--pause", "0.01"]
    words += ["--revision", manifest.revision(pinned.read_bytes())]
    words += ["--url", hub_model.url(pinned.read_bytes())]
    if token:
        (dest.parent / "token").write_text(token)
        words += ["--token-file", str(dest.parent / "token")]
    return fetch.main([*words, *more])


@pytest.mark.parametrize("gated", [False, True])
def test_node_fetches_from_the_hub_and_its_token_stays_there(
    gated: bool, hub: Hub, made: dict[str, bytes], pinned: Path, tmp_path: Path
) -> None:
    hub.repositories[REPOSITORY].token = TOKEN if gated else None
    hub.cut_at, hub.cuts = 200_000, 2
    dest = tmp_path / "model"
    assert fetched(hub, pinned, dest, TOKEN if gated else None) == 0
    assert (dest / "manifest.json").read_bytes() == pinned.read_bytes()
    assert all((dest / name).read_bytes() == made[name] for name in SHARDS)
    assert {first for _, first in hub.sent} > {0}
    assert hub.leaked == []


@pytest.mark.parametrize("token", [None, "hf_canary_other"])
def test_token_that_is_wrong_or_missing_is_one_line_and_final(
    token: str | None, hub: Hub, pinned: Path, tmp_path: Path, capfd: Console
) -> None:
    hub.repositories[REPOSITORY].token = TOKEN
    capfd.readouterr()
    assert fetched(hub, pinned, tmp_path / "model", token, "--parallel", "1") == fetch.REFUSED
    said = capfd.readouterr().err.replace(hub.url, "HUB")
    assert "canary" not in said
    assert_message(said)


def test_file_that_differs_from_the_manifest_is_refused_by_name(
    hub: Hub, made: dict[str, bytes], pinned: Path, tmp_path: Path, capfd: Console
) -> None:
    files = hub.repositories[REPOSITORY].files
    files[SHARDS[1]] = made[SHARDS[1]][:-1] + bytes([made[SHARDS[1]][-1] ^ 1])
    capfd.readouterr()
    assert fetched(hub, pinned, tmp_path / "model") == fetch.REFUSED
    assert f"{SHARDS[1]}: " in capfd.readouterr().err
    assert not (tmp_path / "model" / ".complete").exists()


def sourced(folder: Path, pinned: Path, **changes: Any) -> dict[str, Any]:
    """What the inventory of such a node says."""
    (folder / "engine.txt").touch()
    engine = {**data()["engine"], "requirements": str(folder / "engine.txt"), "wheelhouse": ""}
    repositories = data()["repositories"]
    repositories[0]["key"] = str(folder / "vendor.asc")
    own = {
        "system": "debian12", "source": "internet", "model_store": "", "engine": engine,
        "repositories": repositories, "model_manifest": str(pinned),
        "model_revision": manifest.revision(pinned.read_bytes()),
    }  # fmt: skip
    return own | changes


def spec_of(folder: Path, pinned: Path, **changes: Any) -> NodeSpec:
    """Its spec."""
    node, _ = bare(folder, **sourced(folder, pinned, **changes))
    return node.spec


def test_unit_names_the_manifest_and_the_hub(hub: Hub, pinned: Path, tmp_path: Path) -> None:
    peer = "http://10.0.0.1:8090"
    asked = sourced(tmp_path, pinned, weights={"peers": [peer]})
    node, machine = bare(tmp_path, **asked)
    make(node, "weights")
    unit = machine.text("/etc/systemd/system/b200-weights.service")
    revision = node.spec.model_revision
    assert (
        f"--peer {peer}/tiny-llama/{revision} --manifest /etc/b200kit/model-manifest.json "
        f"--url {hub.url}/{REPOSITORY}/resolve/{'c' * 40}"
    ) in unit
    assert machine.text("/etc/b200kit/model-manifest.json") == pinned.read_text()


def test_sound_node_has_no_problem(hub: Hub, pinned: Path, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, pinned, hf_token={"env": "B200_HF_TOKEN"})
    assert list(hub_model.problems(spec)) == []


PROBLEMS: dict[str, dict[str, Any]] = {
    "no manifest": {"model_manifest": "SITE/models/other.json"},
    "another revision": {"model_revision": "f" * 64},
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_problem_names_the_command_that_mends_it(
    case: str, hub: Hub, pinned: Path, tmp_path: Path
) -> None:
    changes = {key: value.replace("SITE", str(tmp_path)) for key, value in PROBLEMS[case].items()}
    [problem] = hub_model.problems(spec_of(tmp_path, pinned, **{}).replace(**changes))
    revision = manifest.revision(pinned.read_bytes())
    said = f"{problem.key}: {problem.message}"
    assert_message(said.replace(str(tmp_path), "SITE").replace(revision[:12], "REVISION"))


def test_manifest_without_an_origin_is_refused(hub: Hub, pinned: Path, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, pinned)
    raw = manifest.written([ManifestFile("config.json", 2, "a" * 64)])
    pinned.write_bytes(raw)
    [problem] = hub_model.problems(spec.replace(model_revision=manifest.revision(raw)))
    assert problem.key == "model_manifest"
    assert "which commit of the Hub" in problem.message


def test_token_for_a_hub_in_plain_text_is_refused(
    hub: Hub, pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(tmp_path, pinned, hf_token={"env": "B200_HF_TOKEN"})
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.example")
    [problem] = hub_model.problems(spec)
    assert_message(f"{problem.key}: {problem.message}")
