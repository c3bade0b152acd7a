"""What the report says of how a measurement was made."""

from __future__ import annotations

from b200kit.report.content import latency
from tests.unit import smoke_results


def test_rates_of_the_server_stand_beside_the_prompts_they_were_measured_with() -> None:
    sent: dict[str, object] = {
        "server.prefix_hit_rate": 0.44,
        "server.spec_acceptance_rate": 0.71,
        "server.preemptions": 0,
        "load.prompts": "own texts; 50% of each shared by 8",
    }
    rows = dict(latency.instruments(smoke_results.result(sent)))
    beside = " (own texts; 50% of each shared by 8)"
    assert rows["server prefix hit rate"] == f"0.44{beside}"
    assert rows["server spec acceptance rate"] == f"0.71{beside}"
    assert rows["server preemptions"] == "0"


def test_conditions_are_written_as_people_do() -> None:
    changes = {
        "conditions.isl_measured": {"min": 121, "mean": 130.46666666666667, "max": 142},
        "conditions.objective": {"tpot_ms": 50, "ttft_ms": 500},
        "conditions.server_ages_s": [12.31234567, 13.5],
        "client.run_delay_share": 0.00410304,
        "client.run_delay_ms": 12.31234567,
    }
    found = smoke_results.result(changes)
    rows = dict(latency.conditions(found))
    assert next(iter(rows)) == "model"
    assert rows["tokens in, measured"] == "130.5 (121 to 142)"
    assert rows["age of each engine (s)"] == "12.3123, 13.5"
    assert rows["objective"] == "e2el_ms=none; share=0.95; tpot_ms=50; ttft_ms=500"
    rows = dict(latency.instruments(found))
    assert rows["client run delay share"] == "0.41 %"
    assert rows["client run delay (ms)"] == "12.3"
