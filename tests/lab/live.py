"""Nodes that are live already: deployed once, saved, and started from their saved disks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.lab import snapshots
from tests.lab.lab import DEFAULT_SCENARIO, ROOT, run, say, up
from tests.lab.locks import locked
from tests.lab.paths import LabError, LabPaths, host_name, lab_paths
from tests.lab.services import prepare
from tests.lab.shell import Progress, timed

LABEL = "live"
ENGINE = "stand-in"
#: As many are deployed at once, even where fewer are asked for: some module wants the second.
AT_ONCE = 2
_WAIT_S = 1800
# Of a machine with two busy cores and three labs; a replica that failed is named long before.
_SERVING_S = 900
# Joins the jobs that the boot queued: the gate, the replicas with their warm-up, the gateway.
_UNITS = "systemctl list-units --all --plain --no-legend 'vllm@*' | cut -d' ' -f1"
_SERVING = f"""
systemctl start haproxy.service || exit 1
for unit in $({_UNITS}); do
  until systemctl is-active -q "$unit"; do sleep 0.1; done
done
"""
#: What a run keeps beyond its report, in the directory that each of these names.
KEPT = ("B200_STORE", "B200_EVIDENCE")


def up_live(n: int = 1, progress: Progress = say) -> dict[str, Any]:
    """Bring up ``n`` healthy nodes that serve, with the stand-in engine; returns ``lab.json``.

    Nodes of this lab that run are kept. The first call, of whatever lab, deploys and saves them;
    `LabError` with the run's last words if one does not get live.
    """
    lab, names = lab_paths(), [host_name(index) for index in range(1, n + 1)]
    prepare(lab, ENGINE, progress)
    with locked(lab.root / "live.lock", _WAIT_S, "another lab deploys live nodes"):
        if snapshots.missing(lab, LABEL, dict.fromkeys(names, DEFAULT_SCENARIO)):
            _make(lab, max(n, AT_ONCE), progress)
    state = up(n, [DEFAULT_SCENARIO], progress, ENGINE, LABEL)
    with timed(progress, f"live: waiting for {', '.join(names)} to serve"):
        wait_until_serving(names)
    return state


def _make(lab: LabPaths, n: int, progress: Progress) -> None:
    """Deploy and save what is not saved of the first ``n`` nodes, in one run."""
    wanted = {host_name(index): DEFAULT_SCENARIO for index in range(1, n + 1)}
    names = snapshots.missing(lab, LABEL, wanted)
    up(n, [DEFAULT_SCENARIO], progress, ENGINE, LABEL)
    with timed(progress, f"live: deploying {', '.join(names)}, once"):
        _deploy(lab, names)
    snapshots.save(names, LABEL)


def _deploy(lab: LabPaths, names: Sequence[str]) -> None:
    pyinfra = Path(sys.executable).with_name("pyinfra")
    limits = [word for name in names for word in ("--limit", name)]
    kept = {name: str(lab.own / name.lower()) for name in KEPT}
    done = subprocess.run(
        [pyinfra, "inventories/lab.py", "deploy/b200.py", "-y", *limits],
        cwd=ROOT, env=os.environ | kept, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=_WAIT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise LabError(f"the nodes to save did not get live: {done.stdout[-4000:]}{done.stderr}")


def wait_until_serving(names: Sequence[str]) -> None:
    """Return when nodes serve that booted from a live node's disk; `LabError` if one does not.

    They prove themselves as after any other boot: the gate passes, replicas get warm.
    """
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(_serve, names))


def _serve(name: str) -> None:
    line = ["timeout", str(_SERVING_S), "sh", "-c", _SERVING]
    if run(name, line, timeout=_SERVING_S + 10).returncode != 0:
        failed = run(name, ["systemctl", "list-units", "--failed", "--plain", "--no-legend"])
        raise LabError(
            f"{name} did not serve within {_SERVING_S} s of its boot: {failed.stdout.strip()}"
        )
