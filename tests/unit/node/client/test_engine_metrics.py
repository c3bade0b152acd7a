"""vLLM's metrics: differences, means, and what is missing stays unmeasured."""

from __future__ import annotations

import asyncio

import pytest

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.engine_metrics import ITL, PREEMPTIONS, TTFT, Delta, parse, scrape
from b200kit.node.state.view import Unmeasured
from tests.unit.node.client.server_thread import running

PAGE = """# HELP vllm:time_to_first_token_seconds Histogram
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="a}b"} 0.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="a}b"} 4.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="a}b"} 0.08
vllm:time_to_first_token_seconds_sum{engine="1",model_name="a}b"} 0.02 1700000000000
vllm:time_to_first_token_seconds_created{engine="0"} 1.76e+09
process_open_fds 12
broken line here
vllm:num_preemptions_total{engine="0"} 1
"""


def test_series_are_added_over_labels_and_junk_is_skipped() -> None:
    sample = parse(PAGE)
    assert sample[f"{TTFT}_sum"] == pytest.approx(0.10)
    assert sample[f"{TTFT}_count"] == 4
    assert sample["process_open_fds"] == 12
    assert not any(name.startswith("broken") for name in sample)


def test_means_come_from_differences_over_all_replicas() -> None:
    before = [{f"{ITL}_sum": 1.0, f"{ITL}_count": 100.0}, {f"{ITL}_sum": 0.0, f"{ITL}_count": 0.0}]
    after = [{f"{ITL}_sum": 1.2, f"{ITL}_count": 180.0}, {f"{ITL}_sum": 0.1, f"{ITL}_count": 20.0}]
    assert Delta.over(before, after).mean_ms(ITL) == pytest.approx(3.0)


def test_nothing_observed_is_unmeasured_not_nought() -> None:
    same = [{f"{ITL}_sum": 1.0, f"{ITL}_count": 100.0}]
    assert Delta.over(same, same).mean_ms(ITL) == Unmeasured(f"{ITL}_count did not grow")


def test_a_missing_metric_a_failed_scrape_and_a_restart_are_unmeasured() -> None:
    assert "no metric" in str(Delta({}, {}).count(PREEMPTIONS))
    failed = Delta.over([{}], ["http://x/metrics answered HTTP 404"])
    assert failed.count(PREEMPTIONS) == Unmeasured("http://x/metrics answered HTTP 404")
    restarted = Delta({PREEMPTIONS: 5.0}, {PREEMPTIONS: 0.0})
    assert "restarted" in str(restarted.count(PREEMPTIONS))


def test_preemptions_are_a_count() -> None:
    assert Delta({PREEMPTIONS: 5.0}, {PREEMPTIONS: 7.0}).count(PREEMPTIONS) == 2


def test_scraping_a_server_and_nobody() -> None:
    with running() as url:
        sample = asyncio.run(scrape(Endpoint(url)))
        missing = asyncio.run(scrape(Endpoint(f"{url}/nowhere")))
    gone = asyncio.run(scrape(Endpoint(url)))
    assert isinstance(sample, dict)
    assert sample[PREEMPTIONS] == 0
    assert missing == f"{url}/nowhere/metrics answered HTTP 404"
    assert "cannot connect" in str(gone)
