"""The command line of `vllm bench serve`, and the node command that runs it or says why not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client import client_health, correctness
from b200kit.node.client.correctness import CorrectnessResult
from b200kit.node.client.prompts import Scale
from b200kit.node.latency import vllm_bench
from b200kit.node.latency.vllm_bench import Ask
from tests.messages import assert_message
from tests.unit import serving_document

# The options and metric names in vllm/benchmarks/serve.py of 0.32.0 and 0.33.0 that matter here.
NEW = " ".join(
    f'"{word}"'
    for word in (
        "--endpoint", "--ignore-eos", "--percentile-metrics", "--goodput", "--save-result",
        "--num-warmups", "--ready-check-timeout-sec", "--extra-body", "--disable-tqdm",
        "client_queue_time", "e2el_including_client_queue",
    )
)  # fmt: skip
OLD = '"--endpoint" "--ignore-eos" "--percentile-metrics" "--goodput" "--save-result"'
ASK = Ask(
    url="http://127.0.0.1:8000", model="llama", tokenizer="/srv/models/llama/1", rate=4.0,
    requests=120, input_tokens=115, output_tokens=64, seed=7, salt="bench-1",
    objective={"ttft_ms": 100.0, "tpot_ms": 25.0}, result="/tmp/r.json",
)  # fmt: skip


def pairs(words: list[str]) -> dict[str, str]:
    """Options with the word after them."""
    return {word: words[n + 1] for n, word in enumerate(words[:-1]) if word.startswith("--")}


def test_command_is_the_correct_one() -> None:
    words = vllm_bench.arguments(ASK, NEW)
    text = pairs(words)
    assert text["--backend"] == "openai-chat"
    assert text["--endpoint"] == "/v1/chat/completions"
    assert "--ignore-eos" in words
    assert (text["--request-rate"], text["--num-prompts"], text["--seed"]) == ("4", "120", "7")
    assert (text["--random-input-len"], text["--random-output-len"]) == ("115", "64")
    assert json.loads(text["--extra-body"]) == {"cache_salt": "bench-1"}
    assert words[words.index("--goodput") + 1 :][:2] == ["ttft:100", "tpot:25"]
    assert text["--percentile-metrics"].endswith("client_queue_time,e2el_including_client_queue")
    # A cap that never binds: the version then reports its queue.
    assert text["--max-concurrency"] == text["--num-prompts"]


def test_older_version_is_asked_for_nothing_that_it_does_not_know() -> None:
    words = vllm_bench.arguments(ASK, OLD)
    assert pairs(words)["--percentile-metrics"] == "ttft,tpot,itl,e2el"
    for flag in ("--max-concurrency", "--extra-body", "--num-warmups", "--disable-tqdm"):
        assert flag not in words
    assert vllm_bench.missing_options(OLD) == ""
    assert "--ignore-eos" in vllm_bench.missing_options('"--endpoint"')


def serving(tmp_path: Path, **changes: object) -> Path:
    """A serving.json of one replica."""
    (tmp_path / "key").write_text("canary-key-1234")
    known = {"model": "llama", "engine": "vllm 0.32.0 (cpu)", "api_key_file": str(tmp_path / "key")}
    return serving_document.written(tmp_path, "http://127.0.0.1:8000", [], **{**known, **changes})


def engine(tmp_path: Path, script: str, source: str = NEW) -> Path:
    """An engine's directory whose `vllm` is a shell script."""
    folder = tmp_path / "engine"
    known = folder / "lib/python3.12/site-packages/vllm/benchmarks/serve.py"
    known.parent.mkdir(parents=True)
    known.write_text(source)
    (folder / "bin").mkdir()
    program = folder / "bin" / "vllm"
    program.write_text(f"#!{sys.executable}\nimport json, os, sys\n{script}\n")
    program.chmod(0o755)
    return folder


def run(
    config: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """What the command prints."""

    async def check(*_: object) -> CorrectnessResult:
        return CorrectnessResult((), Scale(1.3, 13.0), True, None)

    monkeypatch.setattr(correctness, "check", check)
    monkeypatch.setattr(client_health, "claim_realtime", lambda: "other")
    words = ["--config", str(config), "--engine", str(folder), "--model", "/m", "--requests", "5"]
    words += ["--rate", "4", "--input-tokens", "128", "--output-tokens", "64"]
    assert vllm_bench.main(words) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


WRITES = """
a = sys.argv
out = a[a.index("--result-filename") + 1]
json.dump({"p50_ttft_ms": 1.5, "ttfts": [1, 2], "key": os.environ["OPENAI_API_KEY"][:6]},
          open(out, "w"))
"""


def test_result_is_kept_without_its_series_and_with_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(serving(tmp_path), engine(tmp_path, WRITES), capsys, monkeypatch)
    assert found["figures"] == {"p50_ttft_ms": 1.5, "key": "canary"}
    command = found["command"]
    assert isinstance(command, list)
    assert command[1:3] == ["bench", "serve"]
    # Its prompts get the chat template's 13 tokens on top.
    assert pairs(command)["--random-input-len"] == "115"
    assert "canary-key-1234" not in json.dumps(found)


@pytest.mark.parametrize("result", ["[" * 100_000, "[]", '{"a": 1, "a": 2}'], ids=range(3))
def test_result_that_is_no_object_is_unmeasured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, result: str
) -> None:
    script = f"open(sys.argv[-1], 'w').write({result!r})"
    found = run(serving(tmp_path), engine(tmp_path, script), capsys, monkeypatch)
    assert set(found) == {"unmeasured"}


@pytest.mark.parametrize(
    "script", ["sys.exit('tokenizer not found')", "pass", "open(sys.argv[-1], 'w').write('{')"]
)
def test_run_that_fails_is_unmeasured_with_its_last_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
) -> None:
    found = run(serving(tmp_path), engine(tmp_path, script), capsys, monkeypatch)
    assert set(found) == {"unmeasured"}
    assert_message(str(found["unmeasured"]))


def test_engine_without_it_is_unmeasured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = serving(tmp_path)
    missing = run(config, tmp_path / "nowhere", capsys, monkeypatch)
    assert_message(str(missing["unmeasured"]))
    old = run(config, engine(tmp_path, WRITES, source="nothing"), capsys, monkeypatch)
    assert "has no --endpoint" in str(old["unmeasured"])
    stand_in = serving(tmp_path, stand_in=True)
    found = run(stand_in, tmp_path / "engine", capsys, monkeypatch)
    assert "stand-in" in str(found["unmeasured"])


def test_configuration_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    words = ["--config", str(tmp_path / "none.json"), "--engine", "/e", "--model", "/m"]
    words += ["--requests", "5", "--rate", "4", "--input-tokens", "9", "--output-tokens", "9"]
    assert vllm_bench.main(words) == 2
