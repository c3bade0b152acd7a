"""The stand-in engine keeps vLLM's contract, and can never be taken for vLLM."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.http import Deadlines, Exchange, exchange
from tests.lab.standin.knobs import Knobs
from tests.lab.standin.options import OptionError, parse
from tests.messages import assert_message
from tests.unit.node.client.server_thread import MODEL, running

REPOSITORY = Path(__file__).parents[4]


def get(url: str, path: str, key: str | None = None) -> Exchange:
    """One GET."""
    return asyncio.run(Endpoint(url, key).get(path))


def post(url: str, body: object, **headers: str) -> Exchange:
    """One POST of a chat completion."""
    return asyncio.run(exchange("POST", f"{url}/v1/chat/completions", headers, body))


BODY = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}


def test_the_routes_answer_as_vllm_does() -> None:
    with running() as url:
        health, models = get(url, "/health"), get(url, "/v1/models")
        version, metrics = get(url, "/version"), get(url, "/metrics")
        missing, method = get(url, "/v2"), get(url, "/v1/chat/completions")
    assert (health.status, health.body()) == (200, b"")
    assert json.loads(models.body())["data"][0]["id"] == MODEL
    assert json.loads(version.body()) == {"version": "0.0.0+stand-in"}
    assert b"vllm:time_to_first_token_seconds_sum" in metrics.body()
    assert (missing.status, json.loads(missing.body())) == (404, {"detail": "Not Found"})
    assert method.status == 405


def test_the_key_guards_v1_only() -> None:
    with running(key="k") as url:
        assert get(url, "/v1/models").status == 401
        assert get(url, "/v1/models", "wrong").status == 401
        assert get(url, "/v1/models", "k").status == 200
        assert get(url, "/health").status == 200
        assert get(url, "/metrics").status == 200


def test_every_answer_says_that_it_is_a_stand_in() -> None:
    with running() as url:
        whole = json.loads(post(url, BODY).body())
        events = post(url, BODY | {"stream": True}).events()
    chunks = [json.loads(text) for _, text in events if text != "[DONE]"]
    assert {item["system_fingerprint"] for item in [whole, *chunks]} == {"b200kit-stand-in"}
    assert events[-1][1] == "[DONE]"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_a_fault_may_be_asked_for_by_header() -> None:
    with running() as url:
        refused = post(url, BODY, **{"x-standin-fault": "503"})
        unknown = post(url, BODY, **{"x-standin-fault": "no-such"})
    assert (refused.status, unknown.status) == (503, 200)


@pytest.mark.parametrize(
    ("body", "status"),
    [([], 400), ({"model": MODEL}, 400), (BODY | {"max_tokens": 0}, 400), ({"model": "x"}, 404)],
)
def test_bad_requests_are_refused(body: object, status: int) -> None:
    with running() as url:
        assert post(url, body).status == status


def test_a_prompt_of_token_ids_is_counted_exactly_and_answered_as_text() -> None:
    body = {"model": MODEL, "prompt": [300, 301, 302], "max_tokens": 2}
    with running() as url:
        answer = asyncio.run(exchange("POST", f"{url}/v1/completions", {}, body))
    document = json.loads(answer.body())
    assert document["usage"]["prompt_tokens"] == 3
    assert document["object"] == "text_completion"
    assert document["choices"][0]["text"]


@pytest.mark.process
def test_an_engine_told_to_hang_answers_its_health_and_nothing_else(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    async def scenario(process: subprocess.Popen[str]) -> tuple[int, str | None]:
        await until_healthy(url)
        process.send_signal(signal.SIGUSR2)
        limits = Deadlines(connect=20, idle=2, total=20)
        hung = await exchange("POST", f"{url}/v1/chat/completions", {}, BODY, limits)
        return (await Endpoint(url).get("/health")).status, hung.fault

    with start(port, tmp_path) as process:
        health, fault = asyncio.run(scenario(process))
        process.kill()
    assert (health, fault) == (200, "stalled: no data for 2 s")


def test_more_requests_than_slots_wait_and_are_counted_as_queueing() -> None:
    async def three(url: str) -> None:
        target = f"{url}/v1/chat/completions"
        await asyncio.gather(*(exchange("POST", target, {}, BODY) for _ in range(3)))

    with running(max_num_seqs=1) as url:
        asyncio.run(three(url))
        page = get(url, "/metrics").body().decode()
    found = re.search(r"request_queue_time_seconds_sum\{.*\} (\S+)", page)
    assert found is not None
    assert float(found.group(1)) > 0


def test_a_repeated_prompt_hits_the_prefix_cache_unless_the_salt_differs() -> None:
    long = BODY | {"messages": [{"role": "user", "content": "word " * 40}]}

    def hits(url: str) -> float:
        found = re.search(
            r"prefix_cache_hits_total\{.*\} (\S+)", get(url, "/metrics").body().decode()
        )
        assert found is not None
        return float(found.group(1))

    with running() as url:
        post(url, long | {"cache_salt": "a"})
        post(url, long | {"cache_salt": "b"})
        assert hits(url) == 0
        post(url, long | {"cache_salt": "b"})
        assert hits(url) == 48


CONFIG = """# replica 0
model: "/srv/models/tiny"
served-model-name: tiny
host: '127.0.0.1'
port: 8001   # loopback
enforce-eager: true
enable-prefix-caching: false
api-key: ["a", "b"]
"""


def test_the_configuration_file_is_read_and_the_command_line_wins(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    found = parse(["--config", str(path), "--port", "9"])
    assert (found.model, found.served_model_name, found.host) == (
        "/srv/models/tiny",
        "tiny",
        "127.0.0.1",
    )
    assert (found.port, found.enforce_eager, found.enable_prefix_caching) == (9, True, False)
    assert found.api_key == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disable-log-requests: true\n", "unrecognized arguments: --disable-log-requests"),
        ("- a\n", "not a flat"),
        ("nested:\n  key: 1\n", "not a flat"),
    ],
)
def test_what_vllm_would_not_take_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(OptionError, match=said):
        parse(["--config", str(path)])


def test_an_unknown_flag_or_fault_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--disable-log-requests"])
    assert "unrecognized arguments" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no fault 'nonsense'"):
        Knobs.of({"STANDIN_FAULT": "nonsense"})
    with pytest.raises(ValueError, match="STANDIN_ITL_MS"):
        Knobs.of({"STANDIN_ITL_MS": "fast"})


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def start(port: int, tmp_path: Path, **environ: str) -> subprocess.Popen[str]:
    """`vllm serve --config FILE` as its own process."""
    path = tmp_path / "c.yaml"
    path.write_text(
        f"served-model-name: tiny\nhost: 127.0.0.1\nport: {port}\nshutdown-timeout: 20\n"
    )
    line = "import sys; from tests.lab.standin.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", line, "serve", "--config", str(path)]
    environ = {**os.environ, "STANDIN_START_DELAY_S": "0.05", **environ}
    return subprocess.Popen(command, cwd=REPOSITORY, env=environ, stderr=subprocess.PIPE, text=True)


async def until_healthy(url: str) -> None:
    """Poll /health as a hook would."""
    while not (await Endpoint(url).get("/health")).pieces:
        await asyncio.sleep(0.02)


@pytest.mark.process
def test_sigterm_lets_the_answer_under_way_end(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    body = BODY | {"stream": True, "max_tokens": 20}

    async def scenario(process: subprocess.Popen[str]) -> Exchange:
        await asyncio.wait_for(until_healthy(url), 30)
        target = f"{url}/v1/chat/completions"
        answer = asyncio.ensure_future(exchange("POST", target, {}, body))
        while (
            b'running{engine="0",model_name="tiny"} 1'
            not in (await Endpoint(url).get("/metrics")).body()
        ):
            await asyncio.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        return await answer

    with start(port, tmp_path, STANDIN_TTFT_MS="300") as process:
        try:
            events = asyncio.run(scenario(process)).events()
            assert process.wait(300) == 0
        finally:
            process.kill()
    assert events[-1][1] == "[DONE]"
    assert len(events) == 22


@pytest.mark.process
def test_an_engine_told_to_die_exits_with_one(tmp_path: Path) -> None:
    with start(free_port(), tmp_path, STANDIN_EXIT_AFTER_S="0.05") as process:
        assert process.wait(300) == 1


@pytest.mark.process
def test_bad_options_end_with_two_and_one_line(tmp_path: Path) -> None:
    with start(free_port(), tmp_path, STANDIN_FAULT="nonsense") as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 2
    assert_message(err)


def test_fault_of_a_gpu_is_only_where_that_gpu_is() -> None:
    asked = {"STANDIN_FAULT": "garbled", "STANDIN_FAULT_GPU": "GPU-5"}
    for given, fault in (("GPU-4,GPU-5", "garbled"), ("GPU-6", ""), ("GPU-51", ""), ("", "")):
        assert Knobs.of({**asked, "CUDA_VISIBLE_DEVICES": given}).fault == fault
