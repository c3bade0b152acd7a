"""How NCCL really sent between nodes, by its own log. Pure.

Of `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH`, all ranks' logs together. NCCL falls back to
TCP without an error while every adapter is there (cluster-readiness-engine, #434), so what it
connected is read, not what it found. A log that does not come to "Init COMPLETE" says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from b200kit.node.state.verdict import Action, Finding, Status

CHECK = "network.transport"
SOURCE = "NCCL's log: src/transport/net.cc, src/transport/net_ib"
_found = partial(Finding, source=SOURCE, check=CHECK)
# NET/gIB is Google's build of the same plug-in.
_USING = re.compile(r"NET/(?:g?IB) : Using ((?:\[[0-9]+\][^ ]+ ?)+)")
_ADAPTER = re.compile(r"\[[0-9]+\]([^:\s]+):[0-9]+/(?:RoCE|IB)\b")
_CHANNEL = re.compile(r"(Channel [0-9/]+ : \S+ -> \S+) \[(?:send|receive)\] via NET/(\S+)")
_VERSION = re.compile(r"NCCL version ([0-9][0-9a-z.+]*)")
_SOCKET = re.compile(r"NET/Socket : Using|Using network Socket|via NET/Socket")
_INIT = re.compile(r"\bcomm 0x[0-9a-f]+ rank [0-9]+ nranks [0-9]+ .*Init (START|COMPLETE)")


def findings(log: str, rails: int) -> Iterator[Finding]:
    """What the log of a run over several nodes shows, with *rails* adapters declared a node."""
    init = _INIT.findall(log)
    version = _VERSION.search(log)
    if "COMPLETE" not in init or init.count("START") > init.count("COMPLETE"):
        ended = f"{init.count('COMPLETE')} of {init.count('START')} ranks came up"
        yield _found(f"the log is not complete: {ended}", Status.UNMEASURED)
        return
    if version is None:
        yield _found("the log does not name NCCL's version", Status.UNMEASURED)
        return
    yield from _channels(log, version[1])
    yield from _adapters(log, rails)


def _channels(log: str, version: str) -> Iterator[Finding]:
    channels = _CHANNEL.findall(log)
    if socket := _SOCKET.search(log):
        summary = "NCCL sent over TCP, 5 to 20 times slower: its plug-in or the adapters failed"
        yield _found(summary, Status.FAIL, read=socket[0], action=Action.REBOOT)
    elif not channels:
        summary = "no channel between nodes is in the log: was it one node's?"
        yield _found(summary, Status.UNMEASURED)
    elif staged := [name for name, via in channels if not via.endswith("/GDRDMA")]:
        summary = f"{len(staged)} of {len(channels)} channels go through host memory"
        yield _found(summary, Status.FAIL, read=staged[0], action=Action.REBOOT)
    else:
        summary = f"NCCL {version}: {len(channels)} channels between nodes, all by GPUDirect RDMA"
        yield _found(summary, Status.PASS)


def _adapters(log: str, rails: int) -> Iterator[Finding]:
    used = [len(set(_ADAPTER.findall(names))) for names in _USING.findall(log)]
    if not used:
        yield _found("the log names no adapter", Status.UNMEASURED)
    elif wrong := [count for count in used if count != rails]:
        summary = f"NCCL uses {wrong[0]} adapters, not the {rails} rails"
        yield _found(summary, Status.FAIL, action=Action.MONITOR)
    else:
        yield _found(f"NCCL uses all {rails} rails", Status.PASS)
