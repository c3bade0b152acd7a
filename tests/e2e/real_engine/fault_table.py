"""Faults that begin while real vLLM serves under load: found when, who is out, what is lost, back.

Run by hand, on a machine that does nothing else (an hour); it prints a table:

    .venv/bin/pytest -s tests/e2e/real_engine/fault_table.py

The looks and their rules are the defaults (every 10 s, two of three confirm, three clear). What a
fault must take out is asserted; how long it took is printed. The lab shares the clock of this
machine: a step of it is made in what the node remembers of it. A slow replica is recognized among
four only: one_of_four.py has its row.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.node.client.percentiles import percentile
from tests.bench.golden_faults import HOOK as SOURCE
from tests.e2e.conftest import SHORT_SMOKE
from tests.e2e.driving import Outcome, cursor, deploy, on, wait_for_boot
from tests.e2e.tools.harm import FULL_VAR, ROOM_IN_VAR, on_every_cpu, on_its_cpus
from tests.e2e.tools.watching import Watched

NODE = Watched("b200-1")
STREAMS, TOKENS = 4, 40
BLOCKS, BLOCK_S = 5, 60
"""With the looks and without, in turn."""
RULES = {
    "interval_s": 5,
    "deadline_s": 30,
    "stall_s": 600,
    "health_check_s": 10,
    "health_check_deadline_s": 45,
}
DATA = ("--data", f"watchdog={json.dumps(RULES)}", *SHORT_SMOKE)
MANAGER = "nvidia-fabricmanager.service"
HOOK, CONTROL = "/opt/faulty", "/run/faults"
FOLDER = "/run/systemd/system/vllm@.service.d"
FILE = "/var/lib/b200kit/agent/agent.json"


@dataclass(frozen=True)
class Fault:
    """One row. *gpu*: whose replica must go out; None: all of them; -1: none."""

    name: str
    gpu: int | None
    begin: Callable[[], object]
    end: Callable[[], object]
    # Streams that end with what was hurt: those on a process that was killed, say.
    may_lose: bool = False
    # Whether only a reboot ends it, as an Xid in the kernel's log: then that is what it takes.
    lasts: bool = False
    streams: int = STREAMS


def injected(name: str, gpu: int | None, scenario: str) -> Fault:
    """A fault of the simulated hardware."""
    return Fault(
        name, gpu, lambda: lab.inject(NODE.name, scenario), lambda: lab.inject(NODE.name, "healthy")
    )


def act(name: str, gpu: int | None, begin: str, end: str, *, may_lose: bool = False) -> Fault:
    """Something that is done on the node, and undone."""
    return Fault(name, gpu, lambda: on(NODE.name, begin), lambda: on(NODE.name, end), may_lose)


HARDWARE = [
    injected("17 of 18 NVLinks (GPU 3)", 3, "seventeen-links"),
    injected("no NVLink (GPU 2)", 2, "gpu2-no-nvlink"),
    injected("NVLink at half speed (GPU 3)", 3, "one-slow-link"),
    injected("fabric unhealthy (GPU 5)", 5, "fabric-unhealthy"),
    injected("fabric without success (GPU 5)", 5, "fabric-not-success"),
    injected("driver asks for a reset (GPU 2)", 2, "gpu-asks-for-reset"),
    injected("row remap pending (GPU 6)", 6, "row-remap-pending"),
    injected("thermal slowdown (GPU 4)", 4, "thermal-slowdown"),
    # A setting: reported, and in no list of what takes a replica out.
    injected("MIG on (GPU 7)", -1, "mig-on"),
    injected("two GPUs of two replicas without P2P", -1, "one-pair-no-p2p"),
    injected("NVML hangs (GPU 5)", -1, "nvml-hangs"),
    injected("another VBIOS (GPU 5)", -1, "mixed-vbios"),
]
WRONG = {
    "kind": "weights", "layer": "model.layers.1.mlp.down_proj", "mask": 0x548, "offset": 5,
    "period": 64,
}  # fmt: skip
"""Of one element in 64 of a matrix, 4 of its 16 bits."""
REPLICA = "vllm@0.service"


def clock(seconds: int) -> str:
    """A shell line: the clock was put forward by so much since the last proof."""
    step = f"d['proof']['clock']['epoch_s'] -= {seconds}; json.dump(d, open(p, 'w'))"
    read = f"import json; p = '{FILE}'; d = json.load(open(p))"
    return f'systemctl stop b200-agent; python3 -c "{read}; {step}"; systemctl start b200-agent'


ACTS = [
    act("placement lost (replica 0)", 0, on_every_cpu(REPLICA), on_its_cpus(REPLICA)),
    act("/var is full", -1, FULL_VAR, ROOM_IN_VAR),
    act("clock put forward by an hour", -1, clock(3600), clock(-3600)),
    act("fabric manager dead", None, f"systemctl stop {MANAGER}", f"systemctl start {MANAGER}"),
    act(
        "HAProxy killed", -1, "systemctl kill -s KILL haproxy", "true", may_lose=True
    ),
    act(
        "engine killed (replica 0)", 0, "systemctl kill -s KILL vllm@0", "true", may_lose=True
    ),
    act(
        "engine restarted by hand (replica 1)",
        7, "systemctl restart --no-block vllm@1", "true", may_lose=True,
    ),
    act(
        "engine hangs (replica 0)",
        0, "systemctl kill -s STOP vllm@0", "systemctl kill -s CONT vllm@0 || true", may_lose=True,
    ),
]  # fmt: skip
XIDS = {
    "application": (31, -1, "pid=4242, name=python3, MMU Fault"),
    "reset": (48, 0, "pid=4242, An uncorrectable double bit error (DBE) has been detected"),
    "reboot": (79, 5, "GPU has fallen off the bus."),
}


READINGS = {
    "GPU lost (GPU 6)": (6, "lost: true"),
    "ECC, an uncorrected error (GPU 1)": (1, "ecc: {volatile_uncorrected: 1}"),
    "clocks drop without heat (GPU 4)": (4, "clocks: {sm_mhz: 1005}, clocks_event_reasons: 0x8"),
}


def written(folder: Path, name: str, gpu: int, lines: str) -> Fault:
    """A fault of the simulated hardware that no scenario of the lab has."""
    path = folder / "fault.yaml"
    path.write_text(
        "description: a fault while it serves\nsource: made up from healthy\nextends: healthy\n"
        f"{lines}\n"
    )
    return injected(name, gpu, str(path))


def xid(folder: Path, kind: str) -> Fault:
    """A line of the kernel's log, which stays until the next boot."""
    code, gpu, text = XIDS[kind]
    place = max(gpu, 0)
    line = f"xids:\n  - {{gpu: {place}, code: {code}, text: '{text}'}}"
    return replace(written(folder, f"Xid {code} ({kind}, GPU {place})", gpu, line), lasts=True)


def wrong_answers() -> Fault:
    """A replica whose weights are not those of the file any more; the file is sound.

    It is asked a golden prompt while it is idle: one stream leaves one of two replicas so.
    """
    model = on(NODE.name, "sed -n 's/^model: //p' /etc/vllm/replica-0.yaml").strip('"')
    asked = json.dumps({**WRONG, "weights": f"{model}/model.safetensors"})
    begin, end = f"echo '{asked}' > {CONTROL}/0.fault", f"rm {CONTROL}/0.fault"
    return replace(act("wrong answers (replica 0)", 0, begin, end), streams=1)


@pytest.fixture(scope="module")
def serving(real: Outcome) -> Iterator[None]:
    """The demo's node with real vLLM, whose replicas can be made slow or wrong; streams on it."""
    for name in ("sitecustomize.py", "delays.py"):
        source = (SOURCE / name).read_text(encoding="utf-8")
        put = f"mkdir -p {HOOK}; cat > {HOOK}/{name} <<'END'\n{source}\nEND"
        lab.run(NODE.name, ["sh", "-c", put])
    words = f"PYTHONPATH={HOOK} STEP_DELAY={CONTROL}/%%i.delay GOLDEN_FAULT={CONTROL}/%%i.fault"
    line = f"[Service]\\nEnvironment={words}\\n"
    on(NODE.name, f"mkdir -p {CONTROL} {FOLDER}; printf '{line}' > {FOLDER}/faulty.conf")
    on(NODE.name, "systemctl daemon-reload; systemctl restart vllm@0 vllm@1")
    done = deploy("b200.py", *DATA)
    assert done.code == 0, done.said[-4000:]
    NODE.load(STREAMS, TOKENS)
    yield
    NODE.stop_load()
    on(NODE.name, f"rm -r {FOLDER} {HOOK} {CONTROL}; systemctl daemon-reload")


ROWS: list[str] = []
REFUSED = ("HTTP 503", os.strerror(errno.ECONNREFUSED))
"""What a request is answered with that never began: no replica is left, or no gateway."""


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """Printed at the end, whatever failed."""
    yield
    head = (
        "| fault | out | after s | back after s | streams lost | refused | what the journal said |"
    )
    print("\n".join(["", head, "|---|---|---|---|---|---|---|", *ROWS]))


def row(fault: Fault) -> None:
    """Make the fault, wait for what must be out, end it, wait until all are back."""
    expected = set() if fault.gpu == -1 else NODE.concerned(fault.gpu)
    if fault.streams != STREAMS:
        streams_since(time.time(), fault.streams)
    here, began, found, back = cursor(NODE.name), time.time(), 0.0, 0.0
    fault.begin()
    try:
        if expected:
            found = NODE.until(lambda: NODE.out() == expected, 300)
        else:
            NODE.wait_for_looks(3)
            assert NODE.out() == set()
    finally:
        fault.end()
    if not fault.lasts:
        back = NODE.until(lambda: NODE.out() == set(), 600)
    said = NODE.said(here)
    failed = [str(s["error"]) for s in streams_since(began) if s["error"]]
    lost = [error for error in failed if not any(word in error for word in REFUSED)]
    if fault.lasts:
        back = rebooted()
    words = next((line for line in said.splitlines() if "confirmed: " in line), "")
    words = words or next(iter(said.splitlines()), "nothing")
    who = ", ".join(map(str, sorted(expected))) or "nobody"
    took = f"{found:.1f}" if expected else "-"
    words = words.partition(" -> ")[0]
    streams = f"{len(lost)} | {len(failed) - len(lost)}"
    ROWS.append(f"| {fault.name} | {who} | {took} | {back:.1f} | {streams} | {words} |")
    print(ROWS[-1], *sorted({*lost}), sep="\n", flush=True)
    assert fault.may_lose or lost == []


def rebooted() -> float:
    """Seconds until all serve again after a reboot, by clients that then go on."""
    NODE.stop_load()
    before, began = on(NODE.name, "cat /proc/sys/kernel/random/boot_id"), time.monotonic()
    on(NODE.name, "systemctl reboot --no-block")
    wait_for_boot(NODE.name, before)
    NODE.until(lambda: NODE.out() == set(), 900)
    took = time.monotonic() - began
    NODE.load(STREAMS, TOKENS)
    return took


def streams_since(began: float, streams: int = STREAMS) -> list[dict[str, Any]]:
    """What the clients saw since then; so many go on afterwards."""
    found = [s for s in NODE.stop_load() if s["ended"] >= began]
    NODE.load(streams, TOKENS)
    return found


@pytest.mark.parametrize("fault", [*HARDWARE, *ACTS], ids=lambda fault: fault.name)
def test_what_a_fault_touches_is_out_until_it_is_over(serving: None, fault: Fault) -> None:
    row(fault)


@pytest.mark.parametrize("name", READINGS)
def test_reading_takes_its_replica_out(serving: None, tmp_path: Path, name: str) -> None:
    gpu, reading = READINGS[name]
    row(written(tmp_path, name, gpu, f"gpus:\n  {gpu}: {{{reading}}}"))


def test_replica_that_answers_otherwise_is_out(serving: None) -> None:
    row(wrong_answers())


def test_what_the_looks_cost_the_tail(serving: None) -> None:
    streams_since(time.time())
    spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for looks in (True, False) * BLOCKS:
        on(NODE.name, f"systemctl {'start' if looks else 'stop'} b200-agent")
        began = time.time()
        time.sleep(BLOCK_S)
        spans[looks].append((began, time.time()))
    on(NODE.name, "systemctl start b200-agent")
    seen = streams_since(spans[True][0][0])
    for looks, those in spans.items():
        whole = [s for s in seen if any(a <= s["sent"] and s["ended"] < b for a, b in those)]
        ttft = percentile([s["ttft"] for s in whole], 99)
        itl = percentile([(s["ended"] - s["sent"] - s["ttft"]) / (TOKENS - 1) for s in whole], 99)
        print(
            f"looks {'on' if looks else 'off'}: n={len(whole)} P99 TTFT {ttft * 1000:.0f} ms, "
            f"TPOT {itl * 1000:.1f} ms"
        )
    shown = "systemctl show -P CPUUsageNSec -P MemoryCurrent b200-agent"
    before = [int(word) for word in on(NODE.name, shown).split()]
    NODE.wait_for_looks(12)
    used = (int(on(NODE.name, shown).split()[0]) - before[0]) / 12e9
    share = used / RULES["health_check_s"]
    print(f"a check took {used:.3f} s of a CPU: {share:.1%}; {before[1] >> 20} MiB")


@pytest.mark.parametrize("kind", XIDS)
def test_xid_takes_out_by_its_class(serving: None, tmp_path: Path, kind: str) -> None:
    row(xid(tmp_path, kind))
