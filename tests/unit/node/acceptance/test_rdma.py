"""perftest's two ends: their words, their ends, a server that listens before anybody is told so."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.acceptance import rdma
from b200kit.node.acceptance.rdma import judged, listens, words
from b200kit.node.lib import documents
from tests.subtests import in_subtests

DATA = Path(__file__).parents[3] / "data/acceptance"
BW = (DATA / "perftest-4.5-bw.txt").read_text("utf-8")
LAT = (DATA / "perftest-24.07-lat.txt").read_text("utf-8")
FLOW: dict[str, Any] = {
    "test": "bw", "seconds": 10.0, "port": 18518, "hca": "mlx5_3", "hca_port": 1, "gid": 5,
    "interface": None, "tclass": 106, "server": "127.0.0.1", "peer": "127.0.0.1",
}  # fmt: skip


def test_both_ends_name_adapter_gid_and_class() -> None:
    named = ["-d", "mlx5_3", "-i", "1", "-p", "18518", "-x", "5", "--tclass=106"]
    assert words(FLOW)[2:11] == named
    assert words(FLOW | {"test": "lat"})[:11] == ["ib_write_lat", "-F", *named]
    bare = words(FLOW | {"gid": None, "tclass": None})
    assert not [word for word in bare if word == "-x" or word.startswith("--tclass")]


@in_subtests(
    ("status", "said", "report", "outcome", "figures"),
    [
        (0, "", BW, "done", {"BW_average": 0.2, "MsgSize": 65536.0}),
        (0, "", LAT, "done", {"t_typical": 2.7, "percentile_99.9": 4.42}),
        # It ended well, and wrote half of a report, or none.
        (0, "", BW[: BW.index("BW_average") + 15], "machinery", {}),
        (0, "", BW.replace("BW_average", "other"), "machinery", {}),
        (0, " 65536 28312 0.00 391.18 0.746112", None, "machinery", {}),
        # A whole report says nothing where the program failed.
        (1, "Couldn't connect to 10.0.0.2:18515", BW, "machinery", {}),
        (1, "Couldn't create CQ", None, "machinery", {}),
        (1, "", None, "machinery", {}),
        (1, "Completion with error at client\n Failed status 12: wr_id 0", None, "failed", {}),
    ],
)
def test_how_a_client_ended(
    status: int, said: str, report: str | None, outcome: str, figures: dict[str, float]
) -> None:
    found = judged(status, said, report)
    assert (found.outcome, bool(found.why)) == (outcome, outcome != "done")
    assert figures.items() <= found.figures.items()
    assert bool(found.figures) == (outcome == "done")


def test_who_listens_is_read_from_the_kernel_without_a_connection() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not listens(port)
        server.listen(1)
        assert listens(port)


# Stands for ib_write_bw: a server takes one connection, a client makes one and writes its report.
STAND_IN = f"""#!/bin/sh
exec python3 - "$@" <<'EOF'
import socket, sys, time
port = int(sys.argv[sys.argv.index("-p") + 1])
mode = open("@MODE@").read()
if mode == "deaf":
    sys.exit("Couldn't open device")
if "--out_json" not in sys.argv:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", port))
        server.listen(1)
        server.accept()[0].close()
    print("server done")
else:
    if mode == "hang":
        time.sleep(60)
    socket.create_connection(("127.0.0.1", port)).close()
    report = next(w for w in sys.argv if w.startswith("--out_json_file")).split("=")[1]
    open(report, "w").write({BW!r})
EOF
"""


@pytest.fixture
def mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in in PATH; what the file says is how it behaves."""
    how = tmp_path / "mode"
    how.write_text("well", encoding="utf-8")
    tool = tmp_path / "bin/ib_write_bw"
    tool.parent.mkdir()
    tool.write_text(STAND_IN.replace("@MODE@", str(how)), encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(rdma, "FOLDER", tmp_path / "pairs")
    monkeypatch.setattr(rdma, "GRACE_S", -13.0)  # a client may take a second
    return how


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def run(word: str, flow: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    monkeypatch.setattr(documents, "request", lambda: {"flows": [flow]})
    assert rdma.main([word]) == 0
    return json.loads(capsys.readouterr().out)["results"][0]


def test_a_transfer_from_end_to_end(
    mode: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = FLOW | {"port": free_port()}
    assert run("serve", flow, monkeypatch, capsys)["outcome"] == "done"
    asked = run("ask", flow, monkeypatch, capsys)
    assert (asked["outcome"], asked["figures"]["BW_average"]) == ("done", 0.2)
    assert run("end", flow, monkeypatch, capsys)["outcome"] == "done"


def test_a_client_that_hangs_is_ended_and_its_server_stopped(
    mode: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = FLOW | {"port": free_port()}
    run("serve", flow, monkeypatch, capsys)
    mode.write_text("hang", encoding="utf-8")
    assert run("ask", flow, monkeypatch, capsys)["outcome"] == "hung"
    assert run("end", flow, monkeypatch, capsys)["outcome"] == "machinery"
    assert not listens(flow["port"])


def test_a_server_that_was_left_gives_way_to_the_next(
    mode: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = FLOW | {"port": free_port()}
    run("serve", flow, monkeypatch, capsys)
    assert run("serve", flow, monkeypatch, capsys)["outcome"] == "done"
    assert run("ask", flow, monkeypatch, capsys)["outcome"] == "done"
    assert run("end", flow, monkeypatch, capsys)["outcome"] == "done"


def test_a_server_that_does_not_come_up_is_no_verdict(
    mode: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mode.write_text("deaf", encoding="utf-8")
    found = run("serve", FLOW | {"port": free_port()}, monkeypatch, capsys)
    assert (found["outcome"], "open device" in found["why"]) == ("machinery", True)


def test_a_tool_that_is_missing_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for word in ("serve", "ask"):
        found = run(word, FLOW, monkeypatch, capsys)
        assert (found["outcome"], rdma.BRINGS in found["why"]) == ("missing", True)


def test_another_word_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rdma.main(["probe"]) == 2
    assert rdma.main([]) == 2


def test_our_firewall_is_opened_to_the_peer_alone_by_address_or_name(
    mode: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def command(argv: list[str]) -> str:
        asked.append(argv)
        return "tcp dport 18518 accept # handle 7"

    monkeypatch.setattr(rdma, "command", command)
    mode.write_text("deaf", encoding="utf-8")
    for peer in ("127.0.0.1", "localhost", "no.such.invalid"):
        found = run("serve", FLOW | {"peer": peer}, monkeypatch, capsys)
        assert found["outcome"] == "machinery"
    rules = [argv for argv in asked if "insert" in argv]
    assert [argv[-4:] for argv in rules] == [["tcp", "dport", "18518", "accept"]] * 2
    assert {argv[-5] for argv in rules} <= {"127.0.0.1", "::1"}


def test_bytes_by_priority_are_what_ethtool_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "NIC statistics:\n  rx_prio3_bytes: 120\n  tx_prio0_bytes: 7\n  rx_prio3_pause: 4\n"
    monkeypatch.setattr(rdma, "command", lambda argv: said if argv[-1] == "ens1" else "none\n")
    assert rdma.priorities(FLOW | {"interface": "ens1"}) == {
        "rx_prio3_bytes": 120,
        "tx_prio0_bytes": 7,
    }
    assert rdma.priorities(FLOW | {"interface": "ens2"}) is None
    assert rdma.priorities(FLOW) is None
