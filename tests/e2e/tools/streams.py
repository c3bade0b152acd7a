"""Runs on a node: a constant number of streams through its gateway until a file appears.

    python3 streams.py NODE_PROGRAM SERVING_JSON STREAMS TOKENS RESULT

Each stream is followed by the next at once. Ends when RESULT.stop is there; then RESULT has a JSON
list of {"sent", "ended" (seconds since the epoch), "ttft" (seconds), "error", "tokens"}, one entry
a stream. The client is the node program's own, so an answer counts as whole only if a user would
say so.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path


def main(program: str, config: str, streams: str, tokens: str, result: str) -> None:
    """Load until stopped."""
    sys.path.insert(0, program)
    from b200kit.node.client import client_health
    from b200kit.node.client.chat import ChatRequest, chat
    from b200kit.node.client.serving_config import load

    serving, out = load(Path(config)), Path(result)
    endpoint = serving.endpoint(serving.gateway)
    found: list[dict[str, object]] = []

    def put(path: Path, text: str) -> None:
        # Whoever reads it meanwhile sees the one or the other, never half.
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)

    async def one(number: int) -> None:
        count = 0
        while not out.with_suffix(".stop").exists():
            count += 1
            prompt = f"tell me about {number} and {count}"
            request = ChatRequest(serving.model, prompt, int(tokens), salt=f"{number}-{count}")
            sent = time.time()
            record = (await chat(endpoint, request)).record()
            first = record.chunks[0].at - record.sent if record.chunks else None
            entry = {"sent": sent, "ended": time.time(), "ttft": first, "error": record.error}
            found.append({**entry, "tokens": record.completion_tokens})
            put(out.with_suffix(".count"), str(len(found)))
            if record.error:
                await asyncio.sleep(0.05)

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number) for number in range(int(streams))))

    client_health.claim_realtime()
    asyncio.run(all_of_them())
    put(out, json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
