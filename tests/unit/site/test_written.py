"""What `b200 init` writes is an inventory that a run takes, and says why it is as it is."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.operations import mirror_needs
from b200kit.run import known_hosts
from b200kit.run.login import Login
from b200kit.site import files, plan, proposal
from b200kit.site.plan import PinnedHost, SeenNode, SiteRequest
from b200kit.sizing.goals import GOALS
from tests.messages import assert_message
from tests.unit.site.nodes import ASKED, CHOICES, key, node
from tests.unit.specs import VENDOR_FINGERPRINT, VENDOR_KEY

ROOT = Path(__file__).resolve().parents[3]
MODEL = load.load().models[ASKED.model]


def text(nodes: Sequence[SeenNode], asked: SiteRequest = ASKED, hosts: str = "") -> dict[str, str]:
    """The files for some nodes."""
    return files.written(nodes, asked, MODEL, CHOICES, hosts)


def data(written: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """The values of the group data, as Python reads them."""
    proposal.write(folder, written, {})
    return runpy.run_path(str(folder / files.DATA))


def test_values_and_their_reasons() -> None:
    written = text([node("n01"), node("n02")])
    assert_message(written[files.NODES])
    assert_message(written[files.DATA])
    assert_message(written[files.CONNECTION])


def test_nodes_that_differ_have_values_of_their_own(tmp_path: Path) -> None:
    other = Login("10.0.0.2", "ops", 2222, "/k/id", jump="ops@bastion:2222")
    bastion = PinnedHost("[10.0.0.9]:2222", (key("b"),), "known in ~/.ssh/known_hosts")
    behind = node("n02", system="debian13", login=other, before=[bastion])
    written = text([node("n01"), behind])
    assert not {"system", "driver"} & data(written, tmp_path).keys()
    # The inventory itself speaks to pyinfra's context; its list is what counts.
    listed = written[files.NODES].partition("nodes = ")[2]
    (_, first), (_, second) = eval(listed)
    assert (first["system"], first["driver"]) == ("debian12", "580.126.20")
    assert (second["system"], second["driver"]) == ("debian13", "590.48.01")
    assert (second["ssh_port"], second["ssh_user"], second["_sudo"]) == (2222, "ops", True)
    assert (first["ssh_user"], second["ssh_key"]) == ("root", "/k/id")
    assert (first.get("ssh_proxy_jump"), second["ssh_proxy_jump"]) == (None, "ops@bastion:2222")
    assert f"[10.0.0.9]:2222 {key('b')}" in written[files.HOSTS]
    assert "[10.0.0.2]:2222 ssh-ed25519" in written[files.HOSTS]


def test_known_hosts_keeps_others_and_has_only_the_trusted_keys() -> None:
    before = f"other {key('o')}\nn01.example.internal {key('x')}\n"
    after = text([node("n01")], hosts=before)[files.HOSTS]
    assert known_hosts.pinned(after, ["other"]) == (key("o"),)
    assert known_hosts.pinned(after, ["n01.example.internal"]) == (key("1"),)
    assert after.splitlines()[-1].endswith("printed on its console (n.log)")
    # What is there for the same keys stays, with its reason.
    later = text([node("n01", why="known in some file")], hosts=after)[files.HOSTS]
    assert later == after


def test_every_choice_there_is_passes_the_rules(tmp_path: Path) -> None:
    assert CHOICES["smoke"].keys() == set(GOALS)
    for goal in GOALS:
        values = data(text([node("n01")], SiteRequest(ASKED.model, goal, "internet")), tmp_path)
        assert (values["goal"], values["source"]) == (goal, "internet")


@pytest.mark.process
def test_site_with_a_mirror_is_one_that_a_mirror_can_be_built_for(tmp_path: Path) -> None:
    asked = SiteRequest(
        ASKED.model, "latency", "http://10.0.0.1:8081", "10.0.0.2", VENDOR_FINGERPRINT, "a" * 64
    )
    proposal.write(tmp_path, text([node("n01"), node("n02", system="debian13")], asked), {})
    (tmp_path / "inventories/keys").mkdir()
    (tmp_path / "inventories" / plan.MIRROR_KEY).write_text(VENDOR_KEY)
    needs = mirror_needs.of_inventory(tmp_path / files.NODES)
    assert needs.systems == ["debian12", "debian13"]
    assert needs.fingerprint == VENDOR_FINGERPRINT
    assert [model.revision for model in needs.models] == ["a" * 64]


@pytest.mark.process
def test_run_refuses_only_what_is_still_to_be_brought_and_names_the_commands(
    tmp_path: Path,
) -> None:
    proposal.write(tmp_path, text([node("n01")]), {})
    files.make_key(tmp_path)
    pyinfra = Path(sys.executable).with_name("pyinfra")
    words = [str(pyinfra), str(tmp_path / files.NODES), str(ROOT / "deploy/ready.py"), "-y"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.endswith("Nothing was changed.")]
    assert_message("\n".join(lines).replace(str(tmp_path), "SITE"))


def test_second_run_proposes_and_loses_nothing(tmp_path: Path) -> None:
    first = text([node("n01")])
    assert set(proposal.write(tmp_path, first, {})) == set(first)
    now = proposal.there(tmp_path, first)
    assert list(proposal.difference(now, first)) == []
    assert proposal.write(tmp_path, first, now) == []
    edited = tmp_path / files.DATA
    edited.write_text(edited.read_text().replace("8192", "4096"))
    now = proposal.there(tmp_path, first)
    lines = list(proposal.difference(now, first))
    assert [line for line in lines if line.startswith(("-m", "+m"))] == [
        "-max_model_len = 4096", "+max_model_len = 8192",
    ]  # fmt: skip
    assert "4096" in edited.read_text()
    assert proposal.write(tmp_path, first, now) == [files.DATA]
