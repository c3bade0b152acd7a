"""`vllm bench serve` and `b200 smoke` at one server at the same time, each through the proxy.

Both note on the machine's one monotonic clock when each request went out, and so does the proxy:
what is compared is what either adds to what passed for that very request (tests/bench/wire.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import wire
from tests.bench.sent import METRICS, Document, Sent, beyond, median, sent
from tests.e2e.driving import ROOT

MODEL = "tiny-llama"
B200 = str(Path(sys.executable).with_name("b200"))
RATE, REQUESTS, TOKENS = 3, 45, 64
# What the model's chat template adds to a prompt: both then send 128 tokens.
PROMPT, TEMPLATE = 128, 13


@dataclass(frozen=True)
class Seen:
    """What came of both at once: their documents, and what passed the proxy of each."""

    ours: Document
    theirs: Document
    wires: tuple[list[Sent], list[Sent]]


@dataclass(frozen=True)
class Pair:
    """The clients of both kinds.

    ours, theirs: what to put before their commands, to be where the server is. engine: vLLM's
    directory. model: its files, for the tokenizer. seen, out: one
    file, for us and for theirs.
    """

    ours: Sequence[str]
    theirs: Sequence[str]
    engine: str
    model: str
    key: str
    seen: Path
    out: str

    def smoke(self, url: str) -> list[str]:
        """Our command as anybody types it."""
        asked: list[object] = ["--rate", RATE, "--requests", REQUESTS, "--input-tokens", PROMPT]
        asked += ["--output-tokens", TOKENS, "--json"]
        python = [B200, "smoke", url, "--model", MODEL]
        return [*self.ours, *python, *map(str, asked)]

    def bench(self, url: str) -> list[str]:
        """vLLM's as docs/measure.md has it, real-time as ours, every request in the result."""
        words = f"""
            --backend openai-chat --endpoint /v1/chat/completions --base-url {url} --model {MODEL}
            --tokenizer {self.model} --dataset-name random --random-input-len {PROMPT - TEMPLATE}
            --random-output-len {TOKENS} --ignore-eos --temperature 0 --request-rate {RATE}
            --num-prompts {REQUESTS} --seed {secrets.randbelow(1 << 31)} --num-warmups 2
            --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99
            --goodput ttft:100 tpot:100 --ready-check-timeout-sec 60 --disable-tqdm
            --save-result --save-detailed --result-filename {self.out}"""
        salt = json.dumps({"cache_salt": f"bench-{secrets.token_hex(6)}"})
        around = ["HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "PYTHONUNBUFFERED=1"]
        run = ["chrt", "-R", "-r", "1", f"{self.engine}/bin/vllm", "bench", "serve"]
        asked = [*words.split(), "--extra-body", salt]
        return [*self.theirs, "env", *around, f"OPENAI_API_KEY={self.key}", *run, *asked]

    def both(self, port: int, notes: Path) -> Seen:
        """Both at once; ours starts when theirs says that its load begins."""
        with self._wired(port, notes) as (own, other), subprocess.Popen(
            self.bench(f"http://127.0.0.1:{other}"), cwd=ROOT, env=environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as bench:  # fmt: skip
            assert bench.stdout is not None
            said = ""
            for line in bench.stdout:
                said += line
                if "Starting main benchmark run" in line:
                    break
            with self._smoking(f"http://127.0.0.1:{own}") as smoking:
                said += bench.stdout.read()
                ours = json.loads(smoking.communicate(timeout=180)[0])
        assert bench.returncode == 0, said[-3000:]
        one, two = (wire.requests(connections) for connections in json.loads(notes.read_text()))
        return Seen(ours, json.loads(self.seen.read_text()), (one, two))

    @contextlib.contextmanager
    def _wired(self, port: int, notes: Path) -> Iterator[tuple[int, int]]:
        """The proxy before the server; its notes are there when it has ended."""
        command = [*self.ours, sys.executable, "-m", "tests.bench.wire", str(port), str(notes)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as proxy:
            assert proxy.stdin is not None
            assert proxy.stdout is not None
            own, other = proxy.stdout.readline().split()
            try:
                yield int(own), int(other)
            finally:
                proxy.stdin.close()
                proxy.wait(300)

    def _smoking(self, url: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.smoke(url), cwd=ROOT, env=environment(B200_API_KEY=self.key), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip

    def start_up(self, command: list[str], listener: socket.socket) -> float:
        """Seconds from starting a client to its first connection; whatever it asks is cut off."""
        listener.settimeout(120)
        started = time.perf_counter()
        with subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as client:  # fmt: skip
            connection, _ = listener.accept()
            seconds = time.perf_counter() - started
            connection.close()
            listener.settimeout(0.5)
            while client.poll() is None:
                try:
                    listener.accept()[0].close()
                except TimeoutError:
                    continue
        return seconds


def environment(**more: str) -> dict[str, str]:
    """Ours, as on anybody's machine: compiled files are kept."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | more


def table(seen: Seen) -> str:
    """Medians side by side, what either adds to the wire, and the server's own means."""
    ours, theirs = wire_pairs(seen)
    heads = ("b200 smoke", "its wire", "adds", "bench serve", "its wire", "adds", "server mean")
    rows = ["ms    " + " ".join(f"{head:>11}" for head in heads)]
    for metric in METRICS:
        message = [value for pair in (ours, theirs) for value in _told(*pair, metric)]
        mean = seen.ours["smoke"]["server"].get(f"{metric}_mean_ms")
        message.append(f"{mean:.2f}" if isinstance(mean, float) else "-")
        rows.append(f"{metric:<5} " + " ".join(f"{value:>11}" for value in message))
    return "\n".join([*rows, f"n     {len(ours[0])} and {len(theirs[0])}"])


def _told(client: Sequence[Sent], passed: Sequence[Sent], metric: str) -> list[str]:
    added = statistics.median(beyond(client, passed, metric))
    return [f"{value:.2f}" for value in (median(client, metric), median(passed, metric), added)]


def wire_pairs(seen: Seen) -> list[tuple[list[Sent], list[Sent]]]:
    """Either client's requests, and the same ones on the wire; what went before is left out."""
    clients = [sent(seen.ours["bench"]), sent(seen.theirs)]
    assert all(clients), (seen.ours["smoke"]["reasons"], seen.theirs["failed"])
    pairs = zip(clients, seen.wires, strict=True)
    return [(client, passed[-len(client) :]) for client, passed in pairs]
