"""Incremental decoders for what a streaming answer is made of. No I/O.

`Dechunker` undoes HTTP/1.1 chunked transfer coding (RFC 9112, 7.1), `SseSplitter` cuts
server-sent events (WHATWG HTML, 9.2). Both take bytes as they come, cut anywhere.
"""

from __future__ import annotations

import re

_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
"""int() takes a sign, a prefix and underscores, too."""


class Dechunker:
    """Feed it the coded body; it returns the content. `finished` after last chunk and trailers."""

    def __init__(self) -> None:
        self.finished = False
        self._trailers = False
        self._buffer = b""
        self._left = 0
        self._tail = False

    def feed(self, data: bytes) -> bytes:
        """The content that has become available. Raises ValueError on a broken chunk size."""
        self._buffer += data
        out = []
        while self._buffer and not self.finished:
            if self._left:
                piece, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
                self._left -= len(piece)
                self._tail = self._left == 0
                out.append(piece)
            elif not (self._trailer() if self._trailers else self._size_line()):
                break
        return b"".join(out)

    def _trailer(self) -> bool:
        """Read a line after the last chunk, of which an empty one ends the body."""
        line, found, rest = self._buffer.partition(b"\r\n")
        if not found:
            return False
        self._buffer = rest
        self.finished = not line
        return True

    def _size_line(self) -> bool:
        """Read the line before a chunk; False when it is not complete yet."""
        skip = 2 if self._tail else 0
        end = self._buffer.find(b"\r\n", skip)
        if end < 0:
            return False
        size = self._buffer[skip:end].split(b";")[0].strip()
        if not _SIZE.fullmatch(size):
            raise ValueError(f"a chunk of size {size[:20]!r}")
        self._left = int(size, 16)
        self._buffer = self._buffer[end + 2 :]
        self._tail = False
        self._trailers = self._left == 0
        return True


class SseSplitter:
    """Feed it the event stream; it returns the `data` of each event that has become complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[str]:
        """Complete events' data, in order; comments and other fields are skipped."""
        # only \n ends a line: str.splitlines would also cut at U+2028, legal inside JSON
        *lines, self._rest = (self._rest + data).split(b"\n")
        events = []
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            if line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
            elif not line and self._data:
                events.append("\n".join(self._data))
                self._data = []
        return events
