"""What the virtual machine's inventory data has other than the containers'."""

from __future__ import annotations

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
        "warm_deadline_s": 600 if stand_in else 2400,
        "stage_timeout_s": 900 if stand_in else 3600,
        "console": host["console"],
    }


def _repositories(mirror: dict[str, Any]) -> list[dict[str, Any]]:
    """The vendor's stand-in, and Debian with compiler and kernel headers."""
    urls = {"vendor": f"{mirror['url']}/apt/vendor/", "debian": repository_url(mirror["url"])}
    shared = {"key": mirror["apt_key"], "fingerprint": mirror["apt_fingerprint"]}
    return [{"name": name, "url": url, **shared} for name, url in urls.items()]
