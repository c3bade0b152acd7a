"""What the report says of how a measurement was made."""

from __future__ import annotations

from b200kit.report.content import latency


def test_rates_of_the_server_stand_beside_the_prompts_they_were_measured_with() -> None:
    server = {"prefix_hit_rate": 0.44, "spec_acceptance_rate": 0.71, "preemptions": 0}
    smoke = {"server": server, "conditions": {"prompts": "own texts; 50% of each shared by 8"}}
    rows = dict(latency.instruments(smoke))
    beside = " (own texts; 50% of each shared by 8)"
    assert rows["server prefix hit rate"] == f"0.44{beside}"
    assert rows["server spec acceptance rate"] == f"0.71{beside}"
    assert rows["server preemptions"] == "0"


def test_conditions_are_written_as_people_do() -> None:
    given = {
        "isl_measured": {"min": 121, "mean": 130.46666666666667, "max": 142},
        "objective": {"tpot_ms": 50, "ttft_ms": 500},
        "server_ages_s": [12.31234567, 13.5],
    }
    assert latency.conditions({"conditions": given}) == [
        ("tokens in, measured", "130.5 (121 to 142)"),
        ("age of each engine (s)", "12.3123, 13.5"),
        ("objective", "tpot_ms=50; ttft_ms=500"),
    ]
    client = {"run_delay_share": 0.00410304, "run_delay_ms": 12.0}
    rows = dict(latency.instruments({"client": client}))
    assert rows["client run delay share"] == "0.41 %"
    assert rows["client run delay (ms)"] == "12"


def test_prompts_that_are_not_named_are_said_to_be_so() -> None:
    rows = dict(latency.instruments({"server": {"prefix_hit_rate": 0.5}}))
    assert rows["server prefix hit rate"] == "0.5 (prompts unmeasured)"
