"""An HTTP/1.1 answer as bytes: its head, its body as it was meant, and where it ends. No I/O.

RFC 9112, 6.3: a body ends with its last chunk, after so many bytes as were announced, or with the
connection. `Dechunker` undoes chunked transfer coding (RFC 9112, 7.1), `SseSplitter` cuts
server-sent events (WHATWG HTML, 9.2); both take bytes as they come, cut anywhere.
"""

from __future__ import annotations

import re
import zlib

from b200kit.node.lib.readings import is_digits

_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
"""int() takes a sign, a prefix and underscores, too."""
MAX_BODY = 64 << 20
"""Bytes of an answer, packed or not, that are read: the peer may be anybody."""
_MAX_HEAD = 64 << 10
_LAST_CHUNK = re.compile(rb"\r\n0+\r\n(?:[!-9;-~]+:[^\r\n]*\r\n)*\r\n\Z")
_MOST_TRAILERS = 1024
# Heads before that of the answer, such as "103 Early Hints" (RFC 9110, 15.2); 101 is an answer.
_INTERIM = re.compile(rb"(?:HTTP/1\.[0-9] 1(?!01)[0-9][0-9][^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n)*")
_COMPRESSED = ("gzip", "x-gzip", "deflate")
_DIGITS = 19
"""Of a number that somebody means."""
_ANY_HEADER = 47
"""zlib's window, with a header of gzip or of zlib."""


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


class HttpError(Exception):
    """The exchange could not be made or its answer is not HTTP; the text is one clear line."""


def too_large() -> str:
    """What is said of an answer that is not read to its end."""
    return f"the answer is larger than {MAX_BODY >> 20} MiB"


Fields = dict[str, str]
"""Header fields, names in lower case."""


def parse_head(data: bytes) -> tuple[int, Fields, int]:
    """Status, fields and length of a response's head. Raises HttpError when it is not one."""
    begin, end = _head_in(data)
    if end < 0:
        raise HttpError("the connection closed before an answer came")
    first, *rest = data[begin:end].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    # More of what somebody else says is not repeated: it may be our own request, with a key.
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not _is_number(words[1]):
        raise HttpError(f"not an HTTP answer: it begins with {first[:4]!r}")
    pairs = (line.partition(":") for line in rest)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return int(words[1]), fields, end + 4


def _head_in(data: bytes) -> tuple[int, int]:
    """Where the answer's own head begins and ends; -1 where its end has not come."""
    interim = _INTERIM.match(data)
    begin = interim.end() if interim else 0
    return begin, data.find(b"\r\n\r\n", begin)


def _is_number(text: str) -> bool:
    return is_digits(text) and len(text) <= _DIGITS


class Body:
    """Feed it what comes after the head; it returns the content, and knows when it is whole."""

    def __init__(self, fields: Fields) -> None:
        """Raises HttpError for no length, and for a coding that nobody asked for."""
        chunked = "chunked" in fields.get("transfer-encoding", "").lower()
        length = fields.get("content-length", "")
        coding = fields.get("content-encoding", "identity").lower()
        if coding not in (*_COMPRESSED, "identity", ""):
            raise HttpError(f"the answer is compressed ({coding[:4]}), which nobody asked for")
        self._chunks = Dechunker() if chunked else None
        if not chunked and length and not _is_number(length):
            raise HttpError(f"the answer is {length[:20]!r} bytes long")
        self._left = int(length) if length and not chunked else None
        self._packed = zlib.decompressobj(_ANY_HEADER) if coding in _COMPRESSED else None
        self._room = MAX_BODY

    def feed(self, data: bytes) -> bytes:
        """The content that has become available. Raises HttpError for what is none."""
        if self._left is not None:
            self._left -= len(data)
        try:
            plain = self._chunks.feed(data) if self._chunks else data
            return self._unpacked(plain) if self._packed else plain
        except (ValueError, zlib.error):
            raise HttpError("the answer's coding is broken") from None

    def _unpacked(self, plain: bytes) -> bytes:
        """A few bytes may unpack to a thousand times as many: no more than an answer may have."""
        assert self._packed  # noqa: S101 - feed() saw to it
        content = self._packed.decompress(plain, self._room + 1)
        self._room -= len(content)
        if self._room < 0:
            raise HttpError(too_large())
        return content

    @property
    def is_chunked(self) -> bool:
        """Whether it comes in chunks, of which the last one says so."""
        return self._chunks is not None

    @property
    def ended(self) -> bool:
        """Whether the message says that nothing more comes."""
        if self._chunks:
            return self._chunks.finished
        return self._left is not None and self._left <= 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing, now that nothing more came."""
        framed = self.ended if self._chunks or self._left is not None else True
        return framed and (self._packed is None or self._packed.eof)


class Ending:
    """Feed it an answer from its first byte on; `reached` once nothing more is to come.

    A glance at the last bytes says so of chunks, in 1 us a piece, where reading each takes 2.5
    and h11 15; what was cut off shows when the whole is read.
    """

    def __init__(self) -> None:
        self.reached = False
        self._head = b""
        self._body: Body | None = None
        self._tail = b"\r\n"

    def feed(self, data: bytes) -> None:
        """Look at one piece. Raises HttpError for what is no answer."""
        if self._body is None:
            self._head += data
            if _head_in(self._head)[1] < 0:
                if len(self._head) > _MAX_HEAD:
                    raise HttpError(
                        f"no HTTP answer: {len(self._head)} bytes, and no end of a head"
                    )
                return
            _, fields, length = parse_head(self._head)
            # Where it ends is a matter of its frame alone.
            self._body = Body({**fields, "content-encoding": "identity"})
            data = self._head[length:]
        if self._body.is_chunked:
            self._tail = (self._tail + data)[-_MOST_TRAILERS:]
            if self._tail.endswith(b"\r\n\r\n"):
                self.reached = _LAST_CHUNK.search(self._tail) is not None
        else:
            self._body.feed(data)
            self.reached = self._body.ended
