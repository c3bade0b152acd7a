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
from tests.messages import assert_message
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
    "misspelt": {"enforce-eagr": True},
    "underscores": {"kv_cache_dtype": "fp8"},
    "gone": {"calculate-kv-scales": True},
    "of the next version": {"watchdog-config": "{}"},
    "text for a switch": {"enforce-eager": "yes"},
    "switch for a text": {"kv-cache-dtype": True},
    "no number": {"block-size": "many"},
    "no size": {"max-num-queued-tokens": "8q"},
    "no choice": {"performance-mode": "interactive"},
    "no parser of tools": {"tool-call-parser": "qwen3-coder", "enable-auto-tool-choice": True},
    "no parser of thoughts": {"reasoning-parser": "deepseek-r1"},
    "plugin of the other parser": {"reasoning-parser": "ours", "tool-parser-plugin": "/opt/p.py"},
    "template of the site": {"chat-template": "templates/mine.jinja"},
    "file beside nothing": {"chat-template": "mine.jinja"},
    "directory of a user": {"hf-config-path": "~/config"},
    "no JSON": {"speculative-config": "mtp"},
    "a share of 92": {"gpu-memory-utilization": 92},
    "no share": {"gpu-memory-utilization": 0.0},
    "no number of a share": {"gpu-memory-utilization": "nan"},
    "drafts below zero": {"speculative-config": '{"method": "mtp", "num_speculative_tokens": -3}'},
    "drafts below zero, by their part": {"speculative-config.num_speculative_tokens": -3},
    "drafts by true": {"speculative-config": '{"method": "mtp", "num_speculative_tokens": true}'},
    "a window of nothing": {"eplb-config": '{"window_size": 0}'},
    "an interval of nothing": {"stream-interval": "0"},
    "switched off by name": {"no-enable-prefix-caching": True},
    "one way": {"aggregate-engine-logging": False},
    "short name": {"tp": 2},
    "parts of what has none": {"seed.x": 1},
    "the kit's own port": {"port": 9000},
    "the kit's own TP": {"tensor-parallel-size": 2},
    "a key": {"api-key": "x"},
    "a token": {"hf-token": "x"},
    "a secret's value": {"revision": "hf_" + "a" * 34},
    "fatal monitor": {"jit-monitor-mode": "error"},
    "code": {"trust-remote-code": True},
    "code of a branch": {"trust-remote-code": True, "code-revision": "main"},
}
TAKEN = {
    "switch": {"enforce-eager": True, "enable-prefix-caching": False},
    "ends of ranges": {
        "gpu-memory-utilization": 1,
        "max-logprobs": -1,
        "stream-interval": 1,
        "speculative-config": '{"num_speculative_tokens": 1, "method": "mtp"}',
    },
    "parts that are no numbers": {
        "speculative-config": '{"num_speculative_tokens": null, "model": "draft"}'
    },
    "parser": {"tool-call-parser": "granite-20b-fc", "reasoning-parser": "qwen3"},
    "parser of a plugin": {"tool-call-parser": "ours", "tool-parser-plugin": "/opt/ours.py"},
    "template on the node": {"chat-template": "/etc/templates/mine.jinja"},
    "template of vLLM's own": {"chat-template": "template_chatml.jinja"},
    "template itself": {"chat-template": "{% for m in messages %}{{ m.content }}{% endfor %}"},
    "size": {"max-num-queued-tokens": "16k", "kv-cache-memory-bytes": "1.5G"},
    "number as text": {"seed": "7", "gpu-memory-utilization": 0.9},
    "JSON": {"speculative-config": '{"method": "mtp", "num_speculative_tokens": 1}'},
    "part of JSON": {"compilation-config.cudagraph_mode": "FULL"},
    "pinned code": {"trust-remote-code": True, "code-revision": "a" * 40},
}


@in_subtests("case", FLAGS)
def test_flag_is_refused_in_one_line(case: str) -> None:
    [refused] = refusals(flags=FLAGS[case])
    assert refused.startswith("engine.flags.")
    assert_message(refused)
    assert "\n" not in refused


@in_subtests("value", ["\uff10.9", "\u0660.\u0669", "0.9\u00b2", "0_9", "inf"])
def test_number_that_is_one_to_python_alone_is_refused(value: str) -> None:
    [refused] = refusals(flags={"gpu-memory-utilization": value})
    assert refused.startswith("engine.flags.gpu-memory-utilization: must be a number")


@in_subtests("case", TAKEN)
def test_flag_that_the_engine_takes_is_let_through(case: str) -> None:
    assert refusals(flags=TAKEN[case]) == []


@in_subtests(
    ("name", "value"),
    [
        ("VLLM_ATTENTION_BACKEND", "FLASHINFER"),
        ("VLLM_USE_V1", "1"),
        ("VLLM_USE_FLASHINFER_MOE_FP8", "1"),
        ("VLLM_CPU_KVCACHE_SPACES", "1"),
        ("VLLM_SERVER_DEV_MODE", "1"),
        ("VLLM_CACHE_ROOT", "/tmp"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("NVIDIA_VISIBLE_DEVICES", "all"),
        ("PATH", "/usr/bin"),
        ("HOME", "/root"),
        ("TMPDIR", "/tmp"),
        ("TRITON_CACHE_DIR", "/tmp"),
        ("LD_PRELOAD", "/lib/x.so"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        ("PYTHONPATH", "/opt"),
        ("HF_HUB_OFFLINE", "0"),
        ("B200KIT_PROBE", "x"),
        ("VLLM_ALLOW_INSECURE_SERIALIZATION", "1"),
        ("VLLM_API_KEY", "x"),
        ("HF_TOKEN", "x"),
        ("HTTPS_PROXY", "http://user:word@proxy.example:3128"),
    ],
)
def test_variable_is_refused_in_one_line(name: str, value: str) -> None:
    [refused] = refusals(environment={name: value})
    assert refused.startswith(f"engine.environment.{name}: ")
    assert_message(refused)


@pytest.mark.parametrize(
    "environment",
    [{"VLLM_CPU_KVCACHE_SPACE": "1"}, {"OMP_NUM_THREADS": "1"}, {"VLLM_SERVER_DEV_MODE": "0"}],
)
def test_variable_that_somebody_reads_is_let_through(environment: dict[str, str]) -> None:
    assert refusals(environment=environment) == []


@in_subtests("version", ["latest", "0.33", "0.34.0", "0.21.0", "0.14.0"])
def test_version_is_refused(version: str) -> None:
    assert_message(*refusals(version=version))


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
    assert_message(unknown)
    [code] = refusals(**sglang, flags={"enable-custom-logit-processor": True})
    assert "CVE-2026-7304" in code


def test_engine_of_an_unsafe_line_is_refused() -> None:
    assert "CVE-2026-3060" in refusals(name="sglang", version="0.5.9")[0]


@in_subtests(
    "lock",
    [
        "vllm==0.33.0 --hash=sha256:00\n",
        "# comment\nvllm==0.33.0 \\\n    --hash=sha256:00\n",
        "torch==2.14.0\nvllm-cpu==0.33.0\nvllm==0.33.0+cpu\n",
        "vllm==0.32.0\n",
        "torch==2.14.0\n",
    ],
)
def test_version_is_the_one_that_the_requirements_install(lock: str) -> None:
    engine = Engine(kind="cuda", version="0.33.0", requirements="lock.txt")
    assert_message(engine_rules.unlike_lock(engines.get(engine), engine, lock))


@in_subtests(
    ("head", "versions"),
    [
        ("# python: 3.12", [(3, 12)]),
        ("# python: 3.11, 3.12 3.13", [(3, 11), (3, 12), (3, 13)]),
        ("# Made by hand (Python 3.11, x86-64 Linux).", []),
        # As uv 0.8 and pip-compile 7.5 begin a file.
        (
            "# This file was autogenerated by uv via the following command:\n"
            "#    uv pip compile vllm.in --generate-hashes --python-version 3.12 -o lock.txt",
            [(3, 12)],
        ),
        ("# This file is autogenerated by pip-compile with Python 3.11\n# by the", [(3, 11)]),
    ],
)
def test_lock_names_the_python_it_is_for(head: str, versions: list[tuple[int, int]]) -> None:
    lock = f"{head}\nvllm==0.33.0 \\\n    --hash=sha256:00 ; python_version >= '3.10'\n"
    assert engine_rules.python_of(lock) == versions


def test_every_range_is_of_a_flag() -> None:
    for known in CATALOGUE.engines.values():
        for version in known.versions.values():
            names = {
                name.partition(".")[0] for name in version.ranges if name not in version.fields
            }
            assert names - version.flags.keys() == set()
