"""Traffic between two nodes by perftest: this node's end of it.

    node.pyz acceptance-pair serve|ask|end <<< '{"flows": [{"port": 18515, "hca": "mlx5_0", ...}]}'

`serve` starts a server for each flow and returns once it listens, which the kernel says: a probe of
its port would spend the one connection that it takes. A server ends by itself when its time is up,
whoever started it, and takes its rule of our firewall with it. `ask` runs the clients of a wave
side by side, each near its adapter, and prints what they measured. `end` says how the servers
ended. Each prints `{"results": [...]}`, one object a flow. What perftest prints is judged here only
for whether it is whole.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.facts.nft_rules import TABLE
from b200kit.node.lib import documents, hard_timeout
from b200kit.node.lib.readings import absent, attempt, command, is_digits, is_unmeasured
from b200kit.node.state.acceptance import Outcome

FOLDER = Path("/run/b200kit/acceptance-pair")
BRINGS = "apt-get install perftest"
MESSAGE_BYTES, QUEUES = 65_536, 16
LATENCY_BYTES, LATENCY_TIMES = 8, 10_000
MARGIN_S = 2
"""Seconds at either end of a transfer that do not count (perftest's own): adapters wake up."""
START_S, GRACE_S = 10.0, 20.0
_LISTEN = "0A"
# Runs in a session of its own, in the flow's folder: $1 seconds, $2 handle of a rule or nothing.
_SERVER = f"""limit=$1; handle=$2; shift 2
timeout -k 5 "$limit" "$@" >out 2>&1 & echo $! >pid
wait $!; echo $? >exit.new; mv exit.new exit
test -z "$handle" || nft delete rule inet {TABLE} input handle "$handle"
"""
_HANDLE = re.compile(r"# handle ([0-9]+)")
_RESULTS = re.compile(r'"?results"?: \{\n(.*?)\n\}', re.DOTALL)
# Debian's 4.5 writes the keys without quotes, later ones with them.
_FIGURE = re.compile(r'^\s*"?([A-Za-z_0-9.]+)"?: ([0-9.]+),?$', re.MULTILINE)
_PRIORITY = re.compile(r"^\s*([rt]x_prio[0-7]_bytes): ([0-9]+)$", re.MULTILINE)
_HARDWARE = re.compile(r"Completion with error|Failed status [0-9]+|transport retry")
_MEMORY = re.compile(r"Couldn't create CQ|Couldn't allocate MR")


@dataclass(frozen=True)
class FlowResult:
    """How one end of a flow ended: figures by perftest's own names, bytes by priority."""

    outcome: Outcome
    why: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    before: Mapping[str, int] | None = None
    after: Mapping[str, int] | None = None


Flow = Mapping[str, Any]


def main(args: list[str]) -> int:
    """The command; exit status 2 for another word."""
    acts: dict[str, Callable[[Flow], FlowResult]] = {"serve": serve, "ask": ask, "end": end}
    if len(args) != 1 or args[0] not in acts:
        print("usage: node.pyz acceptance-pair serve|ask|end, a request on stdin")
        return 2
    flows: Sequence[Flow] = documents.request()["flows"]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)

    def act(flow: Flow) -> FlowResult:
        tool = words(flow)[0]
        if shutil.which(tool) is None:
            return FlowResult("missing", f"{tool} is not installed ({BRINGS})")
        return acts[args[0]](flow)

    with ThreadPoolExecutor(len(flows) or 1) as pool:
        results = list(pool.map(act, flows))
    print(json.dumps({"results": [asdict(result) for result in results]}))
    return 0


def words(flow: Flow) -> list[str]:
    """The command line of either end: adapter and GID are named at both, or each takes another."""
    latency = flow["test"] == "lat"
    found = [f"ib_write_{'lat' if latency else 'bw'}", "-F", "-d", flow["hca"]]
    found += ["-i", str(flow["hca_port"]), "-p", str(flow["port"])]
    if flow.get("gid") is not None:
        found += ["-x", str(flow["gid"])]
    if flow.get("tclass") is not None:
        found += [f"--tclass={flow['tclass']}"]
    if latency:
        return [*found, "-s", str(LATENCY_BYTES), "-n", str(LATENCY_TIMES)]
    found += ["-s", str(MESSAGE_BYTES), "-q", str(QUEUES)]
    return [
        *found,
        "-D",
        str(flow["seconds"] + 2 * MARGIN_S),
        "-f",
        str(MARGIN_S),
        "--report_gbits",
    ]


def limit_s(seconds: float) -> float:
    """After how many seconds an end of a flow of so many hangs."""
    return seconds + 2 * MARGIN_S + GRACE_S


def serve(flow: Flow) -> FlowResult:
    """Start a server; "done" once it listens."""
    _stop(flow)
    folder = _folder(flow)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = priorities(flow)
    try:
        handle = _opened(flow)
    except OSError as error:
        return FlowResult("machinery", f"the firewall was not opened: {error}")
    # The client may come as late as its own start takes.
    limit = str(limit_s(flow["seconds"]) + START_S)
    shell = ["setsid", "--fork", "sh", "-c", _SERVER, "sh", limit, handle]
    nothing = subprocess.DEVNULL
    subprocess.run(
        [*shell, *_near(flow), *words(flow)],
        cwd=folder, stdin=nothing, stdout=nothing, stderr=nothing, check=True,
    )  # fmt: skip
    until = time.monotonic() + START_S
    while not listens(flow["port"]):
        if (folder / "exit").exists() or time.monotonic() > until:
            _stop(flow)
            return FlowResult("machinery", f"no server: {_said(folder)}")
        time.sleep(0.02)
    return FlowResult("done", before=before)


def listens(port: int, proc: Path = Path("/proc/net")) -> bool:
    """Whether somebody listens on a TCP port, as the kernel lists it."""
    tables = [(absent(proc / name) or "").splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for lines in tables for line in lines]
    return any(row[1].endswith(f":{port:04X}") and row[3] == _LISTEN for row in rows)


def ask(flow: Flow) -> FlowResult:
    """Run a client to its end, and read what it measured."""
    with tempfile.TemporaryDirectory(prefix="b200kit-pair-") as folder:
        report = Path(folder, "report")
        argv = [*_near(flow), *words(flow), flow["server"]]
        argv += ["--out_json", f"--out_json_file={report}"]
        try:
            done = hard_timeout.run(argv, limit_s(flow["seconds"]))
        except TimeoutError as error:
            return FlowResult("hung", str(error))
        except OSError as error:
            return FlowResult("machinery", str(error))
        said = (done.stdout + done.stderr).decode("utf-8", "replace")[-4096:]
        return judged(done.returncode, said, absent(report))


def judged(status: int, said: str, report: str | None) -> FlowResult:
    """How a client ended, by its exit status, its output and its report.

    An error of the transport is the network's; whatever else ends it says nothing of that.
    """
    if status and (found := _HARDWARE.search(said)):
        return FlowResult("failed", f"perftest: {found[0]}")
    if status:
        last = next(iter(reversed(said.strip().splitlines())), "it said nothing")
        memory = "; is the limit of locked memory too small?" if _MEMORY.search(said) else ""
        return FlowResult("machinery", f"perftest exited {status}: {last.strip()}{memory}")
    found = _RESULTS.search(report or "")
    figures = {name: float(value) for name, value in _FIGURE.findall(found[1] if found else "")}
    if not figures.keys() & {"BW_average", "t_typical"}:
        return FlowResult("machinery", "perftest exited 0, and its report is not whole")
    return FlowResult("done", figures=figures)


def end(flow: Flow) -> FlowResult:
    """How a server ended; one that has not is stopped."""
    folder = _folder(flow)
    _await_end(folder, 2)
    _stop(flow)
    after, status = priorities(flow), absent(folder / "exit")
    if status == "0":
        return FlowResult("done", after=after)
    return FlowResult("machinery", f"the server exited {status}: {_said(folder)}", after=after)


def _await_end(folder: Path, within_s: float) -> None:
    until = time.monotonic() + within_s
    while not (folder / "exit").exists() and time.monotonic() < until:
        time.sleep(0.02)


def _folder(flow: Flow) -> Path:
    return FOLDER / str(int(flow["port"]))


def _said(folder: Path) -> str:
    return (absent(folder / "out") or "")[-400:].rpartition("\n")[2]


def _stop(flow: Flow) -> None:
    """End a server's program; its shell then says how it ended, and takes the rule away."""
    folder = _folder(flow)
    pid = absent(folder / "pid")
    if pid is None or not is_digits(pid) or (folder / "exit").exists():
        return
    with suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGTERM)
    _await_end(folder, 8)  # timeout's own -k


def _near(flow: Flow) -> list[str]:
    """Words that keep a program to the CPUs near an adapter, where it has some."""
    device = Path("/sys/class/infiniband", flow["hca"], "device/local_cpulist")
    cpus = attempt(partial(absent, device))
    return ["taskset", "-c", cpus] if isinstance(cpus, str) and cpus else []


def _opened(flow: Flow) -> str:
    """Let the peer through our firewall: the rule's handle; "" where there is no such table."""
    try:
        command(["nft", "list", "table", "inet", TABLE])
    except OSError:
        return ""
    peer = ipaddress.ip_address(socket.getaddrinfo(flow["peer"], None)[0][4][0])
    source = ["ip" if peer.version == 4 else "ip6", "saddr", str(peer)]
    rule = [*source, "tcp", "dport", str(flow["port"]), "accept"]
    said = command(["nft", "-e", "-a", "insert", "rule", "inet", TABLE, "input", *rule])
    found = _HANDLE.search(said)
    if found is None:
        raise OSError("nft did not say the rule's handle")
    return found[1]


def priorities(flow: Flow) -> dict[str, int] | None:
    """Bytes by priority as the adapter counts them; None where it does not."""
    if not flow.get("interface"):
        return None
    said = attempt(lambda: command(["ethtool", "-S", flow["interface"]]))
    if is_unmeasured(said):
        return None
    return {name: int(value) for name, value in _PRIORITY.findall(said)} or None
