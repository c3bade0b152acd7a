"""Figures of milliseconds on this machine: `make bench`, or `python -m tests.bench [NAME...]`.

    client       how far the client's times are from those of a server of known times
    freeze       what an open loop and a closed loop see of a server that stands still for 2 s
    starved      what a client says whose CPU is taken away
    gateway      what HAProxy adds to a first token, with and without http-no-delay
    waiting      how long threads wait for a CPU that they share, as the kernel counts it
    scale        what check.py and a b200.py without a change cost on 10 to 1,000 nodes in memory
    lab          check.py and b200.py, and ansible-core and plain pyinfra that hold the same states,
                 on 1, 2 and 4 live nodes of the lab (root; a quarter of an hour)
    side-by-side `b200 smoke` and `vllm bench serve` at one real vLLM in the lab (root; minutes)

They are reported, never judged: what else this machine does is in each of them. The exit status is
0 unless a program broke; what cannot be measured here says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from tests.bench import client, gateway, on_lab, scale, side_by_side
from tests.bench.figures import Missing

Program = Callable[[], None]
PROGRAMS: Mapping[str, Program] = {
    "client": client.exactness,
    "freeze": client.freeze,
    "starved": client.starved,
    "gateway": gateway.overhead,
    "waiting": gateway.waiting,
    "scale": scale.main,
    "lab": on_lab.main,
    "side-by-side": side_by_side.main,
}


def main(names: list[str]) -> int:
    """Run what is named, or all of it, one after another."""
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        print(f"no figures are called {unknown[0]!r}; there are: {', '.join(PROGRAMS)}")
        return 2
    for name in names or PROGRAMS:
        print(f"{name}", flush=True)
        try:
            PROGRAMS[name]()
        except Missing as reason:
            print(f"  not measured: {reason}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
