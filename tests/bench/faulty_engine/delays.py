"""Delays steps of one vLLM, as asked by the JSON file $STEP_DELAY; without it, nothing.

{"each_s": before every step, "stall_s": besides, before a step that begins the "every"-th request}

The file may change while the engine serves. Requests are counted from its last change on.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

PATH = os.environ.get("STEP_DELAY", "")


class Delay:
    """What is asked for now, and the requests that have begun since."""

    def __init__(self) -> None:
        self.stamp: object = None
        self.asked: dict[str, Any] = {}
        self.begun = 0

    def refresh(self) -> None:
        """Read the file where it is another one."""
        try:
            found = os.stat(PATH)
            stamp = (found.st_mtime_ns, found.st_ino)
        except OSError:
            stamp, self.asked = None, {}
        if stamp is not None and stamp != self.stamp:
            with open(PATH, encoding="utf-8") as file:
                self.asked = json.load(file)
            self.begun = 0
        self.stamp = stamp

    def before(self, begins: int) -> float:
        """Seconds to wait before a step in which so many requests begin."""
        self.refresh()
        every = self.asked.get("every", 0)
        stalls = every and (self.begun + begins) // every > self.begun // every
        self.begun += begins
        return float(self.asked.get("each_s", 0) + (self.asked["stall_s"] if stalls else 0))


def patch(module: Any) -> None:
    """Let the worker of vLLM wait before it computes a step."""
    delay, sound = Delay(), module.Worker.execute_model

    def execute_model(self: Any, scheduled: Any, *more: Any, **named: Any) -> Any:
        if scheduled.total_num_scheduled_tokens:
            time.sleep(delay.before(len(scheduled.scheduled_new_reqs)))
        return sound(self, scheduled, *more, **named)

    module.Worker.execute_model = execute_model
