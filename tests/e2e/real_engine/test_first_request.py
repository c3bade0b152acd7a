"""Active means warm, on real vLLM: the first request after a start has nothing left to compile."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import SHORT_SMOKE
from tests.e2e.driving import Outcome, deploy, on

pytestmark = pytest.mark.real_engine

NODE = "b200-1"
PROMPT = "You are the assistant of a river museum. Answer in one line, and kindly. " * 8
# Starts the unit and sends one request as soon as systemctl returns; prints what came of it. The
# client's own first request goes to the other replica: what is cold in it is none of the server's.
FIRST = """
import asyncio, json, subprocess, sys, time
sys.path.insert(0, "/usr/local/lib/b200kit/node.pyz")
from pathlib import Path
from b200kit.node.client.formulas import Run
from b200kit.node.client import client_health as starvation
from b200kit.node.client import engine_metrics as metrics
from b200kit.node.serving.processes import compiled, grown
from b200kit.node.client.chat import ChatRequest, chat
from b200kit.node.client.serving_config import load
index = int(sys.argv[1])
unit = f"vllm@{index}.service"
serving = load(Path("/etc/b200kit/serving.json"))
endpoint = serving.endpoint(serving.replica(index).url)
other = serving.endpoint(serving.replica(1 - index).url)
# More starts than the unit allows in its window are none of its failures.
for verb in ("reset-failed", "restart"):
    subprocess.run(["systemctl", verb, unit], check=True)
starvation.claim_realtime()
request = ChatRequest(serving.model, "a river that nobody has asked about before", 16, salt="first")
async def ask():
    own = await chat(other, ChatRequest(serving.model, "a brook", 16, salt="own"))
    assert not own.record().error, own.record().error
    built = compiled([unit])
    answer = await chat(endpoint, request)
    others = [ChatRequest(serving.model, f"river {n} beyond it", 16, salt="n") for n in range(8)]
    later = [await chat(endpoint, other) for other in others]
    before = await metrics.scrape(endpoint)
    system = ChatRequest(serving.model, "Hello.", 4, system=sys.argv[2], salt=None)
    primed = await chat(endpoint, system)
    after = await metrics.scrape(endpoint)
    hits = after[metrics.PREFIX_HITS] - before[metrics.PREFIX_HITS]
    run = Run((answer.record(),))
    after_it = Run(tuple(one.record() for one in later)).completed
    assert not primed.record().error, primed.record().error
    return {
        "ttft_ms": run.completed[0].ttft * 1000,
        "error": answer.record().error,
        "later_ms": sorted(one.ttft * 1000 for one in after_it),
        "hits": hits,
        "compiled": grown(built, compiled([unit])),
    }
result = asyncio.run(ask())
record = json.loads(Path(f"/var/lib/b200kit/warm-{index}.json").read_text())
print(json.dumps({**result, "record": record}))
"""


@pytest.fixture(scope="module")
def live(real: Outcome, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A node with two replicas of real vLLM, and a system prompt that production begins with."""
    prompt = tmp_path_factory.mktemp("prompts") / "museum.txt"
    prompt.write_text(PROMPT)
    asked = (f'system_prompts=["{prompt}"]', 'watchdog={"interval_s": 5, "deadline_s": 30}')
    words = [word for key in asked for word in ("--data", key)]
    outcome = deploy("b200.py", *words, *SHORT_SMOKE)
    assert outcome.code == 0, outcome.said[-3000:]
    return outcome


@pytest.fixture(scope="module")
def first(live: Outcome) -> dict[str, Any]:
    """What the first request after a restart met, and the record of the warm-up before it."""
    lab.run(NODE, ["sh", "-c", "cat > /run/first.py <<'END'\n" + FIRST + "\nEND"])
    done = lab.run(NODE, ["python3", "-I", "/run/first.py", "0", PROMPT])
    assert done.returncode == 0, done.stderr[-2000:] + on(
        NODE, "journalctl -u vllm@0 -o cat --no-pager | tail -n 30"
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_first_request_after_a_start_compiles_nothing(first: dict[str, Any]) -> None:
    """What makes a first request slow; how long each took is printed, and judged by nobody."""
    shown = {key: first[key] for key in ("ttft_ms", "later_ms")}
    print(json.dumps({"first": shown, "warm_ms": first["record"]["ttft_ms"]}))
    assert (first["error"], first["compiled"]) == (None, 0)


def test_every_shape_was_sent_and_nothing_was_compiled_at_the_end(first: dict[str, Any]) -> None:
    record = first["record"]
    assert record["warm"] is True
    assert record["features"] == ["structured output", "logprobs"]
    assert record["rounds"][-1]["jit"] == 0
    assert record["system_prompts"] == 1


def test_the_system_prompt_is_in_the_prefix_cache_before_anybody_asks(
    first: dict[str, Any],
) -> None:
    assert first["hits"] >= 16


def test_a_real_engine_that_is_deadlocked_is_ejected_and_comes_back(
    first: dict[str, Any],
) -> None:
    here = on(NODE, "journalctl --show-cursor -n 0 -o cat").partition("cursor: ")[2].strip()
    # The API server lives and says that it is healthy; the engine behind it stands still.
    group = "/sys/fs/cgroup/$(systemctl show -p ControlGroup --value vllm@1.service)"
    stop = 'grep -q "^VLLM::" /proc/$p/comm && kill -STOP $p'
    on(NODE, f"for p in $(cat {group}/cgroup.procs); do {stop}; done; true")
    port = on(NODE, "sed -n 's/^port: //p' /etc/vllm/replica-1.yaml")
    log = f"journalctl -u b200-agent -o cat --no-pager --after-cursor='{here}'"
    line = "vllm1: probe: no answer"
    wait = f"timeout 800 sh -c \"until {log} | grep -qF '{line}'; do sleep 0.2; done\""
    assert lab.run(NODE, ["sh", "-c", wait]).returncode == 0
    health = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:%s/health').status)"
    assert on(NODE, f'python3 -c "{health % port}"') == "200"
    wait = wait.replace(line, "vllm1: it answers: back in the gateway")
    assert lab.run(NODE, ["sh", "-c", wait]).returncode == 0, on(NODE, log)
    message = on(NODE, "cat $(ls -d /var/lib/b200kit/agent/*-vllm1 | tail -n 1)/after-abort.txt")
    assert "Fatal Python error: Aborted" in message
    assert "vllm/entrypoints" in message
