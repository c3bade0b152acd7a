"""What the virtual machine's inventory data has other than the containers'."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from tests.lab.vm.packages import repository_url

# An emulated processor measures no latency. So that the smoke test can tell the client's time from
# the server's at all, tokens come slowly and few requests are under way at once.
PACE = {"STANDIN_TTFT_MS": "60", "STANDIN_ITL_MS": "15"}
SMOKE = {
    "requests": 5,
    "rate": 2.0,
    "input_tokens": 16,
    "output_tokens": 8,
    "ttft_ms": 10_000.0,
    "tpot_ms": 5_000.0,
    "loop_lag_ms": 200.0,
    "direct_requests": 5,
    "replica_slowdown": None,
    "stall_ms": 60_000.0,
    "share": 0.75,
    "golden_tokens": 4,
    "golden_tolerance": 0.032,
}
# Real vLLM makes a token in about a second there: few short requests, one after the other, and a
# watchdog that gives them time.
VLLM = {
    "max_model_len": 512,
    "max_num_seqs": 2,
    "max_num_batched_tokens": 512,
    "smoke": SMOKE | {"rate": 0.1},
    "watchdog": {"interval_s": 60.0, "deadline_s": 300.0, "stall_s": 600.0},
    "warm_deadline_s": 2400,
    "stage_timeout_s": 3600,
}

# Without the flag by which a processor says that it is emulated, Debian's kernels hung in QEMU as
# soon as there was much to do (seen 2026-11-24).
_METAL = {
    "owner": "the lab",
    "reason": "a virtual machine plays one of metal, with fabric manager and NVSwitches within it",
    "until": f"{date.today() + timedelta(days=30)}",
}


def data(inventory: dict[str, Any], lab: dict[str, Any], host: dict[str, Any]) -> dict[str, Any]:
    """The lab's data with packages of its own, real NUMA nodes, and patience."""
    engine, stand_in = inventory["engine"], bool(lab["engine"]["stand_in"])
    return inventory | {
        "repositories": _repositories(lab["mirror"]),
        "engine": engine | {"environment": engine["environment"] | (PACE if stand_in else {})},
        "smoke": SMOKE,
        "numa_policy": "bind",
        "settings": {},
        "reboot_deadline_s": 300,
        "fabric_deadline_s": 120,
        "warm_deadline_s": 600,
        "stage_timeout_s": 900,
        "console": host["console"],
        "waivers": [{"check": check, **_METAL} for check in ("identity.machine", "ready.machine")],
        **({} if stand_in else VLLM),
    }


def _repositories(mirror: dict[str, Any]) -> list[dict[str, Any]]:
    """The vendor's stand-in, and Debian with compiler and kernel headers."""
    urls = {"vendor": f"{mirror['url']}/apt/vendor/", "debian": repository_url(mirror["url"])}
    shared = {"key": mirror["apt_key"], "fingerprint": mirror["apt_fingerprint"]}
    return [{"name": name, "url": url, **shared} for name, url in urls.items()]
