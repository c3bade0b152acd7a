"""The console script `vllm` of the stand-in: `vllm serve [MODEL] [--config FILE] ...`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

from . import ENGINE_VERSION, processes
from .chat import ChatService
from .engine import Engine
from .knobs import Knobs
from .options import OptionError, parse
from .server import Server


def main() -> int:
    """Run `vllm` with the arguments of the command line; exit status as a shell sees it."""
    args = sys.argv[1:]
    if args == ["--version"]:
        print(ENGINE_VERSION)
        return 0
    if not args or args[0] != "serve":
        print("usage: vllm serve [MODEL] [--config FILE] [options]", file=sys.stderr)
        return 2
    try:
        options, knobs = parse(args[1:]), Knobs.of(os.environ)
    except (OptionError, ValueError) as error:
        print(f"vllm serve: error: {error}", file=sys.stderr)
        return 2
    try:
        return asyncio.run(_serve(options, knobs, processes.start()))
    except OSError as error:
        print(f"vllm serve: {error}", file=sys.stderr)
        return 1


async def _serve(options: argparse.Namespace, knobs: Knobs, core: int) -> int:
    """Serve until SIGTERM or SIGINT, then drain for --shutdown-timeout seconds.

    Without its core it ends at once, and with it all that is under way.
    """
    root = options.model_tag or options.model or "stand-in"
    name = options.served_model_name or root
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    dead = asyncio.Event()

    def core_ended() -> None:
        loop.remove_reader(core)
        dead.set()
        stop.set()

    loop.add_reader(core, core_ended)
    if await _passed(stop, knobs.start_delay):
        return 0
    engine = Engine(name, options.max_num_seqs, knobs)
    keys = [*options.api_key, os.environ.get("VLLM_API_KEY", "")]
    service = ChatService(engine, name, options.max_model_len)
    server = Server(service, root, frozenset(filter(None, keys)))
    loop.add_signal_handler(signal.SIGUSR2, engine.hang)
    host = options.host or "0.0.0.0"
    port = await server.serve(host, options.port)
    print(f"stand-in engine, no model: serving {name} on http://{host}:{port}", file=sys.stderr)
    if knobs.exit_after is not None and not await _passed(stop, knobs.exit_after):
        return 1
    await stop.wait()
    await server.drain(0 if dead.is_set() else options.shutdown_timeout)
    return 0


async def _passed(stop: asyncio.Event, seconds: float) -> bool:
    """Whether the event came within `seconds`."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except asyncio.TimeoutError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
