"""What golden prompts find: errors put into one vLLM (CPU build), against a sound one.

    python -m tests.bench.golden_faults VLLM MODEL [--trials N] [--rounds N] [--alarms SECONDS]

VLLM: the program; MODEL: the lab's tiny model with its tokenizer, in a directory. Prints a line a
kind of error, as in docs/measure.md, then false alarms. The error model is of arXiv:2605.04213,
gate-level stuck-at faults in a data-centre GPU: wrong elements lie at a period, six in ten of them
have more than one bit flipped, and one in a hundred is NaN or infinite; here none is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.golden import ask as golden
from b200kit.node.client.golden.compare import Difference, Likeness, compare
from tests.lab.inventory import GOLDEN_TOLERANCE

TOKENS = 32
LAYER = "model.layers.1.mlp.down_proj"
HOOK = Path(__file__).parent / "faulty_engine"
BITS = {"1 low": range(4), "1 high": range(4, 7), "4 any": range(15)}
"""Bits of bfloat16: the low and the high ones of the fraction; all but the sign."""
PERIODS, EVERY = (64, 1024, 16384), (1, 64, 1024)
SOUND = 0.0001
"""Beyond this a distance is none of a document's four decimals."""
ENVIRON = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}  # fmt: skip
OPTIONS = (
    "--served-model-name tiny --host 127.0.0.1 --max-model-len 1024 --max-num-seqs 8"
    " --enforce-eager --shutdown-timeout 5"
)


@dataclass(frozen=True)
class Cell:
    """A row: what is wrong, in how many bits, at which period, in one of how many steps."""

    kind: str
    bits: str
    period: int
    every: int = 1

    def fault(self, chance: random.Random, weights: Path) -> dict[str, object]:
        """One such error, drawn."""
        choice = list(BITS[self.bits])
        mask = sum(1 << bit for bit in chance.sample(choice, int(self.bits[0])))
        return {
            "kind": self.kind, "layer": LAYER, "period": self.period, "mask": mask,
            "offset": chance.randrange(min(self.period, 128)), "every": self.every,
            "calls": chance.randrange(self.every), "weights": str(weights),
        }  # fmt: skip


def cells() -> list[Cell]:
    """All rows. An activation of the tiny model has 128 elements a token."""
    weights = [Cell("weights", bits, period) for bits, period in product(BITS, PERIODS)]
    steps = [Cell("activations", bits, 128, every) for bits, every in product(BITS, EVERY)]
    return weights + steps


@contextmanager
def serving(vllm: Path, model: Path, port: int, **environ: str) -> Iterator[Endpoint]:
    """A vLLM that has answered, until the end of the block."""
    command = [str(vllm), "serve", str(model), "--port", str(port), *OPTIONS.split()]
    known = {**os.environ, **ENVIRON, **environ}
    with subprocess.Popen(command, env=known, stdout=subprocess.DEVNULL) as process:
        try:
            endpoint = Endpoint(f"http://127.0.0.1:{port}")
            while asyncio.run(golden.ask(endpoint, "tiny", TOKENS, "first")).error:
                assert process.poll() is None, f"vLLM ended with {process.returncode}"
                time.sleep(1)
            yield endpoint
        finally:
            process.terminate()


@dataclass
class Bench:
    """A sound server, a faulty one, and the file that says what is wrong with the latter."""

    sound: Endpoint
    faulty: Endpoint
    asked: Path
    weights: Path
    number: int = 0

    def ask(self, endpoint: Endpoint) -> golden.Replies:
        """One round."""
        self.number += 1
        return asyncio.run(golden.ask(endpoint, "tiny", TOKENS, f"bench-{self.number}"))

    def round(self, reference: golden.Replies) -> Difference | None:
        """The faulty server's answers against the reference; None where it gave none."""
        found = self.ask(self.faulty)
        assert not found.unmeasured, found.unmeasured
        if found.error:
            return None
        return compare(found.answers, reference.answers, GOLDEN_TOLERANCE)

    def trial(self, cell: Cell, seed: str, reference: golden.Replies, most: int) -> Trial:
        """Rounds until the error is found, at most so many where it is not always there."""
        fault = json.dumps(cell.fault(random.Random(seed), self.weights))
        new = self.asked.with_suffix(".new")
        new.write_text(fault, encoding="utf-8")
        new.replace(self.asked)
        worst = 0.0
        for number in range(1, (1 if cell.every == 1 else most) + 1):
            found = self.round(reference)
            worst = max(worst, found.nats if found else 0.0)
            if found is None or not found.explained:
                return Trial(number, found.outcome.word if found else "no answer", worst)
        return Trial(None, Likeness.SAME.word, worst)


@dataclass(frozen=True)
class Trial:
    """Rounds to detection (None: not found), as what, and the largest distance in nats."""

    rounds: int | None
    found: str
    nats: float


def row(cell: Cell, trials: list[Trial]) -> str:
    """A line of the table."""
    rounds = [trial.rounds for trial in trials if trial.rounds]
    kinds = [trial.found for trial in trials if trial.rounds]
    spread = f"{min(rounds)}-{max(rounds)}" if rounds else "-"
    nats = sorted(trial.nats for trial in trials)
    any_at_all = sum(trial.rounds is not None or trial.nats > SOUND for trial in trials)
    return (
        f"{cell.kind:11} | {cell.bits:6} | 1 in {cell.period:5} | 1 in {cell.every:4} |"
        f" {len(rounds)} of {len(trials)}, at no tolerance {any_at_all} | rounds {spread:5} |"
        f" different {kinds.count('different')}, drifted {kinds.count('drifted')},"
        f" none {kinds.count('no answer')} | nats {nats[len(nats) // 2]:.3g}, least {nats[0]:.3g}"
    )


def alarms(bench: Bench, reference: golden.Replies, seconds: float) -> str:
    """Rounds of both sound servers in so much time: alarms, and the largest distance."""
    bench.asked.unlink(missing_ok=True)
    end, found = time.monotonic() + seconds, []
    while time.monotonic() < end:
        for endpoint in (bench.sound, bench.faulty):
            answers = bench.ask(endpoint).answers
            found.append(compare(answers, reference.answers, GOLDEN_TOLERANCE))
    wrong = sum(not one.explained for one in found)
    worst = max((one.nats for one in found), default=0.0)
    return f"sound: {wrong} alarms in {len(found)} rounds, largest distance {worst:g} nats"


def main() -> None:
    """Start two servers, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vllm", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--alarms", type=float, default=600.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        asked, weights = folder / "fault.json", options.model / "model.safetensors"
        hook = {"PYTHONPATH": str(HOOK), "GOLDEN_FAULT": str(asked)}
        faulty = stack.enter_context(serving(options.vllm, options.model, 8192, **hook))
        sound = stack.enter_context(serving(options.vllm, options.model, 8191))
        bench = Bench(sound, faulty, asked, weights)
        reference = bench.ask(sound)
        for cell in cells():
            trials = [
                bench.trial(cell, f"{cell}/{n}", reference, options.rounds)
                for n in range(options.trials)
            ]
            print(row(cell, trials), flush=True)
        print(alarms(bench, reference, options.alarms), flush=True)


if __name__ == "__main__":
    main()
