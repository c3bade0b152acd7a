"""Takes a CPU away: real-time above any client, 90 of every 120 ms, and ends by itself.

python -m tests.bench.hog CPU SECONDS
"""

from __future__ import annotations

import os
import sys
import time


def main() -> None:
    """Burn; the kernel's other tasks on that CPU get the pauses."""
    os.sched_setaffinity(0, {int(sys.argv[1])})
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    print("on", flush=True)
    end = time.monotonic() + float(sys.argv[2])
    while (now := time.monotonic()) < end:
        while time.monotonic() < now + 0.090:
            pass
        time.sleep(0.030)


if __name__ == "__main__":
    main()
