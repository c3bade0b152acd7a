"""Makes one vLLM compute wrongly, as asked by the JSON file $GOLDEN_FAULT; without it, nothing.

{"kind": "weights" | "activations", "layer": name of a row-parallel matrix, "period": elements from
one wrong one to the next, "offset": the first, "mask": bits flipped in each (bfloat16, 16 bits),
"every": calls of the layer from one wrong one to the next, "calls": those since the last wrong one,
"weights": the checkpoint}

What a flip would make NaN or infinite stays as it is. Wrong weights are added as the product of
their error, as the sound ones are packed for the CPU when they are loaded. What is slow is asked
for in another file (delays.py).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import sys
from typing import Any

_PATH = os.environ.get("GOLDEN_FAULT", "")


class _Fault:
    """The fault that is asked for now, and what is worked out for it once."""

    def __init__(self) -> None:
        self.stamp: object = None
        self.asked: dict[str, Any] = {}
        self.error: Any = None
        self.calls = 0

    def refresh(self) -> None:
        try:
            found = os.stat(_PATH)
            stamp = (found.st_mtime_ns, found.st_ino)
        except OSError:
            stamp, self.asked = None, {}
        if stamp is not None and stamp != self.stamp:
            with open(_PATH, encoding="utf-8") as file:
                self.asked = json.load(file)
            self.error, self.calls = None, self.asked.get("calls", 0)
        self.stamp = stamp

    def spoil(self, prefix: str, given: Any, output: Any) -> Any:
        self.refresh()
        if self.asked.get("layer") != prefix:
            return output
        self.calls += 1
        if self.calls % self.asked.get("every", 1):
            return output
        if self.asked["kind"] == "activations":
            return _flipped(output, self.asked)
        if self.error is None:
            self.error = _error(prefix, self.asked)
        return output + _module("torch").nn.functional.linear(given, self.error)


def _module(name: str) -> Any:
    """One of the engine's: this repository has none of them."""
    return importlib.import_module(name)


def _flipped(tensor: Any, asked: dict[str, Any]) -> Any:
    """A copy with the asked bits flipped at the asked places."""
    torch = _module("torch")
    result = tensor.clone()
    bits = result.view(torch.int16).flatten()
    places = torch.arange(asked["offset"], bits.numel(), asked["period"])
    mask = asked["mask"] - (1 << 16) if asked["mask"] >= 1 << 15 else asked["mask"]
    wrong = bits[places] ^ mask
    finite = (wrong & 0x7F80) != 0x7F80
    bits[places] = torch.where(finite, wrong, bits[places])
    return bits.view(torch.bfloat16).reshape(tensor.shape)


def _error(prefix: str, asked: dict[str, Any]) -> Any:
    """What the flips add to the matrix."""
    with _module("safetensors").safe_open(asked["weights"], "pt") as file:
        sound = file.get_tensor(f"{prefix}.weight")
    return _flipped(sound, asked) - sound


def _patch(module: Any) -> None:
    fault, sound = _Fault(), module.RowParallelLinear.forward

    def forward(self: Any, given: Any) -> Any:
        output = sound(self, given)
        whole = isinstance(output, tuple)
        spoiled = fault.spoil(self.prefix, given, output[0] if whole else output)
        return (spoiled, *output[1:]) if whole else spoiled

    module.RowParallelLinear.forward = forward


def _patch_worker(module: Any) -> None:
    _module("delays").patch(module)


_PATCHES = {"vllm.model_executor.layers.linear": _patch} if _PATH else {}
if os.environ.get("STEP_DELAY"):
    _PATCHES["vllm.v1.worker.gpu_worker"] = _patch_worker


class _Finder(importlib.abc.MetaPathFinder):
    """Patches each module of the engine once, as it is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        patch = _PATCHES.pop(name, None)
        if patch is None:
            return None
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if _PATCHES:
    sys.meta_path.insert(0, _Finder())
