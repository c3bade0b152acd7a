"""A node with `source = "internet"`: pip's own index, a gated model from the lab's small Hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.lab.inventory import nodes
from tests.lab.paths import BRIDGE_ADDRESS, MODEL_NAME, lab_paths
from tests.lab.supply.internet.hub import Hub, Repository, served

pytestmark = pytest.mark.long

NODE, REPOSITORY, COMMIT = "b200-1", "org/tiny-llama", "c" * 40
B200 = str(Path(sys.executable).with_name("b200"))
# Where the pip of a site's nodes looks is set on the nodes: here the lab's wheels.
PIP = "[install]\nno-index = true\nfind-links = {url}/wheels/\ntrusted-host = {host}\n"


@pytest.fixture(scope="module")
def hub(boot: Boot) -> Iterator[Hub]:
    """The Hub with the lab's model, which wants the lab's token from nodes."""
    state = boot("healthy")
    pip = PIP.format(url=state["mirror"]["url"], host=BRIDGE_ADDRESS)
    on(NODE, f"printf '%s' '{pip}' > /etc/pip.conf")
    published = lab_paths().mirror / "models" / MODEL_NAME / state["model"]["revision"]
    files = {p.name: p.read_bytes() for p in published.iterdir() if p.name != "manifest.json"}
    made = Hub({REPOSITORY: Repository(files)})
    with served(made, BRIDGE_ADDRESS, BRIDGE_ADDRESS):
        yield made


@pytest.fixture(scope="module")
def revision(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What `b200 model pin` says for the inventory, and the manifest it wrote."""
    folder = tmp_path_factory.mktemp("models")
    pinned = subprocess.run(
        [B200, "model", "pin", f"{REPOSITORY}@{COMMIT}", "--to", str(folder)],
        env={**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "none")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert pinned.returncode == 0, pinned.stderr
    hub.repositories[REPOSITORY].token = lab_paths().token.read_text().strip()
    hub.sent.clear()
    [path] = folder.glob("*.json")
    return pinned.stdout.split('"')[3], path


def run(hub: Hub, revision: tuple[str, Path], **changes: Any) -> Outcome:
    """A run on the node, by an inventory that names no mirror."""
    [(_, site)] = nodes()
    engine = {name: value for name, value in site["engine"].items() if name != "wheelhouse"}
    data = {
        "system": "debian12", "source": "internet", "model_store": "", "engine": engine,
        "model_revision": revision[0], "model_manifest": str(revision[1]), **changes,
    }  # fmt: skip
    pairs = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in data.items()]
    words = [word for pair in pairs for word in ("--data", pair)]
    return deploy("b200.py", *words, *SHORT_SMOKE, HF_ENDPOINT=hub.url)


@pytest.fixture(scope="module")
def refused(hub: Hub, revision: tuple[str, Path], tmp_path_factory: Any) -> Outcome:
    """A run with a token that the Hub does not know."""
    wrong = tmp_path_factory.mktemp("token") / "token"
    wrong.write_text("hf_canary_other")
    return run(hub, revision, hf_token={"file": str(wrong)})


def test_wrong_token_ends_the_node_before_the_driver(hub: Hub, refused: Outcome) -> None:
    message = refused.described(NODE)
    assert message.startswith("failed at weights: "), refused.said[-3000:]
    assert f"{hub.url}/{REPOSITORY}/resolve/{COMMIT}/" in message
    assert "HTTP 401 Unauthorized: the account of hf_token may not read it" in message
    assert "canary" not in refused.said
    assert on(NODE, "dpkg -s nvidia-open >/dev/null 2>&1 && echo there || true") == ""


@pytest.fixture(scope="module")
def live(hub: Hub, revision: tuple[str, Path], refused: Outcome) -> Outcome:
    """The run with the right one."""
    return run(hub, revision)


def test_node_is_live_on_what_pip_and_the_hub_gave_it(
    hub: Hub, revision: tuple[str, Path], live: Outcome
) -> None:
    assert live.code == 0, live.said[-4000:]
    assert live.outcome(NODE) == "live"
    folder = f"/srv/models/{MODEL_NAME}/{revision[0]}"
    assert on(NODE, f"cat {folder}/.complete") == revision[0]
    assert on(NODE, f"cat {folder}/manifest.json") == revision[1].read_text().strip()
    assert {path for path, _ in hub.sent} == {"model.safetensors"}
    # To the other address nobody brought the token.
    assert hub.leaked == []


def test_token_shows_nowhere(live: Outcome) -> None:
    token = lab_paths().token.read_text().strip()
    assert token not in live.said
    assert live.directory is not None
    written = [path for path in live.directory.rglob("*") if path.is_file()]
    assert not [path for path in written if token.encode() in path.read_bytes()]


def test_second_run_changes_nothing(hub: Hub, revision: tuple[str, Path], live: Outcome) -> None:
    hub.asked.clear()
    again = run(hub, revision)
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.said[-3000:]
    assert hub.asked == []


def test_other_system_is_refused_before_a_change(
    hub: Hub, revision: tuple[str, Path], live: Outcome
) -> None:
    other = run(hub, revision, system="debian13")
    assert other.described(NODE).startswith("failed at ready: it runs Debian 12"), other.said
    assert lab.run(NODE, ["systemctl", "is-active", "vllm@0"]).stdout.strip() == "active"
