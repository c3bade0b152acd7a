#!/usr/bin/python3 -I
"""Sends an event on stdin to an address. It runs on the node, where you put it:

    events = {"command": ["/usr/bin/python3", "-I", "/usr/local/bin/b200-webhook", FILE]}

FILE is root's alone (0600), as its address may be what lets one in: a line `url https://...`, and
where they are needed `key WORD` (sent as Authorization: Bearer) and `ca_file PATH`. Exit 0 when the
address answered 2xx; else 1 with one line, in which neither the key nor the address's path is.
"""

import http.client
import ssl
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """An event goes to the address that was given, and to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


def send(file: str, event: bytes) -> str:
    """Why it was not taken, or ""."""
    with open(file, encoding="utf-8") as lines:
        known = dict(line.split(None, 1) for line in lines if line.strip())
    url = known["url"].strip()
    if urlsplit(url).scheme != "https":
        return "the address is not https"
    headers = {"Content-Type": "application/json"}
    if "key" in known:
        headers["Authorization"] = f"Bearer {known['key'].strip()}"
    trust = ssl.create_default_context(cafile=known.get("ca_file", "").strip() or None)
    way = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trust), NoRedirect)
    try:
        with way.open(urllib.request.Request(url, event, headers), timeout=30) as answer:
            return "" if 200 <= answer.status < 300 else f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        # What it answered is in the text of an HTTPException, and goes to no journal.
        return f"{urlsplit(url).hostname}: {getattr(error, 'reason', type(error).__name__)}"


try:
    problem = send(sys.argv[1], sys.stdin.buffer.read())
except (OSError, KeyError, IndexError, ValueError) as error:
    problem = f"{sys.argv[1:]}: {type(error).__name__}"
if problem:
    sys.exit(f"webhook: {problem}")
