"""What of an engine is refused before the first connection, each with one line that helps."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit import engines
from b200kit.inventory import engine_rules
from b200kit.inventory.keys.parts import Engine
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data


def refusals(**changes: Any) -> list[str]:
    """Each problem of an inventory whose engine has *changes*, as one line."""
    engine = data()["engine"] | changes
    parsed = parse(data(engine=engine), CATALOGUE)
    return [] if isinstance(parsed, NodeSpec) else [line(problem) for problem in parsed]


def line(problem: Problem) -> str:
    """A problem as a person reads it."""
    return f"{problem.key}: {problem.message}"


FLAGS = {
    "misspelt": ({"enforce-eagr": True}, 'did you mean "enforce-eager"?'),
    "underscores": ({"kv_cache_dtype": "fp8"}, 'did you mean "kv-cache-dtype"?'),
    "gone": ({"calculate-kv-scales": True}, "unknown flag of vllm 0.32.0"),
    "of the next version": ({"watchdog-config": "{}"}, "unknown flag of vllm 0.32.0"),
    "text for a switch": ({"enforce-eager": "yes"}, "must be True or False, not 'yes'"),
    "switch for a text": ({"kv-cache-dtype": True}, "must be a text, not True"),
    "no number": ({"block-size": "many"}, "must be a whole number, not 'many'"),
    "no size": ({"max-num-queued-tokens": "8q"}, 'such as 8192 or "8k"'),
    "no choice": ({"performance-mode": "interactive"}, 'did you mean "interactivity"?'),
    "no JSON": ({"speculative-config": "mtp"}, "must be a text in JSON"),
    "switched off by name": (
        {"no-enable-prefix-caching": True},
        'write "enable-prefix-caching": False',
    ),
    "one way": ({"aggregate-engine-logging": False}, "True, or left out"),
    "short name": ({"tp": 2}, 'write "tensor-parallel-size"'),
    "parts of what has none": ({"seed.x": 1}, "seed has no parts"),
    "the kit's own port": ({"port": 9000}, "the kit sets it; the inventory says `replica_ports`"),
    "the kit's own TP": ({"tensor-parallel-size": 2}, "`tensor_parallel`"),
    "a key": ({"api-key": "x"}, "looks like a secret"),
    "a token": ({"hf-token": "x"}, "looks like a secret"),
    "a secret's value": ({"revision": "hf_" + "a" * 34}, "looks like a secret"),
    "fatal monitor": ({"jit-monitor-mode": "error"}, "would end the server"),
    "code": ({"trust-remote-code": True}, "pin it: code-revision"),
    "code of a branch": (
        {"trust-remote-code": True, "code-revision": "main"},
        "pin it: code-revision",
    ),
}
TAKEN = {
    "switch": {"enforce-eager": True, "enable-prefix-caching": False},
    "size": {"max-num-queued-tokens": "16k", "kv-cache-memory-bytes": "1.5G"},
    "number as text": {"seed": "7", "gpu-memory-utilization": 0.9},
    "JSON": {"speculative-config": '{"method": "mtp", "num_speculative_tokens": 1}'},
    "part of JSON": {"compilation-config.cudagraph_mode": "FULL"},
    "pinned code": {"trust-remote-code": True, "code-revision": "a" * 40},
}


@in_subtests("case", FLAGS)
def test_flag_is_refused_in_one_line(case: str) -> None:
    flags, says = FLAGS[case]
    [refused] = refusals(flags=flags)
    assert refused.startswith("engine.flags.")
    assert says in refused
    assert "\n" not in refused


@in_subtests("case", TAKEN)
def test_flag_that_the_engine_takes_is_let_through(case: str) -> None:
    assert refusals(flags=TAKEN[case]) == []


@in_subtests(
    ("name", "value", "says"),
    [
        ("VLLM_ATTENTION_BACKEND", "FLASHINFER", "does not read it"),
        ("VLLM_USE_V1", "1", "does not read it"),
        ("VLLM_USE_FLASHINFER_MOE_FP8", "1", "does not read it"),
        ("VLLM_CPU_KVCACHE_SPACES", "1", 'did you mean "VLLM_CPU_KVCACHE_SPACE"?'),
        ("VLLM_SERVER_DEV_MODE", "1", "refused: it opens"),
        ("VLLM_ALLOW_INSECURE_SERIALIZATION", "1", "could run code"),
        ("VLLM_API_KEY", "x", "looks like a secret"),
        ("HF_TOKEN", "x", "looks like a secret"),
    ],
)
def test_variable_is_refused_in_one_line(name: str, value: str, says: str) -> None:
    [refused] = refusals(environment={name: value})
    assert refused.startswith(f"engine.environment.{name}: ")
    assert says in refused


@pytest.mark.parametrize(
    "environment",
    [{"VLLM_CPU_KVCACHE_SPACE": "1"}, {"OMP_NUM_THREADS": "1"}, {"VLLM_SERVER_DEV_MODE": "0"}],
)
def test_variable_that_somebody_reads_is_let_through(environment: dict[str, str]) -> None:
    assert refusals(environment=environment) == []


@in_subtests(
    ("version", "says"),
    [
        ("latest", '"latest" is not exact'),
        ("0.33", "no list of the flags of vllm 0.33 "),
        ("0.34.0", "b200kit/catalog/engines/snapshot.py"),
        ("0.21.0", "CVE-2026-48746 (requests pass without the API key); 0.22.0 or newer"),
        ("0.14.0", "and 3 more; 0.22.0 or newer"),
    ],
)
def test_version_is_refused(version: str, says: str) -> None:
    assert any(f"engine.version: {says}" in r or says in r for r in refusals(version=version))


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0", "0.32.0+cpu"])
def test_version_that_is_known_is_let_through(version: str) -> None:
    assert refusals(version=version) == []


def test_flags_are_those_of_the_version_that_is_asked_for() -> None:
    assert refusals(version="0.33.0", flags={"watchdog-config": "{}"}) == []


def test_stand_in_has_versions_of_its_own() -> None:
    assert refusals(kind="stand-in", version="1.0.0", flags={"enforce-eager": True}) == []


def test_other_engine_is_held_to_its_own_flags() -> None:
    sglang = {"name": "sglang", "version": "0.5.23"}
    assert refusals(**sglang, flags={"mem-fraction-static": 0.8}) == []
    [unknown] = refusals(**sglang, flags={"gpu-memory-utilization": 0.8})
    assert "unknown flag of sglang 0.5.23" in unknown
    [code] = refusals(**sglang, flags={"enable-custom-logit-processor": True})
    assert "CVE-2026-7304" in code


def test_engine_of_an_unsafe_line_is_refused() -> None:
    assert "CVE-2026-3060" in refusals(name="sglang", version="0.5.9")[0]


@in_subtests(
    ("lock", "says"),
    [
        ("vllm==0.33.0 --hash=sha256:00\n", ""),
        ("# comment\nvllm==0.33.0 \\\n    --hash=sha256:00\n", ""),
        ("torch==2.14.0\nvllm-cpu==0.33.0\nvllm==0.33.0+cpu\n", ""),
        ("vllm==0.32.0\n", "0.33.0, but lock.txt has vllm==0.32.0"),
        ("torch==2.14.0\n", "0.33.0, but lock.txt has no vllm"),
    ],
)
def test_version_is_the_one_that_the_requirements_install(lock: str, says: str) -> None:
    engine = Engine(kind="cuda", version="0.33.0", requirements="lock.txt")
    assert engine_rules.unlike_lock(engines.get(engine), engine, lock) == says
