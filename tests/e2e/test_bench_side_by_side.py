"""Our client and `vllm bench serve` at one real vLLM, at the same time: the same figures."""

from __future__ import annotations

import json
import socket
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bench_pair import TOKENS, Pair, Seen, table, wire_pairs
from tests.e2e.driving import Outcome, on
from tests.e2e.sent import BOUND, BOUND_MS, METRICS, beyond, mean, median, sent
from tests.lab import cgroups, hosts
from tests.lab.paths import BRIDGE_ADDRESS, lab_paths

NODE = "b200-1"
STARTS = 3
LATE_MS = 5.0
"""More than a busy machine makes of their client's lateness is another definition."""
OUT = "/run/bench.json"


@pytest.fixture(scope="module")
def pair(real: Outcome) -> Pair:
    """Ours from this machine in the node's network, theirs from inside the node."""
    process = cgroups.init_pid(NODE)
    engine = on(NODE, "ls -d /opt/vllm/*/bin/vllm").removesuffix("/bin/vllm")
    return Pair(
        ours=["nsenter", f"--target={process}", "-n", "--"],
        theirs=["nsenter", *hosts.enter_arguments(NODE), "--"],
        engine=engine,
        source=on(NODE, f"cat {engine}/lib/python*/site-packages/vllm/benchmarks/serve.py"),
        model=on(NODE, "dirname /srv/models/*/*/tokenizer.json"),
        key=lab_paths().api_key.read_text().strip(),
        seen=Path(f"/proc/{process}/root{OUT}"),
        out=OUT,
    )


@pytest.fixture(scope="module")
def seen(real: Outcome, pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Both clients at once at the first replica."""
    notes = tmp_path_factory.mktemp("wire") / "notes.json"
    return pair.both(real.host(NODE)["layout"][0]["port"], notes)


def test_every_request_of_either_client_is_found_on_the_wire(seen: Seen) -> None:
    for client, passed in wire_pairs(seen):
        assert len(client) == len(passed) >= 30
        assert all(
            0 <= wire.at - one.at < one.ttft for one, wire in zip(client, passed, strict=True)
        )
        assert all(wire.tokens == TOKENS for wire in passed)


# Held against the wire, request by request: on a busy machine no two runs meet the same server.
@pytest.mark.parametrize("metric", METRICS)
def test_our_medians_are_those_of_vllm_bench_serve(seen: Seen, metric: str) -> None:
    ours, theirs = wire_pairs(seen)
    print("\n" + table(seen))
    added = [statistics.median(beyond(*side, metric)) for side in (ours, theirs)]
    bound = max(BOUND_MS, BOUND * min(median(ours[0], metric), median(theirs[0], metric)))
    assert abs(added[0]) <= bound, table(seen)
    # Theirs may be late on a busy machine; ours is never the one that is further off.
    assert abs(added[0] - added[1]) <= bound or abs(added[0]) <= abs(added[1]), table(seen)
    assert abs(added[1]) <= max(bound, LATE_MS), table(seen)


def test_both_mean_the_same_by_the_same_names(seen: Seen) -> None:
    """From the requests of either document follow the medians that the other client would state."""
    for found in (seen.ours, seen.theirs):
        assert found["failed"] == 0
        assert found["total_output_tokens"] == TOKENS * found["completed"]
        for metric in METRICS:
            stated = found[f"median_{metric}_ms"]
            assert stated == pytest.approx(median(sent(found), metric), abs=0.01), metric


def test_the_servers_own_means_bear_ours_out(seen: Seen) -> None:
    """The server counts from the request's arrival to the token's leaving, over both clients."""
    server, clients = seen.ours["server"], [sent(seen.ours), sent(seen.theirs)]
    ttft, itl = ([mean(client, metric) for client in clients] for metric in ("ttft", "itl"))
    assert 0 < server["ttft_mean_ms"] <= max(ttft) + 1.0
    assert min(itl) * 0.75 - 0.5 <= server["itl_mean_ms"] <= max(itl) * 1.25 + 0.5
    assert server["preemptions"] == 0


def test_the_nodes_own_result_tells_of_its_gpus_and_its_servers(real: Outcome) -> None:
    smoke = real.host(NODE)["smoke"]
    assert [gpu["index"] for gpu in smoke["gpus"]] == list(range(8))
    assert all(gpu["samples"] > 0 for gpu in smoke["gpus"])
    assert smoke["server"]["jit_warnings"] == 0
    assert 0 <= smoke["server"]["gateway_run_delay_share"] < 1
    assert len(smoke["requests"]) == smoke["num_prompts"]
    told = smoke["conditions"]
    assert [age > 0 for age in told["server_ages_s"]] == [True] * told["replicas"]
    assert told["libraries"]["torch"]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that the node reaches."""
    with socket.create_server((BRIDGE_ADDRESS, 0)) as opened:
        yield opened


def test_our_client_starts_in_a_twentieth_of_the_time(pair: Pair, listener: socket.socket) -> None:
    url = f"http://{BRIDGE_ADDRESS}:{listener.getsockname()[1]}"
    ours = [pair.start_up(pair.smoke(url), listener) for _ in range(STARTS)]
    # It would wait a minute for an endpoint that cuts it off.
    theirs = pair.start_up([*pair.bench(url), "--ready-check-timeout-sec", "0"], listener)
    print(json.dumps({"ours_s": ours, "theirs_s": theirs}))
    assert statistics.median(ours) <= theirs / 20, (ours, theirs)
