"""`b200 acceptance`: exit codes and lines over runs in folders, and exclusions of a store."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.cli.command import USAGE
from b200kit.node.acceptance import folder as folders
from b200kit.node.state.verdict import Finding, Status
from b200kit.reprovision.ledger import Ledger
from b200kit.run.places import SITE
from tests.messages import assert_message
from tests.unit.acceptance import runs
from tests.unit.reprovision.test_fleet_limits import in_folder

DATA = Path(__file__).parents[2] / "data" / "acceptance"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three nodes; the tensor cores of n03 are slow."""
    folder = tmp_path_factory.mktemp("site")
    kept = folder / "acceptance"
    kept.mkdir()
    for node in ("n01", "n02", "n03", "n04"):
        slow = 0.9 if node == "n03" else 1.0
        found = {("gemm_tensor_gflops", f"GPU {n}"): slow * (1.7e6 + n) for n in range(runs.GPUS)}
        path = runs.sealed(kept, runs.plan(node), figures=found)
        # The site's pins lie above its runs.
        assert path.parent == kept
    (folder / "known_hosts").write_text((kept / "known_hosts").read_text())
    (folder / "inventories").mkdir()
    return folder


@pytest.fixture
def inside(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site, from inside."""
    monkeypatch.chdir(site)
    return site


def run(*words: str | Path) -> int:
    """A command of the group."""
    return cli.main(["acceptance", *map(str, words)])


def path_of(site: Path, node: str = "n01") -> Path:
    """A run of the site."""
    return next((site / "acceptance").glob(f"{node}-*Z-smoke"))


def test_a_run_is_verified_by_its_node_s_pinned_key(inside: Path, capsys: Capture) -> None:
    hosts, path = inside / "known_hosts", path_of(inside)
    page = inside / "n01.html"
    assert run("verify", path, "--known-hosts", hosts, "--node", "n01", "--page", page) == 0
    assert "n01, level smoke" in capsys.readouterr().out
    assert "ACCEPTED" in page.read_text()
    assert run("verify", path, "--known-hosts", hosts, "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["fit"] == "fit"
    assert run("verify", path, "--known-hosts", hosts, "--node", "n02") == 1
    assert run("verify", path, "--known-hosts", hosts, "--name", "10.0.0.1") == USAGE
    assert run("verify", path, "--known-hosts", "none") == 1
    assert_message(*capsys.readouterr().err.splitlines())
    (inside / "between" / "signatures").mkdir(parents=True)
    assert run("verify", inside / "between", "--page", page) == USAGE


def test_a_run_is_verified_outside_a_site(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SITE, raising=False)
    assert run("verify", path_of(site), "--known-hosts", site / "known_hosts") == 0


def test_slow_ones_are_listed_and_floors_printed(inside: Path, capsys: Capture) -> None:
    assert run("compare") == 1
    shown = capsys.readouterr().out
    assert [line.split()[:3] for line in shown.splitlines()[:-1]] == [["bad", "fleet", "n03:"]]
    assert run("compare", path_of(inside), path_of(inside, "n02")) == 0
    capsys.readouterr()
    assert run("compare", "--json") == 1
    assert len(json.loads(capsys.readouterr().out)["compared"]) > 100
    assert run("baseline") == 0
    assert '"gemm_tensor_gflops": {' in capsys.readouterr().out
    assert run("baseline", "--json") == 0
    floors = json.loads(capsys.readouterr().out)["floors"]
    assert {one["runs"] for one in floors} == {4}


def test_without_runs_there_is_nothing_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "inventories").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (run("compare"), run("baseline")) == (2, 2)
    assert_message(capsys.readouterr().err.splitlines()[0])


def test_a_copy_for_a_vendor_is_written_once(inside: Path, capsys: Capture) -> None:
    to = Path("copy")
    assert run("sanitise", path_of(inside), "--to", to) == 0
    assert {folders.PLAN, folders.LINES, folders.VERDICT, "raw"} == {p.name for p in to.iterdir()}
    assert "n01" not in (to / folders.PLAN).read_text()
    assert run("sanitise", path_of(inside), "--to", to) == 2
    assert_message(capsys.readouterr().err.strip())


def test_lemons_are_listed_from_the_site_s_store(inside: Path, capsys: Capture) -> None:
    bad = Finding("fell off", Status.FAIL, "GPU 2", check="xid.fatal", part="serial 16502401")
    for node, times in (("n07", 2), ("n01", 1)):
        for turn in range(times):
            owner = Ledger(in_folder(inside), node, "alice", f"run {turn}")
            owner.claim()
            owner.begin([bad], "xid.fatal", "")
            owner.release()
    assert run("lemons", "--store", inside / "b200.db") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["2", "n07"], ["2", "n07"], ["1", "n01"], ["1", "n01"], ["2", "nodes"],
    ]  # fmt: skip
    assert "serial 16502401" in lines[1]
    assert run("lemons", "--json", "--store", inside / "b200.db") == 0
    assert len(json.loads(capsys.readouterr().out)["exclusions"]) == 4


def test_what_nccl_sent_over_is_said_by_its_log(tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "rank.log"
    good = (DATA / "nccl-two-nodes.txt").read_text()
    rails = len(set(re.findall(r"\[\d+\](mlx5_\d+):", good)))
    for text, code in ((good, 0), (good.replace("/GDRDMA", ""), 1), ("", 2)):
        log.write_text(text)
        assert run("transport", log, "--rails", str(rails)) == code
    assert run("transport", log, "--rails", "0") == USAGE
