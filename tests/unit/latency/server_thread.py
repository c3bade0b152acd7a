"""The stand-in engine in a thread of the test process: a server with known answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

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
    loop = asyncio.new_event_loop()
    engine = Engine(MODEL, max_num_seqs, knobs or fast())
    keys = frozenset([key] if key else [])
    server = Server(ChatService(engine, MODEL, model_len), "root", keys)
    ready = threading.Event()
    ports: list[int] = []

    async def start() -> None:
        ports.append(await server.serve("127.0.0.1", 0))
        ready.set()

    def work() -> None:
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(server.drain(0))
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(20)
    try:
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
