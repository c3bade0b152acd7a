"""`vllm bench serve` and two of `b200 smoke` at one server at the same time, side by side.

All note on the machine's one monotonic clock when each request went out. What is compared is the
window in which all were sending: the server was the same for all. Ours runs twice to show how far
two clients of one kind are apart on this machine: where that is more than the bound already, the
machine is too busy to compare clients of two kinds.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.driving import ROOT

MODEL = "tiny-llama"
RATE, REQUESTS, TOKENS = 3, 60, 64
# What the model's chat template adds to a prompt: all then send 128 tokens.
PROMPT, TEMPLATE = 128, 13
METRICS = ("ttft", "tpot", "itl", "e2el")
BOUND_MS, BOUND = 1.0, 0.05
"""Two medians agree when they are this close, in milliseconds or as a share."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """The clients of both kinds.

    ours, theirs: what to put before their commands, to be where the server is. engine: vLLM's
    directory. model: its files, for the tokenizer. seen, out: one file, for us and for theirs.
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
        asked += ["--output-tokens", TOKENS, "--json", "-"]
        python = [sys.executable, "-m", "deploy.cli", "smoke", url, "--model", MODEL]
        return [*self.ours, *python, *map(str, asked)]

    def bench(self, url: str) -> list[str]:
        """vLLM's: the chat endpoint, no early ends, a fresh seed, real-time as ours is."""
        asked: list[object] = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
        asked += ["--base-url", url, "--model", MODEL, "--tokenizer", self.model]
        asked += ["--dataset-name", "random", "--random-input-len", PROMPT - TEMPLATE]
        asked += ["--random-output-len", TOKENS, "--ignore-eos", "--temperature", 0]
        asked += ["--request-rate", RATE, "--num-prompts", REQUESTS, "--num-warmups", 2]
        asked += ["--seed", time.time_ns() % 100_000, "--percentile-metrics", ",".join(METRICS)]
        asked += ["--metric-percentiles", "50,95,99", "--goodput", "ttft:100", "tpot:100"]
        asked += ["--save-result", "--save-detailed", "--result-filename", self.out]
        around = ["HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "PYTHONUNBUFFERED=1"]
        run = ["chrt", "-R", "-r", "1", f"{self.engine}/bin/vllm", "bench", "serve"]
        secret = f"OPENAI_API_KEY={self.key}"
        return [*self.theirs, "env", *around, secret, *run, *map(str, asked)]

    def all(self, url: str) -> tuple[Document, Document, Document]:
        """Our documents and theirs; ours start when theirs says that its load begins."""
        with subprocess.Popen(
            self.bench(url), cwd=ROOT, env=environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as bench:  # fmt: skip
            assert bench.stdout is not None
            said = ""
            for line in bench.stdout:
                said += line
                if "Starting main benchmark run" in line:
                    break
            with self._smoking(url) as one, self._smoking(url) as other:
                said += bench.stdout.read()
                ours = [json.loads(client.communicate(timeout=180)[0]) for client in (one, other)]
        assert bench.returncode == 0, said[-3000:]
        return ours[0], ours[1], json.loads(self.seen.read_text())

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


@dataclass(frozen=True)
class Sent:
    """One request that completed; seconds."""

    at: float
    ttft: float
    e2el: float
    tokens: int
    gaps: tuple[float, ...]

    def value(self, metric: str) -> list[float]:
        """This request's samples of a metric, in milliseconds, by vLLM's definitions."""
        found = {
            "ttft": [self.ttft],
            "e2el": [self.e2el],
            "tpot": [(self.e2el - self.ttft) / (self.tokens - 1)],
            "itl": list(self.gaps),
        }
        return [seconds * 1000 for seconds in found[metric]]


def sent(found: Document) -> list[Sent]:
    """All completed requests of either document: the names are the same."""
    names = ("start_times", "ttfts", "latencies", "output_lens", "itls")
    rows = zip(*(found[name] for name in names), strict=True)
    return [
        Sent(at, ttft, e2el, tokens, tuple(gaps)) for at, ttft, e2el, tokens, gaps in rows if ttft
    ]


def together(*clients: Sequence[Sent]) -> list[list[Sent]]:
    """The requests of each from the window in which all were sending."""
    starts = [sorted(one.at for one in client) for client in clients]
    first, last = max(at[0] for at in starts), min(at[-1] for at in starts)
    return [[one for one in client if first <= one.at <= last] for client in clients]


def median(requests: Sequence[Sent], metric: str) -> float:
    """Of all samples of a metric, in milliseconds."""
    return statistics.median(value for one in requests for value in one.value(metric))


def agree(one: float, other: float) -> bool:
    """Whether two medians are the same within the bound."""
    return abs(one - other) <= max(BOUND_MS, BOUND * max(one, other))


def apart(one: Sequence[Sent], other: Sequence[Sent]) -> list[str]:
    """The metrics whose medians do not agree, and how they do not."""
    pairs = {metric: (median(one, metric), median(other, metric)) for metric in METRICS}
    return [f"{m} {a:.2f} and {b:.2f} ms" for m, (a, b) in pairs.items() if not agree(a, b)]


def table(ours: Sequence[Sent], theirs: Sequence[Sent], server: Document) -> str:
    """Medians side by side, and the server's own means over our run."""
    rows = [f"ms    {'b200 smoke':>10} {'bench serve':>12} {'server mean':>12}"]
    for metric in METRICS:
        mean = server.get(f"{metric}_mean_ms")
        told = f"{mean:.2f}" if isinstance(mean, float) else "-"
        values = f"{median(ours, metric):>10.2f} {median(theirs, metric):>12.2f} {told:>12}"
        rows.append(f"{metric:<5} {values}")
    return "\n".join([*rows, f"n     {len(ours):>10} {len(theirs):>12}"])
