"""vllm-router, where the node has one: which replicas it may choose.

Its own health check is slow to notice, and it knows nothing of what HAProxy set aside, so whoever
sets a replica aside informs it, too. Facts of 0.1.17 (tried 2026-11-21): removing twice is 200,
adding twice 400 ("already exists"), adding one that does not answer waits for minutes.
"""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from b200kit.node.lib import documents

CONFIG = Path("/etc/b200kit/router.json")
ANSWER_WITHIN_S = 5.0


class RouterError(Exception):
    """The router did not take it; the text is one line."""


def tell(name: str, usable: bool, config: Path = CONFIG) -> None:
    """Add or remove the replica that HAProxy calls *name*. Raises RouterError.

    A router that is not there is no error: HAProxy does without, and it asks when it starts.
    """
    try:
        document = documents.read(config)
        worker = document["workers"].get(name)
    except FileNotFoundError:
        return
    except (ValueError, KeyError, AttributeError) as error:
        raise RouterError(f"{config}: {error}") from error
    if worker:
        path = f"/{'add' if usable else 'remove'}_worker?{urlencode({'url': worker})}"
        _ask(str(document["url"]), path)


def _ask(url: str, path: str) -> None:
    line = HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_WITHIN_S)
    try:
        line.request("POST", path)
        answer = line.getresponse()
        output = answer.read(300).decode("utf-8", "replace")
    except ConnectionError:
        return
    except (OSError, HTTPException) as error:
        raise RouterError(f"vllm-router at {url}: {error or type(error).__name__}") from error
    finally:
        line.close()
    if answer.status != 200 and "already exists" not in output:
        raise RouterError(f"vllm-router at {url}: {' '.join(output.split())[:200]}")
