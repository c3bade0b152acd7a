"""Where files come from: base URLs over HTTP, asked for a file from a byte on.

Every trouble is a `SourceError` with one line that names the address; it says whether another try
at the same source can help, and whether the source as a whole is gone.
"""

from __future__ import annotations

import http.client
import queue
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")
_LENGTH = re.compile(r"[0-9]{1,18}")
# Answers that another try may change; every other one is the source's last word.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_CLOSED = (401, 403)
_PART, _MOVED, _BEYOND = 206, 308, 416
T = TypeVar("T")


class SourceError(Exception):
    """Why a source did not give a file; *again*: another try may, *gone*: it gives nothing."""

    def __init__(self, text: str, again: bool = False, gone: bool = False) -> None:
        super().__init__(text)
        self.again, self.gone = again, gone


@dataclass
class FileSource:
    """One base URL; the token, if any, is sent to its host alone, wherever it redirects to."""

    url: str
    token: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    # Why nothing more is asked of it in this run; set when it cannot be reached at all.
    gone: str = ""

    def open(self, path: str, offset: int = 0) -> FileAnswer:
        """What the source has of *path*, from *offset* on if it can do that, else whole."""
        url = f"{self.url.rstrip('/')}/{urllib.parse.quote(path)}"
        request = urllib.request.Request(url)  # noqa: S310 - the URL is the inventory's
        if offset:
            request.add_header("Range", f"bytes={offset}-")
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            reply = _opened(request, self.timeout)
        except urllib.error.HTTPError as error:
            text = f"{url}: HTTP {error.code} {error.reason}"
            if error.code in _CLOSED:
                text += (
                    ": the account of hf_token may not read it; has it accepted the model's terms?"
                    if self.token
                    else ": it wants a token: hf_token in the inventory"
                )
            if error.code == _BEYOND:
                text = f"{url}: it has no more than {offset} bytes"
            error.close()
            raise SourceError(text, again=error.code in _PASSING) from None
        except urllib.error.URLError as error:
            # A name that does not resolve, a port that refuses: nothing else of it will do better.
            raise SourceError(f"{url}: {error.reason}", again=True, gone=True) from None
        except (OSError, http.client.HTTPException) as error:
            raise SourceError(f"{url}: {_plain(error, self.timeout)}", again=True) from None
        return FileAnswer(url, reply, *_extent(reply, offset), timeout=self.timeout)


@dataclass
class FileAnswer:
    """An open answer: the bytes of a file from *offset* on; *size* of the whole file if known."""

    url: str
    reply: Any
    offset: int
    size: int | None
    timeout: float

    def read(self, most: int) -> bytes:
        """The next bytes, b"" at the end, however it came; SourceError when they stop coming."""
        try:
            # read() would wait for all of it, and a trickle would look like work.
            got: bytes = self.reply.read1(most)
        except http.client.IncompleteRead as error:
            got = error.partial
        except (OSError, http.client.HTTPException) as error:
            raise SourceError(f"{self.url}: {_plain(error, self.timeout)}", again=True) from None
        return got

    def close(self) -> None:
        """Leave the connection."""
        self.reply.close()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """The token goes along to another path of the same origin, and never to another host.

    The Hub sends those who ask for a small file to a path of its own, which needs the token, and
    those who ask for a large one to a store elsewhere, which must not have it.
    """

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The request that follows; Python 3.10 does not know 308."""
        known = 307 if code == _MOVED else code
        follows = super().redirect_request(req, fp, known, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if follows and token and _origin(newurl) == _origin(req.full_url):
            follows.add_unredirected_header("Authorization", token)
        return follows

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


_OPENER = urllib.request.build_opener(_Redirects)


def _opened(request: urllib.request.Request, timeout: float) -> Any:
    """The reply, its headers read; OSError where all of that takes twice as long as *timeout*.

    The limit of a socket is between two bytes: one a second would be waited for for ever.
    """
    most = 2 * timeout
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    late = threading.Event()

    def ask() -> None:
        try:
            reply = _OPENER.open(request, timeout=timeout)
        except Exception as error:
            done.put(error)
            return
        done.put(reply)
        if late.is_set():
            reply.close()

    threading.Thread(target=ask, daemon=True).start()
    try:
        found = done.get(timeout=most)
    except queue.Empty:
        late.set()
        raise OSError(f"no whole answer in {most:g} s") from None
    if isinstance(found, Exception):
        raise found
    return found


def _extent(reply: Any, offset: int) -> tuple[int, int | None]:
    """From which byte on the answer is, and how large the whole file is."""
    found = _RANGE.fullmatch(reply.headers.get("Content-Range", ""))
    if reply.status == _PART and found and int(found[1]) == offset:
        return offset, None if found[3] == "*" else int(found[3])
    if reply.status == _PART:
        raise SourceError(f"{reply.url}: it answered with another part than asked for")
    length = reply.headers.get("Content-Length", "")
    return 0, int(length) if _LENGTH.fullmatch(length) else None


def _plain(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError | socket.timeout):
        return f"no byte in {timeout:g} s"
    return str(error) or type(error).__name__


def sources(
    store: str | None, peers: list[str], token_file: Path | None, timeout: float
) -> list[FileSource]:
    """Peers first, then the store; only the store gets the token."""
    token = token_file.read_text().strip() if token_file else None
    found = [FileSource(url, timeout=timeout) for url in peers]
    return [*found, FileSource(store, token, timeout)] if store else found


def insist(ask: Callable[[], T], tries: int, pause_s: float) -> T:
    """What *ask* returns; it is asked again, each time later, while that may help."""
    for number in range(tries):
        try:
            return ask()
        except SourceError as error:
            if not error.again or number + 1 == tries:
                raise
            time.sleep(pause_s * 2**number)
    raise ValueError("tries must be 1 or more")
