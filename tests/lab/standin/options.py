"""`vllm serve`'s options, as far as the toolkit's units use them; unknown ones are refused.

Two sources, as with vLLM: a YAML file given by --config (flat `long-option: value` lines) and the
command line, which wins. A flag the stand-in has no use for is accepted only if vLLM 0.32 has it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

_SWITCHES = """
enforce-eager enable-prefix-caching disable-access-log enable-log-requests
enable-expert-parallel async-scheduling trust-remote-code enable-chunked-prefill numa-bind
fail-on-environ-validation disable-fastapi-docs disable-log-stats disable-uvicorn-access-log
enable-auto-tool-choice
"""
_NUMBERS = """
port max-model-len max-num-seqs max-num-batched-tokens shutdown-timeout
tensor-parallel-size pipeline-parallel-size data-parallel-size api-server-count seed
block-size stream-interval max-num-queued-tokens
"""
_TEXTS = """
served-model-name host revision dtype kv-cache-dtype quantization load-format
performance-mode download-dir tokenizer generation-config speculative-config compilation-config
numa-bind-nodes numa-bind-cpus attention-backend optimization-level uvicorn-log-level
disable-access-log-for-endpoints jit-monitor-mode chat-template reasoning-parser tool-call-parser
safetensors-load-strategy gpu-memory-utilization
"""
SWITCHES, NUMBERS, TEXTS = _SWITCHES.split(), _NUMBERS.split(), _TEXTS.split()


class OptionError(Exception):
    """An option that vLLM would refuse; one line."""


def parse(args: list[str]) -> argparse.Namespace:
    """Options of `vllm serve ARGS`. Raises OptionError, or SystemExit as argparse does."""
    parser = _parser()
    first = parser.parse_args(args)
    if first.config is None:
        return first
    return parser.parse_args([*_from_file(Path(first.config)), *args])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--config")
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=False)
    defaults = {"port": 8000, "max-model-len": 4096, "max-num-seqs": 256, "shutdown-timeout": 0}
    for name in NUMBERS:
        parser.add_argument(f"--{name}", type=int, default=defaults.get(name))
    for name in TEXTS:
        parser.add_argument(f"--{name}")
    parser.add_argument("--api-key", nargs="*", default=[])
    return parser


def _from_file(path: Path) -> list[str]:
    """The file's lines as arguments, before those of the command line."""
    try:
        text = path.read_text()
    except OSError as error:
        raise OptionError(f"--config {path}: {error.strerror}") from error
    off = [f"no-{name}" for name in SWITCHES]
    known = {"model", "api-key", *SWITCHES, *off, *NUMBERS, *TEXTS}
    args: list[str] = []
    for number, (key, value) in enumerate(_pairs(text), 1):
        if key not in known:
            raise OptionError(f"{path}: unrecognized arguments: --{key} (entry {number})")
        if isinstance(value, bool):
            args += [f"--{key}"] if value else [f"--no-{key}"] if key in SWITCHES else []
        elif isinstance(value, list):
            args += [f"--{key}", *(str(item) for item in value)]
        else:
            args += [f"--{key}", str(value)]
    return args


def _pairs(text: str) -> list[tuple[str, object]]:
    """A JSON object, or flat YAML: `key: scalar` and `key: [a, b]`; comments and blanks skipped."""
    if text.lstrip().startswith("{"):
        return list(json.loads(text).items())
    pairs: list[tuple[str, object]] = []
    for line in text.splitlines():
        bare = line.split(" #")[0].rstrip()
        if not bare or bare.startswith("#") or bare == "---":
            continue
        key, colon, value = bare.partition(":")
        if not colon or key != key.strip() or (value and value[0] != " "):
            raise OptionError(f"not a flat `key: value` line: {line!r}")
        pairs.append((key, _scalar(value.strip())))
    return pairs


def _scalar(text: str) -> object:
    """true and false, quoted text (JSON or single quotes), a JSON list, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    if text[:1] == "'" == text[-1:]:
        return text[1:-1].replace("''", "'")
    if text[:1] in ('"', "["):
        return json.loads(text)
    return text
