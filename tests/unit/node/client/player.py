"""A server that plays scores: the bytes to send and when, as the request itself asks for.

A score is a list of steps `[seconds after the request arrived, text or act]`; the acts are "end"
(FIN), "reset" (RST) and {"freeze": seconds}, in which the whole server does nothing at all, not
even accept. A request with several "scores" gets the next one in turn. It knows no model, no tokens
and no SSE: what it sends is in the test. It notes on the machine's monotonic clock, which the
client reads, too, when it took each request and when it sent each step, and `GET /log` tells. One
thread, select() (microseconds, where epoll has milliseconds), real-time priority on a CPU of its
own where it may; its own wait for a CPU is in the log.

    python -m tests.unit.node.client.player [--cpu N] [--address A]

prints its port, and ends with its stdin.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from b200kit.node.client import client_health

Step = tuple[float, Any]


@dataclass
class Play:
    """One request under way: its score, and when what happened."""

    connection: socket.socket
    data: bytes = b""
    name: str = ""
    steps: list[Step] = field(default_factory=list)
    taken: float = 0.0
    sent: list[float] = field(default_factory=list)

    def request(self) -> tuple[str, bytes] | None:
        """First line and body, once all is there."""
        head, end, body = self.data.partition(b"\r\n\r\n")
        if not end:
            return None
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next((int(x[15:]) for x in lines if x.startswith("content-length:")), 0)
        return (lines[0], body) if len(body) >= length else None

    def act(self, step: Step) -> None:
        """Do one step now."""
        self.sent.append(time.perf_counter())
        what = step[1]
        if isinstance(what, dict):
            time.sleep(what["freeze"])
        elif what == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif what != "end":
            self.connection.sendall(what.encode())


class Player:
    """The one loop."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.reading: dict[socket.socket, Play] = {}
        self.due: list[tuple[float, int, Play, int]] = []
        self.plays: list[Play] = []
        self.counter = itertools.count()
        self.delay = client_health.read_run_delay_ms() or 0.0

    def run(self) -> None:
        """Play until stdin ends."""
        while True:
            wait = max(0.0, self.due[0][0] - time.perf_counter()) if self.due else None
            ready, _, _ = select.select([sys.stdin, self.listener, *self.reading], [], [], wait)
            if sys.stdin in ready:
                return
            if self.listener in ready:
                self.accept()
            for play in [self.reading[one] for one in ready if one in self.reading]:
                self.read(play)
            while self.due and self.due[0][0] <= time.perf_counter():
                _, _, play, index = heapq.heappop(self.due)
                self.step(play, index)

    def accept(self) -> None:
        """Take one connection."""
        connection, _ = self.listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reading[connection] = Play(connection)

    def read(self, play: Play) -> None:
        """Take more of a request; when it is whole, its score is on the heap."""
        play.data += (got := play.connection.recv(1 << 16))
        request = play.request()
        if request is None:
            if not got:
                self.close(play)
            return
        del self.reading[play.connection]
        play.taken = time.perf_counter()
        if request[0].startswith("get /log"):
            play.steps = [(0.0, whole(200, self.log())), (0.0, "end")]
        elif not request[0].startswith("post /v1/"):
            play.steps = [(0.0, whole(404, "")), (0.0, "end")]
        else:
            asked = json.loads(request[1])
            scores = asked.get("scores") or [asked["score"]]
            score = scores[len(self.plays) % len(scores)]
            play.name, play.steps = score["name"], score["steps"]
            self.plays.append(play)
        self.schedule(play, 0)

    def schedule(self, play: Play, index: int) -> None:
        """A step is due at a set time after the request, however late those before it were."""
        if index < len(play.steps):
            at = play.taken + play.steps[index][0]
            heapq.heappush(self.due, (at, next(self.counter), play, index))

    def step(self, play: Play, index: int) -> None:
        """Do a step, and put the next one on the heap."""
        try:
            play.act(play.steps[index])
        except OSError:
            self.close(play)
            return
        if play.steps[index][1] in ("end", "reset"):
            self.close(play)
        self.schedule(play, index + 1)

    def close(self, play: Play) -> None:
        """End a connection."""
        self.reading.pop(play.connection, None)
        play.connection.close()

    def log(self) -> str:
        """What happened so far, and how the server itself fared."""
        plays = [{"name": p.name, "taken": p.taken, "sent": p.sent} for p in self.plays]
        late = [
            at - play.taken - step[0]
            for play in self.plays
            for at, step in zip(play.sent, play.steps, strict=False)
        ]
        waited = (client_health.read_run_delay_ms() or 0.0) - self.delay
        return json.dumps({"plays": plays, "late": late, "run_delay_ms": waited})


def whole(status: int, body: str) -> str:
    """An answer that comes at once."""
    kind = f"content-type: application/json\r\ncontent-length: {len(body)}"
    return f"HTTP/1.1 {status} -\r\n{kind}\r\nconnection: close\r\n\r\n{body}"


def main() -> None:
    """Open a port, print it, play."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--address", default="127.0.0.1")
    options = parser.parse_args()
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
        client_health.claim_realtime()
    listener = socket.create_server((options.address, 0), backlog=512)
    print(listener.getsockname()[1], flush=True)
    Player(listener).run()


if __name__ == "__main__":
    main()
