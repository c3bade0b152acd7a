"""What a run leaves behind: whole files, usable names, no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.report.files import stored
from tests.unit.report import records
from tests.unit.report.pages import write


def test_a_run_leaves_summary_hosts_page_and_failed(tmp_path: Path) -> None:
    page = write(records.fleet(), tmp_path)
    assert page == tmp_path / "20261121-094012" / "report.html"
    names = {path.name for path in page.parent.iterdir()}
    hosts = {f"n0{i}.json.gz" for i in range(1, 8)}
    assert names == {"summary.json", "report.html", "failed.txt"} | hosts


def test_the_summary_tells_outcomes_counts_and_the_exit_code(tmp_path: Path) -> None:
    page = write(records.fleet(), tmp_path)
    summary = json.loads((page.parent / "summary.json").read_text())
    assert summary["exit_code"] == 1
    assert summary["counts"]["live"] == 2
    assert summary["hosts"]["n04"]["label"] == "FAILED at driver"
    assert summary["hosts"]["n02"]["blocking"][0]["check"] == "nvlink.links"
    assert summary["hosts"]["n01"]["file"] == "n01.json.gz"


def test_a_host_file_holds_the_whole_host_record(tmp_path: Path) -> None:
    page = write(records.fleet(), tmp_path)
    assert stored(page.parent / "n03.json.gz") == records.unreachable()


def test_failed_names_those_not_ready_one_a_line(tmp_path: Path) -> None:
    page = write(records.fleet(), tmp_path)
    assert (page.parent / "failed.txt").read_text() == "n02\nn03\nn04\nn06\nn07\n"


def test_failed_is_empty_when_all_are_ready(tmp_path: Path) -> None:
    page = write(records.record(n01=records.live()), tmp_path)
    assert (page.parent / "failed.txt").read_text() == ""


def test_the_folder_of_the_run_itself_may_be_given(tmp_path: Path) -> None:
    folder = tmp_path / "20261121-094012"
    assert write(records.fleet(), folder) == folder / "report.html"


def test_a_second_write_replaces_the_first_and_leaves_no_scrap(tmp_path: Path) -> None:
    write(records.fleet(), tmp_path)
    before = {path.name for path in (tmp_path / "20261121-094012").iterdir()}
    page = write(records.fleet(), tmp_path)
    assert {path.name for path in page.parent.iterdir()} == before


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", ".", "summary", "@ssh/n1", "x\ny"])
def test_a_host_name_never_leaves_the_folder_nor_takes_the_summary(
    tmp_path: Path, name: str
) -> None:
    record = {**records.record(), "hosts": {name: records.red()}}
    page = write(record, tmp_path / "reports")
    assert len(list(page.parent.iterdir())) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]
    assert "exit_code" in json.loads((page.parent / "summary.json").read_text())


def test_no_secret_reaches_any_file(tmp_path: Path) -> None:
    host = records.live(error="engine said: Authorization: Bearer CANARY-a1b2c3d4")
    host["expectation"] |= {"hf_token": "CANARY", "apiKey": "CANARY", "secrets": {"x": "CANARY"}}
    host["stages"][0]["detail"] = "ran with api_key=CANARY and hf_CANARYCANARY"
    host["state"]["files"]["/etc/b200kit/secrets/api_key"]["hmac"] = "CANARY"
    record = records.record(n01=host)
    record["argv"] += ["--api-key", "CANARY", "--token=CANARY", "known-CANARY"]
    page = write(record, tmp_path, secrets=["known-CANARY"])
    for path in page.parent.iterdir():
        text = json.dumps(stored(path)) if ".json" in path.name else path.read_text()
        assert "CANARY" not in text
