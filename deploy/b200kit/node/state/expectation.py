"""What a node is judged by: a document of schema "b200kit/expect/1", read through a tolerant view.

    {"schema": "b200kit/expect/1",
     "hardware": {"name": "hgx-b200", "expect": {"nvlink.links": {"value", "unit", "source", ...}}},
     "driver": {"version": "580.126.20", "packages": {"nvidia-open": "580.126.20", ...},
                "left_out": {"libnvsdm": "no repository of the node has it"}} | null,
     "gpu_count": 8, "services": ["haproxy.service"], "today": "2026-11-21",
     "clock_synchronized": true, "settings": {"swappiness": {"desired", "reading", ...}},
     "passport": "keep" | "renew", "bandwidth": "off" | "when-installed" | "required",
     "bring_up": "off" | "judged", "unfinished": "off" | "judged",
     "quarantine": "off" | "judged",
     "container_runtimes": ["docker"],
     "automatic": {"units": those that nothing else may restart, "sources": [URL of a repository]},
     "weights": {"root", "model", "revision", "serving": whether it must be there},
     "precision": {"model", "revision", "engine", "lowered": ["nvfp4 weights"],
                   "limits": {"kl_nats", "flips"}, "compared": {"kl_nats": [least, found, most],
                   "flips": the same} | "doubt": why there is no comparison},
     "placement": {"vllm@0.service": {"by": "systemd" | "engine", "cpus": "0-55", "nodes": "0",
                                      "policy": "bind" | "local",
                                      "gpus": ["GPU-...", ...]}},
     "serving": {"replicas": ["vllm@0.service"], "gateway": "haproxy.service"},
     "watchdog": {"unit": "b200-agent.service", "replicas": ["vllm@0.service"]},
     "proof": {"replicas": ["vllm@0.service"]},
     "waivers": [{"check", "subject", "owner", "reason", "until": "2026-12-01"}]}

Without clock_synchronized, settings, passport and bandwidth, clock and ACS are judged, the passport
is kept, and no other setting and no bandwidth is required; nor are the GPUs of a replica where its
placement does not name them. Any other expectation that is missing, and every one that is
malformed, raises `Unexpected`; judge turns that into an unmeasured finding, so that a check without
its threshold never passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from b200kit.node.state.view import Key, Unread, View

SCHEMA = "b200kit/expect/1"
PATH = "/etc/b200kit/expect.json"
"""Where it is on a node."""
# What floats hold exactly; larger is a slip of the pen, and no sum or list is made of it.
_MOST = 2**53
T = TypeVar("T")


class Unexpected(Unread):
    """An expectation that a check needs is not there, or cannot be one."""


@dataclass(frozen=True)
class Expected:
    """One expectation of the hardware data with where it comes from."""

    value: Any
    unit: str
    source: str

    @property
    def text(self) -> str:
        """The value and its unit, as a person reads it."""
        listed = isinstance(self.value, list)
        value = ", ".join(map(str, self.value)) if listed else str(self.value)
        return f"{value} {self.unit}".strip()


class Expectation(View):
    """The document as checks use it."""

    error = Unexpected

    def hardware(self, name: str, kind: type = int) -> Expected:
        """One expectation by its dotted name; raises Unexpected when it is missing or no `kind`."""
        entry = self.at("hardware", "expect", name)
        value: Any = entry.get(kind, "value")
        if isinstance(value, int) and abs(value) > _MOST:
            raise Unexpected(f"hardware data: {name}", "no such quantity is that large")
        where = self.reading("hardware", "name")
        source = entry.known(str, "source") or "no source given"
        return Expected(value, entry.known(str, "unit") or "", f"hardware/{where}.yaml: {source}")

    def words(self, name: str) -> Expected:
        """One expectation that is a list of names; raises Unexpected when it is anything else."""
        expected = self.hardware(name, list)
        if not all(isinstance(word, str) for word in expected.value):
            raise Unexpected(f"hardware data: {name}", "it must be a list of texts")
        return expected

    def gpu_count(self) -> int:
        """How many GPUs the node must have."""
        count = self.number("gpu_count")
        if count < 1:
            raise Unexpected("gpu_count", "must be at least 1")
        return count

    def driver_version(self) -> str | None:
        """The driver version asked for; None when any one version will do."""
        return None if self.is_null("driver") else self.text("driver", "version")

    def driver_packages(self) -> dict[str, str]:
        """Package name to version for the set that must move in lockstep; {} when none is asked."""
        packages = {} if self.is_null("driver") else self.get(dict, "driver", "packages")
        return {str(name): str(version) for name, version in packages.items()}

    def left_out(self) -> dict[str, str]:
        """Members of the set that the node does without, and why; older documents have none."""
        if self.is_null("driver"):
            return {}
        left_out = self.requested(dict, "driver", "left_out") or {}
        return {str(name): str(why) for name, why in left_out.items()}

    def services(self) -> list[str]:
        """Units that must be active besides those the hardware needs."""
        return [str(name) for name in self.get(list, "services")]

    def clock_judged(self) -> bool:
        """Whether the clock must be synchronized; an inventory may say it is another's business."""
        return self.is_missing("clock_synchronized") or self.flag("clock_synchronized")

    def settings(self) -> View:
        """The settings asked for, by name; an older document has none."""
        if self.is_missing("settings"):
            return View({}, "settings")
        requested = self.get(dict, "settings")
        if not all(isinstance(entry, dict) for entry in requested.values()):
            raise Unexpected("settings", "each must be an object")
        return self.at("settings")

    def acs_judged(self) -> bool:
        """Whether bridges may redirect peers: unless the inventory does not manage ACS."""
        return self.is_missing("settings") or "acs" in self.settings().names()

    def passport(self) -> str:
        """What to do about the node's passport: "keep" or "renew"."""
        return self.choice("passport", ("keep", "renew"))

    def bandwidth(self) -> str:
        """Whether bandwidth is measured: "off", "when-installed" or "required"."""
        return self.choice("bandwidth", ("off", "when-installed", "required"))

    def bring_up(self) -> str:
        """Whether what only the bring-up needs is judged: "off" or "judged"."""
        return self.choice("bring_up", ("off", "judged"))

    def unfinished(self) -> str:
        """Whether what dpkg left and what boots next is judged: "off" or "judged"."""
        return self.choice("unfinished", ("off", "judged"))

    def quarantine(self) -> str:
        """Whether a node that was taken out of service is refused: "off" or "judged"."""
        return self.choice("quarantine", ("off", "judged"))

    def container_runtimes(self) -> list[str]:
        """Container runtimes whose containers must get GPUs by CDI; [] where none is asked for."""
        if self.is_missing("container_runtimes"):
            return []
        return [str(name) for name in self.get(list, "container_runtimes")]

    def requested(self, kind: type[T], *keys: Key) -> T | None:
        """What is asked under a key; None where the document has no such key, or null there."""
        if self.is_missing(*keys) or self.is_null(*keys):
            return None
        return self.get(kind, *keys)

    def choice(self, key: str, words: tuple[str, ...]) -> str:
        """One of a few words, the first where the document does not have the key."""
        word = words[0] if self.is_missing(key) else self.text(key)
        if word not in words:
            raise Unexpected(key, f"{word!r} is not known; it must be one of {', '.join(words)}")
        return word
