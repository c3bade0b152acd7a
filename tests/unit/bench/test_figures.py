"""`make bench`: it prints figures by their names, and judges none."""

from __future__ import annotations

import pytest

from tests.bench import __main__ as bench
from tests.bench import client
from tests.bench.figures import Missing
from tests.messages import assert_message


def test_figures_are_printed_and_none_is_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "REQUESTS", 30)
    monkeypatch.setattr(client, "FREEZE_S", 0.1)
    assert bench.main(["freeze"]) == 0
    message = capsys.readouterr().out
    for name in ("open loop: ", "closed loop: ", "p95_s ", "answers 30"):
        assert name in message


def test_client_is_measured_against_what_the_server_did() -> None:
    """Counts only; the milliseconds are for whoever reads them."""
    try:
        found = client.accuracy(4, 20, 5)
    except Missing as reason:
        pytest.skip(str(reason))
    assert found["failed"] == 0
    assert found["samples"] == [20, 20 * 4]
    assert found["summary"]["tokens_per_chunk"] == 1.0
    assert found["summary"]["total_output_tokens"] == found["truth"]["total_output_tokens"] == 100


def test_what_cannot_be_measured_here_says_why_and_fails_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing() -> None:
        raise Missing("no such engine")

    monkeypatch.setitem(vars(bench)["PROGRAMS"], "gateway", nothing)
    assert bench.main(["gateway"]) == 0
    assert_message(capsys.readouterr().out)


def test_figures_that_there_are_not_are_refused_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bench.main(["speed"]) == 2
    assert "'speed'" in capsys.readouterr().out
