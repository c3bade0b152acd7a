"""`b200 smoke`: the command as a person types it, against servers with known answers."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.cli import endpoint
from b200kit.cli import smoke as smoke_cli
from b200kit.node.client import client_health, http
from b200kit.node.client.client_health import ClientHealth, ClientLimits
from tests.lab.standin.knobs import Knobs
from tests.messages import PORT, assert_message
from tests.unit.node.client.server_thread import MODEL, fast, running

KEYS = Path(__file__).parents[2] / "data" / "vllm-bench-keys.txt"
DETAILED = "input_lens output_lens ttfts itls latencies start_times queue_times errors"
ABOUT = "date backend endpoint_type model_id burstiness max_concurrency"


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No real-time priority for the test process, and a client that fared well on any machine."""
    monkeypatch.setattr(client_health, "claim_realtime", lambda: "other")
    health = ClientHealth(1.0, 10_000.0, (0.1,) * 100, "other")
    monkeypatch.setattr(client_health.Watch, "health", lambda _: health)
    # Whatever this machine does to the test process is no matter of these tests.
    limits = ClientLimits(schedule_delay_ms=1e9, coalesced_share=1.0)
    monkeypatch.setattr(smoke_cli, "ClientLimits", lambda **_: limits)
    monkeypatch.delenv(endpoint.KEY, raising=False)


def main(arguments: list[str]) -> int:
    """Exit code of `b200 smoke`."""
    return cli.main(["smoke", *arguments])


def command(url: str, *more: str) -> list[str]:
    """A short run that no slow machine fails, and few requests carry."""
    short = [
        "--requests",
        "8",
        "--share",
        "0.5",
        "--rate",
        "50",
        "--input-tokens",
        "40",
        "--output-tokens",
        "6",
    ]
    return [url, "--model", MODEL, *short, "--goodput", "ttft:60000,tpot:60000", *more]


def smoke(
    tmp_path: Path, *more: str, knobs: Knobs | None = None, key: str = ""
) -> tuple[int, dict[str, Any]]:
    """Exit status and the document in the file."""
    file = tmp_path / "out.json"
    with running(knobs, key) as url:
        status = main(command(url, "--output", str(file), *more))
    return status, json.loads(file.read_text())


def test_a_good_run_passes_and_says_every_number_with_its_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = smoke(tmp_path, "--seed", "7")
    output = capsys.readouterr().out
    assert (status, found["smoke"]["reasons"]) == (0, [])
    for formula in ("first chunk with output, minus sent", "(usage.completion_tokens - 1)"):
        assert formula in " ".join(output.split())
    notes = [line for line in output.splitlines() if "does not carry" in line]
    assert_message(*notes, output.splitlines()[-1])
    assert max(map(len, output.splitlines())) <= 100, output
    assert found["smoke"]["load"]["seed"] == 7


def test_the_document_has_the_names_of_vllm_bench_serve(tmp_path: Path) -> None:
    _, found = smoke(tmp_path)
    ours, bench = found["smoke"], found["bench"]
    wanted = {*KEYS.read_text().split(), *DETAILED.split(), *ABOUT.split()}
    assert wanted <= set(bench)
    assert {len(bench[key]) for key in DETAILED.split()} == {8}
    assert bench["ttfts"] == pytest.approx([value / 1000 for value in ours["ttfts_ms"]], abs=1e-6)
    assert bench["p50_ttft_ms"] == bench["median_ttft_ms"] == ours["main"]["ttft"]["p50_ms"]
    assert [len(gaps) for gaps in bench["itls"]] == [5] * 8
    assert bench["errors"] == [""] * 8
    assert (bench["model_id"], bench["burstiness"], bench["max_concurrency"]) == (MODEL, 1.0, None)


def test_prompts_are_shown_beside_what_the_servers_cache_made_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "asked.txt"
    file.write_text("".join(f"question {number} of ours\n" for number in range(40)))
    _, found = smoke(tmp_path, "--prompts", str(file))
    output = capsys.readouterr().out
    assert "  prompts     40 prompts of the site " in output
    assert "prefix hit rate" in " ".join(output.split())
    assert found["smoke"]["load"]["prompts"].startswith("40 prompts of the site ")
    assert (found["bench"]["completed"], found["bench"]["failed"]) == (8, 0)


def test_texts_are_as_long_as_asked_for(tmp_path: Path) -> None:
    _, found = smoke(tmp_path, "--prompts", "texts", "--input-tokens", "90")
    assert found["smoke"]["conditions"]["isl_measured"] == {"min": 90, "mean": 90.0, "max": 90}
    assert found["smoke"]["server"]["prefix_hit_rate"] == 0.0


def test_constant_arrivals_are_due_at_equal_gaps(tmp_path: Path) -> None:
    _, found = smoke(tmp_path, "--arrival", "constant")
    bench = found["bench"]
    due = [at - late for at, late in zip(bench["start_times"], bench["queue_times"], strict=True)]
    gaps = [after - before for before, after in pairwise(due)]
    assert gaps == pytest.approx([0.02] * 7, abs=1e-6)
    assert found["smoke"]["load"]["arrival"].startswith("constant, 50 requests/s, open loop")


def test_a_closed_loop_says_that_it_is_one(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    asked = [word for word in command("URL") if word not in ("--rate", "50")]
    with running() as url:
        main([url, *asked[1:], "--concurrency", "2", "--output", str(file)])
    found = json.loads(file.read_text())
    assert (found["bench"]["request_rate"], found["bench"]["max_concurrency"]) == ("inf", 2)
    assert_message(found["smoke"]["load"]["arrival"])
    starts, ends = found["bench"]["start_times"], found["bench"]["latencies"]
    moves = sorted(
        [(at, 1) for at in starts] + [(a + b, -1) for a, b in zip(starts, ends, strict=True)]
    )
    assert max(sum(move for _, move in moves[: i + 1]) for i in range(len(moves))) == 2


def test_a_missed_objective_fails(tmp_path: Path) -> None:
    status, found = smoke(tmp_path, "--goodput", "e2el:0.001")
    assert (status, found["smoke"]["verdict"], found["bench"]["request_goodput"]) == (
        1,
        "fail",
        0.0,
    )
    assert "0 of 8 requests (0.0% to 31.2%) met e2el <= 0.001 ms" in found["smoke"]["reasons"][0]


def test_a_failed_request_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lab.standin.chat._numbers", iter(range(1, 1000)))
    status, found = smoke(tmp_path, knobs=fast("cut-off", fault_at=9 + 12))
    assert (status, found["bench"]["failed"]) == (1, 1)
    assert found["bench"]["errors"].count("the stream was cut off before [DONE]") == 1
    assert found["bench"]["ttfts"].count(None) == 1


def test_a_starved_client_is_invalid_and_prints_no_latency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starved = ClientHealth(900.0, 1000.0, (0.1,), "other")
    monkeypatch.setattr(client_health.Watch, "health", lambda _: starved)
    status, found = smoke(tmp_path)
    assert (status, found["smoke"]["verdict"]) == (2, "invalid")
    assert "P50" not in capsys.readouterr().out


def test_chunks_that_come_together_from_a_server_that_tells_nothing_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: object) -> str:
        return "/metrics answered HTTP 403"

    monkeypatch.setattr("b200kit.node.client.engine_metrics.scrape", refused)
    limits = ClientLimits(schedule_delay_ms=1e9, coalesced_share=0.1)
    monkeypatch.setattr(smoke_cli, "ClientLimits", lambda **_: limits)
    status, found = smoke(tmp_path, knobs=fast("burst"))
    assert status == 2
    assert_message(found["smoke"]["reasons"][-1], SHARE=re.compile(r"\d+%"))
    assert found["smoke"]["server"]["itl_mean_ms"] == {"unmeasured": "/metrics answered HTTP 403"}


@pytest.mark.parametrize("source", ["file", "environment"])
def test_the_key_is_used_and_never_told(
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "key"
    file.write_text("k-secret\n")
    if source == "environment":
        monkeypatch.setenv(endpoint.KEY, "k-secret")
    more = ["--key-file", str(file)] if source == "file" else []
    _, found = smoke(tmp_path, *more, key="k-secret")
    assert found["bench"]["completed"] == 8
    caught = capsys.readouterr()
    assert "k-secret" not in caught.out + caught.err + json.dumps(found)


def test_server_that_refuses_a_cache_salt_is_measured_without_one(tmp_path: Path) -> None:
    status, found = smoke(tmp_path, knobs=fast("refuses-cache-salt"))
    assert (status, found["smoke"]["load"]["sampling"]["ignore_eos"]) == (0, True)
    assert found["smoke"]["load"]["cache_salt"] == ""


def test_without_the_key_the_refusal_is_told(tmp_path: Path) -> None:
    status, found = smoke(tmp_path, key="k-secret")
    assert (status, found["smoke"]["reasons"]) == (1, ["/v1/models: HTTP 401: Unauthorized"])


def test_json_to_stdout_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with running() as url:
        main(command(f"{url}/v1/", "--json"))
    assert json.loads(capsys.readouterr().out)["url"] == url


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["http://x"],
        ["x:8000", "--model", "m"],
        ["http://k@x", "--model", "m"],
        ["http://x:99999", "--model", "m"],
        ["http://x:port", "--model", "m"],
        ["http://[::1", "--model", "m"],
        ["http://a..b", "--model", "m"],
        [f"http://{'a' * 64}.example", "--model", "m"],
        ["http://x y", "--model", "m"],
        ["http://x/v1#1", "--model", "m"],
        ["http://x", "--model", "m", "--rate", "0"],
        ["http://x", "--model", "m", "--rate", "nan"],
        ["http://x", "--model", "m", "--requests", "-1"],
        ["http://x", "--model", "m", "--rate", "1", "--concurrency", "2"],
        ["http://x", "--model", "m", "--goodput", "itl:3"],
        ["http://x", "--model", "m", "--goodput", "ttft:x"],
        ["http://x", "--model", "m", "--share", "2"],
        ["http://x", "--model", "m", "--key-file", "/nowhere"],
        ["http://x", "--model", "m", "--key-file", "/dev/null"],
        ["http://x", "--model", "m", "--output", "/nowhere/x"],
        ["http://x", "--model", "m", "--cpus", "zero"],
        ["http://x", "--model", "m", "--prompts", "/nowhere"],
        ["http://x", "--model", "m", "--prompts", "/dev/null"],
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # outside any site
    assert main(arguments) == 64
    caught = capsys.readouterr()
    assert (caught.out, caught.err.count("\n")) == ("", 1)
    assert_message(caught.err)


def test_a_key_in_clear_text_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(endpoint.KEY, "k-secret")
    assert main(command("http://serving.invalid:1")) == 1
    caught = capsys.readouterr()
    assert_message(*caught.err.splitlines())
    assert "cannot connect to serving.invalid:1" in caught.out


class _Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Name a model that nobody asks for."""
        body = b'{"data": [{"id": "another"}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def encrypted(folder: Path) -> Iterator[tuple[str, Path]]:
    """A TLS server that signed its own certificate for localhost, and that certificate."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key)]
    subprocess.run([*made, "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), _Models)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}", certificate
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with encrypted(tmp_path) as (url, certificate):
        http._context.cache_clear()
        assert main(command(url)) == 1
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().out
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        http._context.cache_clear()
        assert main(command(url)) == 1
        assert_message(capsys.readouterr().out, PORT=PORT)
        assert main(command(url.replace("localhost", "127.0.0.1"))) == 1
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().out
    http._context.cache_clear()


@pytest.mark.parametrize("fault", ["parrot", "no-logprobs"])
def test_answers_are_read_also_where_there_is_nothing_to_compare(
    tmp_path: Path, fault: str
) -> None:
    status, found = smoke(tmp_path, knobs=fast(fault))
    assert (status, found["smoke"]["verdict"]) == (
        (1, "fail") if fault == "parrot" else (0, "pass")
    )
    assert_message(found["answers"], *found["wrong_answers"])


def test_endpoint_that_answers_twice_otherwise_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.lab.standin.chat._numbers", iter(range(1, 1000)))
    # Three requests of the check, six golden prompts, and the third of those asked again.
    status, found = smoke(tmp_path, knobs=fast("garbled", 12))
    assert status == 1
    assert_message(*found["wrong_answers"])
