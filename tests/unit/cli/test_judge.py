"""`b200 judge`: what a person reads, and the exit status."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from b200kit import cli
from tests.messages import assert_message
from tests.unit import captures, states


def main(arguments: list[str]) -> int:
    """Exit code of `b200 judge`."""
    return cli.main(["judge", *arguments])


def state_file(name: str) -> str:
    """Path of a recorded state that is whole."""
    return str(states.STATES / f"{name}.json")


def test_fit_node_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([state_file("healthy-hgx-b200")]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert_message(text)


def test_unfit_node_names_fault_action_and_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([states.file("gpu2-no-nvlink", tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert_message(lines[0])
    text = " ".join(" ".join(lines).split())
    assert text.count("-> ") == 1
    assert_message(text)
    assert any(line.startswith("  > GPU2   NV0!") for line in lines)


def test_long_name_is_cut_before_the_verdict_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{'n' * 120}.json"
    path.write_bytes(Path(states.file("gpu2-no-nvlink", tmp_path)).read_bytes())
    assert main([str(path)]) == 1
    out = capsys.readouterr().out
    assert "UNFIT  " in out.splitlines()[0]
    assert "-> reset" in out


def test_each_example_is_listed_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in states.NAMES:
        provenance = states.recorded(name)["provenance"]
        shown = (f"{name}.json", provenance["kind"], *provenance["captured"].values())
        assert [part for part in shown if " ".join(part.split()) not in text] == []


def test_each_example_is_judged_by_the_hardware_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    bad = {"gpu2-no-nvlink", "fabric-insufficient-resources"}
    for name in states.NAMES:
        assert main(["--example", name]) == (name in bad), capsys.readouterr().out


def test_example_says_where_it_is_from_and_what_is_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--example", "healthy"]) == 0
    assert_message(capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [["--example", "gpu2-nvlink"], ["--example", "x"], [], ["n01.json", "--example", "healthy"]],
    ids=["near", "far", "nothing", "both"],
)
def test_example_that_is_not_there_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 64
    assert_message(capsys.readouterr().err)


def test_topology_is_shown_of_a_fit_node_where_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([state_file("healthy-hgx-b200"), "--topology"]) == 0
    assert capsys.readouterr().out.count("NV18") >= 56


def test_completed_fabric_without_success_is_unfit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([states.file("fabric-insufficient-resources", tmp_path)]) == 1
    assert_message(capsys.readouterr().out)


def test_node_is_judged_out_of_a_pipe() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb") as sent:
        sent.write(gzip.compress(Path(state_file("healthy-hgx-b200")).read_bytes()))
        sent.close()
        assert main([f"/dev/fd/{reader}"]) == 0


def test_file_is_judged_by_the_hardware_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An H100 by itself lacks no NVLink, and seven GPUs no more than the count says."""
    main([str(captures.CAPTURES / "h100" / "idle.json"), "--json"])
    found = json.loads(capsys.readouterr().out)["verdict"]["findings"]
    blocking = {f["check"] for f in found if f["status"] in ("fail", "unmeasured")}
    assert blocking <= {"clock.synchronized", "host.settings", "services.active"}
    other, path = captures.observed("idle"), tmp_path / "other.json"
    other["pci"]["gpus"][0]["device"] = "1db6"
    path.write_text(json.dumps(other))
    assert main([str(path)]) == 64
    assert "10de:1db6" in capsys.readouterr().err


def test_json_is_the_record_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([states.file("gpu2-no-nvlink", tmp_path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["verdict"]["fit"]) == ("unfit", "unfit")
    assert found["state"]["schema"] == "b200kit/node-state/1"


UNREADABLE: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "cut off": (states.STATES / "healthy-hgx-b200.json").read_bytes()[:40_000],
    "no JSON": b"Permission denied",
    "not UTF-8": b'{"schema": "\xff"}',
    "list": b"[]",
    "number": b"1",
    "null": b"null",
    "text": b'"b200kit/node-state/1"',
    "empty object": b"{}",
    "unmeasured": b'{"unmeasured": "no route to host"}',
    "other schema": b'{"schema": "b200kit/node-state/7"}',
    "schema is a list": b'{"schema": ["b200kit/node-state/1"]}',
    "only a schema": b'{"schema": "b200kit/node-state/1"}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep and cut off": b'{"gpus": ' * 100_000,
    "deep schema": b'{"schema": ' + b"[" * 900 + b"]" * 900 + b"}",
    "long number": b'{"schema": ' + b"1" * 10_000 + b"}",
}


REFUSED = {
    *("empty", "blank", "cut off", "no JSON", "not UTF-8", "only a schema"),
    *("deep", "deep and cut off", "deep schema", "long number"),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["", "json"])
def test_what_cannot_be_judged_is_refused(
    name: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(UNREADABLE[name])
    # A wrong file is refused; what is a document and no state is judged, and not measured.
    assert main([str(path), *options]) == (64 if name in REFUSED else 2)
    assert (str(path) in capsys.readouterr().err) is (name in REFUSED)


def test_a_text_that_no_terminal_can_show_is_cleaned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = states.healthy()
    state["gpus"][5]["vbios"] = "\ud800"
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state))
    assert main([str(path)]) == 2
    assert "GPU 5" in capsys.readouterr().out


def test_file_that_is_not_there_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/no/such.json"]) == 64
    assert capsys.readouterr().err.count("\n") == 1


def test_unknown_hardware_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([state_file("healthy-hgx-b200"), "--hardware", "x"]) == 64
    assert "known: " in capsys.readouterr().err


def test_own_expectation_and_a_waiver_that_held_that_day_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect, state = states.expectation(), states.healthy()
    state["gpus"][5]["vbios"] = "97.00.00.00.01"
    expect["waivers"] = [
        {"check": "uniform.vbios", "owner": "ops", "reason": "J-1123", "until": "2026-11-22"}
    ]
    for name, document in (("expect", expect), ("state", state)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert main([str(tmp_path / "state.json"), "--expect", str(tmp_path / "expect.json")]) == 0
    text = capsys.readouterr().out
    assert_message(text)
