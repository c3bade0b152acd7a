"""What a lock must hold: the shipped ones do, and each fault that is planted in one is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.catalog import load
from b200kit.inventory import engine_rules
from b200kit.supply.locks import make as rules
from b200kit.supply.locks.lock_file import difference, pins, said, same_pins
from b200kit.supply.locks.recipe import recipes
from tests.messages import assert_message
from tests.subtests import in_subtests

RECIPE = recipes()["vllm", "cuda"]
FOLDER = Path(__file__).resolve().parents[4] / "requirements"
SHIPPED = {RECIPE.file_name(python): python for python in RECIPE.pythons}
PY312 = RECIPE.file_name("3.12")
TEXT = (FOLDER / PY312).read_text(encoding="utf-8")
HASH = f"--hash=sha256:{'0' * 64}"


def added(line: str) -> Callable[[str], str]:
    """The lock with one more line."""
    return lambda text: f"{text}{line}\n"


def other(pattern: str, instead: str) -> Callable[[str], str]:
    """The lock with its only match of a pattern replaced."""

    def change(text: str) -> str:
        text, count = re.subn(pattern, instead, text, flags=re.MULTILINE)
        assert count == 1, pattern
        return text

    return change


def without_hashes(text: str) -> str:
    """The lock with one pin that nothing proves."""
    return other(r"^vllm==0\.33\.0 \\\n(    --hash=\S+( \\)?\n)+", "vllm==0.33.0\n")(text)


FAULTS: dict[str, Callable[[str], str]] = {
    "missing hash": without_hashes,
    "weaker hash": added(f"attrs-x==1.0 --hash=md5:{'0' * 32}"),
    "index": added("--extra-index-url https://packages.example.invalid/simple"),
    "place": added(f"attrs-x @ https://packages.example.invalid/a.whl {HASH}"),
    "range": added(f"attrs-x>=1.0 {HASH}"),
    "twice": added(f"VLLM==0.32.0 {HASH}"),
    "no Python": other(r"^# python: .*\n", ""),
    "two Pythons": other(r"^(# python: .*\n)", r"\1# python: 3.11\n"),
    "Python of another file": other(r"^# python: .*", "# python: 3.13"),
    "no glibc": other(r"^# glibc: .*\n", ""),
    "CUDA release": other(r"^nvidia-cuda-nvcc==\S+", "nvidia-cuda-nvcc==13.5.37"),
    "CUDA of another name": added(f"nvidia-cuda-runtime-cu12==12.8.90 {HASH}"),
    "bindings": added(f"cuda-python==12.6.2.post1 {HASH}"),
    "kernels without package": added(
        f"flashinfer-cubin==0.7.2 {HASH}\nflashinfer-jit-cache==0.7.2+cu130 {HASH}"
    ),
    "kernels of another version": added(
        f"flashinfer-python==0.7.2.post1 {HASH}\nflashinfer-cubin==0.6.13 {HASH}\n"
        f"flashinfer-jit-cache==0.7.2.post1+cu130 {HASH}"
    ),
    "half of the kernels": added(
        f"flashinfer-python==0.7.2.post1 {HASH}\nflashinfer-cubin==0.7.2.post1 {HASH}"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_named_alone(fault: str) -> None:
    [found] = rules.faults(FAULTS[fault](TEXT), RECIPE, PY312)
    assert_message(found)


def test_tools_and_headers_with_versions_of_their_own_fit() -> None:
    newer = other(r"^nvidia-cuda-cccl==\S+", "nvidia-cuda-cccl==13.3.5.0.6")(TEXT)
    text = added(f"nvidia-cuda-nvdisasm==13.5.37 {HASH}")(newer)
    assert rules.faults(text, RECIPE, PY312) == []


def test_every_python_of_the_recipe_has_its_lock_and_no_other() -> None:
    assert {path.name for path in FOLDER.glob("engine-vllm-cuda-*")} == set(SHIPPED)


@in_subtests("name", SHIPPED)
def test_shipped_lock_fulfils_every_rule(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert rules.faults(text, RECIPE, name) == []
    major, minor = map(int, SHIPPED[name].split("."))
    assert engine_rules.python_of(text) == [(major, minor)]
    locked = pins(text)["vllm"].version
    assert locked in load.load().engines["vllm"].versions, "its flags are not listed"
    assert said(text, "override") == list(RECIPE.overrides[locked])


def test_shipped_locks_are_of_one_version_and_differ_in_little() -> None:
    texts = [(FOLDER / name).read_text(encoding="utf-8") for name in SHIPPED]
    assert len({pins(text)["vllm"].version for text in texts}) == 1
    assert all(len(difference(texts[0], text)) < 10 for text in texts)


def test_difference_names_what_is_added_removed_and_changed() -> None:
    before = f"a==1 {HASH}\nb==1 {HASH}\nc==1 {HASH}\nd==1 {HASH}\n"
    after = f"a==1 {HASH}\nB==2 {HASH}\nd==1 {HASH.replace('0' * 64, '1' * 64)}\ne==1 {HASH}\n"
    assert difference(before, after) == ["~ b 1 -> 2", "- c 1", "~ d 1: other hashes", "+ e 1"]
    assert difference(before, before) == []


@pytest.mark.parametrize("line", ["# python: 3.12", "# override: a>=1", "# left out: a"])
def test_another_rule_in_the_first_lines_is_another_lock(line: str) -> None:
    assert same_pins(TEXT, TEXT.replace("Made by", "Remade by"))
    assert not same_pins(TEXT, f"{line}\n{TEXT}")
