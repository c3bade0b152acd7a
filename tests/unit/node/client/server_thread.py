"""The stand-in engine in a thread of the test process: a server with known answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from queue import Queue

from tests.lab.standin.chat import ChatService
from tests.lab.standin.engine import Engine
from tests.lab.standin.knobs import Knobs
from tests.lab.standin.server import Server

MODEL = "tiny"


def fast(fault: str = "", fault_at: int = 0) -> Knobs:
    """Knobs for tests: no waiting beyond a few milliseconds."""
    return Knobs(0.0, 0.004, 0.001, 0.02, 1, None, fault, fault_at)


@contextlib.contextmanager
def running(
    knobs: Knobs | None = None, key: str = "", max_num_seqs: int = 8, model_len: int = 4096
) -> Iterator[str]:
    """The base URL of a stand-in server that runs until the block ends."""
    engine = Engine(MODEL, max_num_seqs, knobs or fast())
    keys = frozenset([key] if key else [])
    server = Server(ChatService(engine, MODEL, model_len), "root", keys)
    started: Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Queue()

    async def serve() -> None:
        stop = asyncio.Event()
        port = await server.serve("127.0.0.1", 0)
        started.put((asyncio.get_running_loop(), stop, port))
        await stop.wait()
        await server.drain(0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop, stop, port = started.get(timeout=300)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(300)
        assert not thread.is_alive()
