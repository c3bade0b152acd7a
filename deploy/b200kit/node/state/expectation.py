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
     "weights": {"root", "model", "revision", "serving": whether it must be there},
     "precision": {"model", "revision", "engine", "lowered": ["nvfp4 weights"],
                   "limits": {"kl_nats", "flips"}, "compared": {"kl_nats": [least, found, most],
                   "flips": the same} | "doubt": why there is no comparison},
     "placement": {"vllm@0.service": {"by": "systemd" | "engine", "cpus": "0-55", "nodes": "0",
                                      "policy": "bind" | "local",
                                      "gpus": ["GPU-...", ...]}},
     "serving": {"replicas": ["vllm@0.service"], "gateway": "haproxy.service"},
     "watchdog": {"unit": "b200-watchdog.service", "replicas": ["vllm@0.service"]},
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

from b200kit.node.state.view import Missing, Unmeasured, View

SCHEMA = "b200kit/expect/1"
PATH = "/etc/b200kit/expect.json"
"""Where it is on a node."""
# What floats hold exactly; larger is a slip of the pen, and no sum or list is made of it.
_MOST = 2**53
T = TypeVar("T")


class Unexpected(Exception):
    """An expectation a check needs is not there; the text says which."""


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

    def hardware(self, name: str, kind: type = int) -> Expected:
        """One expectation by its dotted name; raises Unexpected when it is missing or no `kind`."""
        entry = self.at("hardware", "expect", name)
        value = entry.get(kind, "value")
        if isinstance(value, Unmeasured):
            raise Unexpected(f"hardware data: {name}: {value.reason}")
        if isinstance(value, int) and abs(value) > _MOST:
            raise Unexpected(f"hardware data: {name}: no such quantity is that large")
        where = self.at("hardware", "name").raw()
        source = entry.text("source") or "no source given"
        return Expected(value, entry.text("unit") or "", f"hardware/{where}.yaml: {source}")

    def words(self, name: str) -> Expected:
        """One expectation that is a list of names; raises Unexpected when it is anything else."""
        expected = self.hardware(name, list)
        if not all(isinstance(word, str) for word in expected.value):
            raise Unexpected(f"hardware data: {name}: it must be a list of texts")
        return expected

    def gpu_count(self) -> int:
        """How many GPUs the node must have."""
        count = self.number("gpu_count")
        if isinstance(count, Unmeasured) or count < 1:
            raise Unexpected(f"gpu_count: {getattr(count, 'reason', 'must be at least 1')}")
        return count

    def driver_version(self) -> str | None:
        """The driver version asked for; None when any one version will do."""
        if self.is_null("driver"):
            return None
        version = self.text("driver", "version")
        if isinstance(version, Unmeasured):
            raise Unexpected(f"driver: {version.reason}")
        return version

    def driver_packages(self) -> dict[str, str]:
        """Package name to version for the set that must move in lockstep; {} when none is asked."""
        if self.is_null("driver"):
            return {}
        packages = self.get(dict, "driver", "packages")
        if isinstance(packages, Unmeasured):
            raise Unexpected(f"driver packages: {packages.reason}")
        return {str(name): str(version) for name, version in packages.items()}

    def left_out(self) -> dict[str, str]:
        """Members of the set that the node does without, and why; older documents have none."""
        left_out = self.get(dict, "driver", "left_out")
        if isinstance(left_out, Missing) or self.is_null("driver"):
            return {}
        if isinstance(left_out, Unmeasured):
            raise Unexpected(f"driver packages left out: {left_out.reason}")
        return {str(name): str(why) for name, why in left_out.items()}

    def services(self) -> list[str]:
        """Units that must be active besides those the hardware needs."""
        services = self.get(list, "services")
        if isinstance(services, Unmeasured):
            raise Unexpected(f"services: {services.reason}")
        return [str(name) for name in services]

    def clock_judged(self) -> bool:
        """Whether the clock must be synchronized; an inventory may say it is another's business."""
        judged = self.flag("clock_synchronized")
        if isinstance(judged, Missing):
            return True
        if isinstance(judged, Unmeasured):
            raise Unexpected(f"clock_synchronized: {judged.reason}")
        return judged

    def settings(self) -> View:
        """The settings asked for, by name; an older document has none."""
        view = self.at("settings")
        requested = view.get(dict)
        if isinstance(requested, Missing):
            return View({}, "settings")
        if isinstance(requested, Unmeasured) or not all(
            isinstance(e, dict) for e in requested.values()
        ):
            raise Unexpected(f"settings: {getattr(requested, 'reason', 'each must be an object')}")
        return view

    def acs_judged(self) -> bool:
        """Whether bridges may redirect peers: unless the inventory does not manage ACS."""
        return isinstance(self.at("settings").raw(), Missing) or "acs" in (
            self.settings().names() or []
        )

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
        runtimes = self.get(list, "container_runtimes")
        if isinstance(runtimes, Missing):
            return []
        if isinstance(runtimes, Unmeasured):
            raise Unexpected(f"container_runtimes: {runtimes.reason}")
        return [str(name) for name in runtimes]

    def requested(self, key: str, kind: type[T]) -> T | None:
        """What is asked under a key; None where the document has no such key, or null there."""
        value = self.get(kind, key)
        if isinstance(value, Missing) or self.is_null(key):
            return None
        if isinstance(value, Unmeasured):
            raise Unexpected(f"{key}: {value.reason}")
        return value

    def choice(self, key: str, words: tuple[str, ...]) -> str:
        """One of a few words, the first where the document does not have the key."""
        word = self.text(key)
        if isinstance(word, Missing):
            return words[0]
        if isinstance(word, Unmeasured) or word not in words:
            why = word.reason if isinstance(word, Unmeasured) else f"{word!r} is not known"
            raise Unexpected(f"{key}: {why}; it must be one of {', '.join(words)}")
        return word
