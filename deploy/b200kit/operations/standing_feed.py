"""What the nodes of an inventory answer, kept as it comes, by a process of its own.

The nodes are asked by b200kit/operations/standings.py; here is the last answer of each. A node that
falls silent is not read any more: its last answer says nothing about now.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from threading import Condition, Thread
from typing import IO, Any

from b200kit.node.lib import documents
from b200kit.report.content.now.node import NodeAnswer

CONNECT_S, ANSWER_S = 15, 20
"""What a node has to let us in, and to answer."""
FIRST_S = CONNECT_S + 2 * ANSWER_S
_SILENT_S = CONNECT_S + 3 * ANSWER_S
"""What a node may take at most, the node program carried there included."""
_LAST_WORDS_S = 2.0


class NotFollowed(Exception):
    """Why the nodes are not asked, one line a problem."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class Feed:
    """Ask every *every_s*, or once for 0, while the block lasts."""

    def __init__(self, inventory: Path, every_s: float) -> None:
        self.every_s = every_s
        self._words = [sys.executable, "-m", "b200kit.operations.standings"]
        self._words += [str(inventory), f"{every_s:g}"]
        self._known: dict[str, NodeAnswer] = {}
        self._refused: list[str] = []
        self._changed = Condition()
        self._ended = False

    def __enter__(self) -> Feed:
        self._errors = TemporaryFile()
        # A session of its own: Ctrl-C is ours, and the process ends with the block.
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._reader = Thread(target=self._follow, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        # Where Ctrl-C came between the taking of the lock and its block, nobody gives it back and
        # the reader would wait for ever; its last words are needed by nobody.
        self._reader.join(_LAST_WORDS_S)
        if self._reader.is_alive():
            # Nor can its pipe be closed under it; both end with this process.
            self._process.wait()
            return
        with self._process, self._errors:
            """Their pipes and files are closed."""

    def first(self, limit_s: float) -> None:
        """Wait for an answer of every node, so long at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._all_answered(), limit_s)

    def wait(self, seconds: float) -> None:
        """Wait until the next round, or until the nodes are not asked any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, seconds)

    def known(self, now: float) -> dict[str, NodeAnswer]:
        """Every node of the inventory, in its order, at *now*. Raises NotFollowed."""
        with self._changed:
            found, refused, ended = dict(self._known), list(self._refused), self._ended
        if refused or (ended and (self.every_s or not found)):
            raise NotFollowed(refused or [self._why_ended()])
        return {name: aged(one, now, self.every_s + _SILENT_S) for name, one in found.items()}

    def _all_answered(self) -> bool:
        answered = (one.why or one.read_at is not None for one in self._known.values())
        return bool(self._known) and all(answered)

    def _follow(self, answers: IO[bytes]) -> None:
        for line in answers:
            # Its last line may be cut off where that process was killed.
            with suppress(documents.Malformed, KeyError):
                answer = documents.decode(documents.Object, line, documents.LARGE)
                with self._changed:
                    self._take(answer, time.time())
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, line: dict[str, Any], now: float) -> None:
        if "refused" in line:
            self._refused = line["refused"]
        elif "nodes" in line:
            self._known = {n: NodeAnswer(since=now, **of) for n, of in line["nodes"].items()}
        else:
            name = line["node"]
            self._known[name] = answered(self._known[name], line, now)

    def _why_ended(self) -> str:
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"the nodes are not asked any more: {(said or ['no reason was given'])[-1]}"


def answered(known: NodeAnswer, line: dict[str, Any], now: float) -> NodeAnswer:
    """What is known of a node after one more answer."""
    if "standing" in line:
        return replace(known, standing=line["standing"], read_at=now, why="")
    return replace(known, why=str(line.get("why")) or "no reason was given")


def aged(known: NodeAnswer, now: float, most_s: float) -> NodeAnswer:
    """The same, not read where its last word is too old."""
    if not known.why and known.read_at is not None and now - known.read_at > most_s:
        return replace(known, why="it has not answered since")
    return known
