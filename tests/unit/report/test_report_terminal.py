"""What a person reads in the terminal after a deploy and after a check."""

from __future__ import annotations

import copy
from itertools import product

import pytest

from b200kit.report.terminal.lines import Lines
from tests.messages import assert_message, lines_with
from tests.unit.report import records
from tests.unit.report.pages import terminal


def block_of(text: str, host: str) -> str:
    """Return the lines of one host's block."""
    return next(part for part in text.split("\n\n") if part.startswith(f"{host} "))


def test_a_live_node_shows_its_findings_layout_and_latencies() -> None:
    text = terminal(records.record(n01=records.live()))
    for part in ("n01  LIVE", "8x NVIDIA B200", "144/144 links up", "completed on 8 of 8 GPUs",
                 "node 1: GPU 4,5,6,7; CPUs 56-111", "driver 580.126.20", "CUDA 13.0", "exit 0",
                 "fabric manager 580.126.20-1", "engine vllm 0.32.0 (CPU)", "8002"):  # fmt: skip
        assert part in text
    assert "no change" not in text


def test_a_cpu_of_two_replicas_is_said() -> None:
    host = records.live()
    assert "more than one replica" not in terminal(records.record(n01=host))
    host["layout"][1]["cpus"] = "0-1"
    assert_message(*lines_with(terminal(records.record(n01=host)), "more than one replica"))


def test_process_that_stands_for_several_gpus_is_said() -> None:
    host = records.live()
    host["layout"][1]["processes"] = 1
    text = terminal(records.record(n01=host))
    assert "4,5,6,7 (1 process)" in text
    assert "0,1,2,3 (1 process)" not in text


def test_each_latency_has_p50_p95_and_a_dash_where_n_carries_no_p99() -> None:
    lines = terminal(records.record(n01=records.live())).splitlines()
    for metric in ("TTFT", "ITL", "TPOT", "E2E"):
        row = next(line.split() for line in lines if line.strip().startswith(metric))
        assert float(row[1]) <= float(row[2])
        assert row[3] == "-"
    assert_message(*lines_with("\n".join(lines), "cannot carry a P99"))


def test_a_p99_that_was_measured_is_printed() -> None:
    host = records.live()
    host["smoke"]["main"]["ttft"]["p99_ms"] = 77.7
    assert "77.7" in terminal(records.record(n01=host))


def test_a_red_node_names_the_gpu_the_action_and_the_evidence() -> None:
    text = block_of(terminal(records.fleet()), "n02")
    assert "RED" in text.splitlines()[0]
    assert_message(text)


def test_an_unreachable_node_still_has_a_block_with_its_cause() -> None:
    text = block_of(terminal(records.fleet()), "n03")
    assert "UNREACHABLE" in text
    assert "no route to 10.77.0.13" in text


def test_a_failed_node_names_its_stage_and_cause() -> None:
    text = block_of(terminal(records.fleet()), "n04")
    assert_message(text)


def test_a_stand_in_engine_is_named_in_the_table_itself() -> None:
    text = block_of(terminal(records.fleet()), "n05")
    header = next(line for line in text.splitlines() if "P95" in line)
    assert "STAND-IN ENGINE" in header
    assert "STAND-IN" not in block_of(terminal(records.fleet()), "n01")


def test_a_result_of_an_earlier_run_shows_its_age() -> None:
    text = block_of(terminal(records.fleet()), "n05")
    assert_message(text.splitlines()[0], *lines_with(text, "latency"))


def test_unmeasured_readings_say_why() -> None:
    text = block_of(terminal(records.fleet()), "n06")
    assert_message(text)


def test_a_live_node_without_a_smoke_test_says_so() -> None:
    text = terminal(records.record(n01=records.live(smoke=None)))
    assert_message(*lines_with(text, "latency"))


def test_links_that_could_not_be_read_are_not_counted_as_up() -> None:
    host = records.live()
    host["state"]["gpus"][3]["links"] = {"unmeasured": "timed out"}
    text = terminal(records.record(n01=host))
    assert_message(*lines_with(text, "NVLink"))


def test_the_check_gives_a_fit_node_one_line() -> None:
    text = terminal(records.record("deploy/check.py", n01=records.live(outcome="fit")))
    line, *rest = text.splitlines()
    assert_message(line)
    assert rest[0] == ""
    assert rest[1].startswith("1 node: 1 fit")


def test_the_check_leads_with_what_stands_against_a_node() -> None:
    hosts = {"n02": records.red() | {"outcome": "unfit"}, "n03": records.unmeasured()}
    text = terminal(records.record("deploy/check.py", **hosts))
    assert_message(text)
    assert text.count("-> reset the GPU") == 1


def test_a_waiver_shows_its_owner_and_end() -> None:
    waiver = {"owner": "ops", "until": "2026-12-01", "reason": "J-1123"}
    waived = records.finding("vbios", "waived", summary="mixed VBIOS on GPU 5") | {"waiver": waiver}
    host = records.live(outcome="fit", verdict=records.verdict(waived))
    text = terminal(records.record("check.py", n01=host))
    assert_message(text)


def test_no_line_is_wider_than_the_terminal() -> None:
    long = copy.deepcopy(records.fleet())
    long["hosts"]["h" * 180] = records.live(error="e" * 400, stage="s" * 300, outcome="o" * 300)
    long["hosts"]["n01"]["smoke"]["conditions"]["model"] = "m" * 300
    long["hosts"]["n05"]["smoke"] = {"unmeasured": "because " * 40}
    long["hosts"]["n01"]["layout"][0]["cpus"] = ",".join(map(str, range(0, 200, 2)))
    long["hosts"]["n01"]["stages"][0] |= {"name": "n" * 150, "detail": "d " * 200}
    for entry, width in product(("b200.py", "check.py"), (60, 80, 100, 140)):
        lines = terminal({**long, "entry": entry, "run": "r" * 200}, width=width).splitlines()
        # But for paths, which a person copies whole.
        assert max(len(line) for line in lines if "reports/" not in line) <= width


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_long_name_is_cut_before_the_verdict_is(width: int) -> None:
    longest = f"{'gpu-rack-17-node-03.cluster.example.internal':-<63}"
    for entry, length in product(("b200.py", "check.py"), (43, 63)):
        host = records.red() | {"outcome": "unfit"}
        text = terminal(records.record(entry, **{longest[:length]: host}), width=width)
        assert "UNFIT  " in text.splitlines()[0]
        assert [word for word in ("-> reset", "serving") if word not in text] == []


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_no_table_breaks_a_word_or_a_figure(width: int) -> None:
    rows = [["ms", "accepted", "from-to", "newer", "90 % interval"],
            ["TPOT", "10.1", "9.87-10.4", "12345.1", "+8.2 to +12.8 %"]]  # fmt: skip
    page = Lines(width)
    page.table(rows, left=2, right=frozenset({1, 3}))
    words = " ".join(page.found).replace(";", "").split()
    assert [word for cell in rows[1] for word in cell.split() if word not in words] == []
    assert max(map(len, page.found)) <= width


def test_colour_only_adds() -> None:
    record = records.fleet()
    plain, coloured = terminal(record), terminal(record, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[32m" in coloured
    stripped = coloured
    for code in ("32", "1;31", "33", "36", "2", "1;35", "0"):
        stripped = stripped.replace(f"\x1b[{code}m", "")
    assert stripped == plain


def test_text_from_a_node_cannot_drive_the_terminal() -> None:
    host = records.live(outcome="failed", error="bad\x1b[2J\x07\r\nnews")
    assert "\x1b" not in terminal(records.record(n01=host))


def test_no_host_at_all_is_not_a_success() -> None:
    assert "exit 1" in terminal(records.record())


def test_a_fault_of_many_gpus_is_told_once_with_all_of_them_named() -> None:
    same = {"status": "fail", "read": "fabric state 2"}
    findings = [
        records.finding("fabric.state", **same, subject=f"GPU {i}", summary=f"GPU {i} in progress")
        for i in range(3)
    ]
    host = records.red() | {"verdict": records.verdict(*findings)}
    text = terminal(records.record("check.py", n01=host))
    assert text.count("fabric state 2") == 1
    assert_message(text)


def test_a_check_with_nothing_worse_than_not_measured_owes_two() -> None:
    doubt = {"n1": records.live(outcome="fit"), "n2": records.unmeasured()}
    assert "exit 2" in terminal(records.record("check.py", **doubt))
    assert "exit 1" in terminal(records.record("b200.py", **doubt))
    worse = doubt | {"n3": records.unreachable()}
    assert "exit 1" in terminal(records.record("check.py", **worse))


def test_findings_of_one_part_and_action_ask_for_it_once() -> None:
    lost = records.lost_link_finding()
    dead = {**lost, "check": "nvlink.p2p", "summary": "no P2P on GPU 2"}
    host = records.red() | {"outcome": "unfit", "verdict": records.verdict(lost, dead)}
    text = terminal(records.record("deploy/check.py", n02=host))
    assert "no P2P on GPU 2" in text
    assert text.count("-> reset the GPU") == 1


def test_one_reason_of_many_unmeasured_findings_is_named_once() -> None:
    lost = [
        records.finding(f"check.{number}", "unmeasured", summary=f"figure {number}", read="gone")
        for number in range(5)
    ]
    text = terminal(records.record("check.py", n01=records.live(verdict=records.verdict(*lost))))
    assert text.count("figure ") == 1
    assert_message(text)
