"""deploy/reprovision.py through the real CLI: breaker, floor, plan, manual repair, owners."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import sqlite3
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.inventory.keys.levels import Level
from b200kit.node.lib import documents
from b200kit.reprovision.copy_comparison import CopiedTransaction, NodeCopy
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.ledger import LOG, Ledger, Transactions
from b200kit.reprovision.ledger_line import DoneLine, EvidenceBundle, IntentLine
from b200kit.reprovision.states import RepairState
from b200kit.run import process
from b200kit.store import database
from b200kit.store.database import Store
from tests.fake.fleet import Fleet
from tests.messages import TIME, assert_message
from tests.unit import corpus, states

NO_NVLINK = corpus.named("a GPU is off NVLink and only its links show it").state()
TOUCHES = "put|packages install|systemctl|quarantine|drain|gpu-daemons|reboot"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Transactions:
    """The transactions of the test."""
    monkeypatch.setenv(database.VARIABLE, str(tmp_path / "b200.db"))
    monkeypatch.setenv("B200_EVIDENCE", str(tmp_path / "evidence"))
    return Transactions(Store(tmp_path / "b200.db"))


def bundle() -> str:
    """What the node program prints of a node's evidence."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        entry = tarfile.TarInfo("evidence/manifest.json")
        manifest = json.dumps({"parts": {}}).encode()
        entry.size = len(manifest)
        packed.addfile(entry, io.BytesIO(manifest))
    raw = content.getvalue()
    message = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    return f"{base64.b64encode(raw).decode()}\n{json.dumps(message)}"


# What the parts of the node program answer that repair; each says its own elsewhere.
REPAIRS = {
    "cat .*reprovision.json": "null",
    "quarantine (put|shut|admit|release)": "as asked",
    "drain begin": "2 servers drained",
    "drain count": '{"open": 0}',
    "node.pyz support-bundle": bundle(),
    "gpu-daemons show": '{"step": null}',
    "gpu-daemons (reset|restart)": "reset",
    "^true$": "",
    "rm -f /var/lib/b200kit/watchdog-mark.json": "",
}


def described(run: Any, word: str) -> list[str]:
    return [line for line in run.stderr.splitlines() if word in line]


def test_breaker_opens_before_any_of_many_nodes_that_fail_alike_is_touched(
    tmp_path: Path, site: Transactions
) -> None:
    fleet = Fleet(tmp_path / "site")
    for number in range(8):
        fleet.add(f"n{number:02d}", NO_NVLINK)
    run = fleet.run("reprovision.py")
    assert run.code == 1, run.stderr
    assert set(run.outcomes.values()) == {"unfit"}
    assert [name for name in fleet.names if fleet.machine(name).ran(TOUCHES)] == []
    assert not site.store.path.exists()
    lines = described(run, "nodes fail alike")
    assert len(lines) == 1, lines
    assert_message(lines[0], NODE=re.compile(r"^n\d\d"))


@pytest.fixture
def small(tmp_path: Path, site: Transactions) -> Fleet:
    """Two bare nodes with one fault each, not the same."""
    del site
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01", NO_NVLINK)
    fleet.add("n02", corpus.named("hardware thermal slowdown").state())
    return fleet


def test_dry_run_prints_each_nodes_plan_and_touches_nothing(
    small: Fleet, site: Transactions
) -> None:
    run = small.run("reprovision.py", "--dry", yes=False)
    assert run.code == 0, run.stderr
    for name in small.names:
        assert small.machine(name).ran(TOUCHES) == []
        lines = described(run, f"{name}  plan")
        assert len(lines) == 3, run.stderr
        assert_message(*lines)
    assert not site.store.path.exists()


def test_damaged_transaction_stops_its_node_and_the_others_continue(
    small: Fleet, site: Transactions
) -> None:
    for machine in map(small.machine, small.names):
        machine.answers = {pattern: (True, said) for pattern, said in REPAIRS.items()}
        machine.save()
    keys = small.folder / "group_data" / "nodes.py"
    limits = {
        "budgets": dict.fromkeys(("restart_services", "reset_gpus", "reboot", "power_cycle"), 0),
    }
    keys.write_text(keys.read_text() + f"reprovision = {limits}\nrollout = {{'floor': 0}}\n")
    site.store.append(LOG, "n02", '{"kind": "open"}')
    run = small.run("reprovision.py")
    assert run.outcomes == {"n01": "quarantined", "n02": "failed"}, run.stderr[-3000:]
    assert small.machine("n02").ran(TOUCHES) == []
    assert_message(run.described("n02"), SITE=site.store.path.parent)


def test_nodes_that_await_repair_or_have_another_owner_are_left_alone(
    small: Fleet, site: Transactions
) -> None:
    # n01 awaits manual repair, n02 has an owner by the ledger here, n03 by its own copy.
    small.add("n03", NO_NVLINK)
    waiting = Ledger(site, "n01", "ops-on-call@one pid 7", "earlier")
    waiting.claim()
    waiting.begin([], "nvlink.links: 0 of 18", "")
    decision = Decision(Level.REPLACE, "no level is left", parts=("GPU 2, module 8",))
    kept = EvidenceBundle("e.tar.gz", "00")
    for step in ("quarantine", "drain", "evidence", "hand over"):
        waiting.append(IntentLine(step=step, id=step, decision=decision))
        waiting.append(DoneLine(result=step, why="GPU 2 has no NVLink", evidence=kept))
    waiting.release()
    assert waiting.read().state is RepairState.MANUAL
    hers = Ledger(site, "n02", "alice@elsewhere pid 7", "hers")
    hers.claim()
    since = "2026-11-21T09:00:00Z"
    his = CopiedTransaction("his", RepairState.SERVING, "bob@far pid 3", since, (), "")
    far = replace(process.this(), host="far", machine="another")
    copy = NodeCopy(his, since, "the one before", far, 1800.0)
    machine = small.machine("n03")
    machine.answers = {"cat .*reprovision.json": (True, documents.to_bytes(copy).decode())}
    machine.save()

    run = small.run("reprovision.py")
    assert run.code == 1
    assert run.outcomes == {"n01": "quarantined", "n02": "failed", "n03": "failed"}
    assert [name for name in small.names if small.machine(name).ran(TOUCHES)] == []
    assert_message(run.described("n01"), TIME=TIME)
    assert run.hosts["n01"]["reprovision"]["parts"] == ["GPU 2, module 8"]
    assert_message(run.described("n02"), TIME=TIME)
    assert_message(run.described("n03"))
    assert not site.read("n03").is_open
    hers.release()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A node that serves, for the tests that follow one upon the other."""
    fleet = Fleet(tmp_path_factory.mktemp("live") / "site")
    fleet.add("n03")
    assert fleet.run("b200.py").code == 0
    return fleet


def test_fit_node_is_left_alone_and_the_last_that_serves_stays_in_service(
    live: Fleet, site: Transactions
) -> None:
    before = len(live.machine("n03").log)
    run = live.run("reprovision.py")
    assert (run.code, run.outcomes) == (0, {"n03": "fit"})
    machine = live.machine("n03")
    assert [line for line in machine.log[before:] if "lock.json" not in line] == [
        "node.pyz observe"
    ]
    machine.hardware = NO_NVLINK
    machine.save()
    keys = live.folder / "group_data" / "nodes.py"
    before_floor = keys.read_text()
    keys.write_text(before_floor + "rollout = {'floor': 1}\n")
    run = live.run("reprovision.py")
    assert (run.code, run.outcomes) == (1, {"n03": "unfit"})
    keys.write_text(before_floor)
    assert_message(run.described("n03"))
    assert not site.store.path.exists()


@pytest.mark.process
def test_node_that_is_only_starting_is_left_alone(
    live: Fleet, site: Transactions, tmp_path: Path
) -> None:
    mine = live.copy(tmp_path / "starting", "n03")
    machine = mine.machine("n03")
    machine.hardware = states.healthy()
    machine.units["vllm@1.service"] |= {"active": "activating", "sub": "start-post"}
    machine.save()
    before = len(machine.log)
    run = mine.run("reprovision.py")
    assert (run.code, run.outcomes) == (1, {"n03": "unmeasured"}), run.stdout
    assert_message(run.described("n03"))
    assert re.findall(TOUCHES, "\n".join(mine.machine("n03").log[before:])) == []
    assert not site.store.path.exists()


def test_word_that_is_no_level_is_refused_before_any_connection(small: Fleet) -> None:
    run = small.run("reprovision.py", "--data", "reprovision_action=pray")
    assert run.code == 1
    assert_message(*described(run, "reprovision_action"), TMP=small.folder)
    assert small.machine("n01").log == []


def test_node_that_no_level_cures_is_quarantined_with_its_part_and_stays_so(
    live: Fleet, site: Transactions, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = live.machine("n03")
    machine.hardware = NO_NVLINK
    machine.answers = {pattern: (True, said) for pattern, said in REPAIRS.items()}
    machine.save()
    keys = live.folder / "group_data" / "nodes.py"
    budgets = {"budgets": {"reset_gpus": 1, "reboot": 1}}
    keys.write_text(keys.read_text() + f"fabric_deadline_s = 1\nreprovision = {budgets}\n")
    run = live.run("reprovision.py")
    part = "replace GPU 2 (module 7, PCI 0000:96:00.0, serial 1650000000003"
    assert (run.code, run.outcomes) == (1, {"n03": "quarantined"}), run.stderr[-3000:]
    assert part in run.described("n03")
    machine = live.machine("n03")
    assert (machine.boots, len(machine.ran("gpu-daemons reset"))) == (3, 1)
    order = [line for line in machine.log if any(w in line for w in ("quarantine put", "bundle"))]
    assert "quarantine put" in order[0]
    # EvidenceBundle before each level and before manual repair.
    assert len(machine.ran("node.pyz support-bundle")) == 3
    assert not any(machine.is_active(unit) for unit in ("vllm@0.service", "haproxy.service"))
    tried = site.read("n03").attempts
    assert [(t.level.word, t.outcome) for t in tried] == [
        ("reset-gpus", "did not help"),
        ("reboot", "did not help"),
    ]
    again = live.run("reprovision.py")
    assert (again.code, again.outcomes) == (1, {"n03": "quarantined"})
    assert part in again.described("n03")
    assert live.machine("n03").boots == 3
    assert cli.main(["audit", "verify"]) == 0
    assert cli.main(["transaction", "list"]) == 0
    said = capsys.readouterr().out
    assert "actions on 1 node: intact" in said
    assert part in said
    connection = sqlite3.connect(site.store.path)
    connection.execute("DELETE FROM entry WHERE number > 3")
    connection.commit()
    assert cli.main(["audit", "verify"]) == 1
    assert_message(capsys.readouterr().err, SITE=site.store.path.parent)


def test_second_node_waits_for_its_turn_and_one_that_is_off_awaits_repair(
    small: Fleet, site: Transactions
) -> None:
    off = small.machine("n02")
    off.reachable, off.answers = False, {".": (False, "")}
    off.save()
    for machine in map(small.machine, small.names):
        machine.answers = {pattern: (True, said) for pattern, said in REPAIRS.items()}
        machine.save()
    keys = small.folder / "group_data" / "nodes.py"
    never = dict.fromkeys(("restart_services", "reset_gpus", "reboot", "power_cycle"), 0)
    keys.write_text(keys.read_text() + f"reprovision = {{'budgets': {never}}}\n")
    run = small.run("reprovision.py")
    assert run.code == 1
    assert run.outcomes == {"n01": "quarantined", "n02": "quarantined"}, run.stderr[-3000:]
    assert_message(*described(run, "n02  plan"), *described(run, "n02  evidence"))
    turns = [each.node for each in site.actions() if each.kind in ("open", "release")]
    assert turns in (["n01", "n01", "n02", "n02"], ["n02", "n02", "n01", "n01"])
    assert small.machine("n01").boots == 1
