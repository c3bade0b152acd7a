"""One pyinfra process over an entry file: its progress is drawn, its chatter kept aside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO

import click

from b200kit.cli.command import INTERRUPTED, Refusal
from b200kit.node.lib.documents import Object, decode
from b200kit.operations import inventory_text
from b200kit.report.terminal.progress import LiveProgress, PlainProgress
from b200kit.run import console, places, remote

NO_RUN = 1
_PYINFRA = ("-m", "pyinfra")
_STEP = "-->"
"""What pyinfra's lines about itself begin with."""


@dataclass(frozen=True)
class EntryRun:
    """What is run over what."""

    inventory: Path
    entry: str
    nodes: Sequence[str] = ()
    verbose: bool = False
    as_json: bool = False
    password: str | None = None
    data: Sequence[str] = ()

    def go(self, *, dry: bool = False) -> int:
        """Run it; returns the exit code, which is the printed one."""
        if unreadable := next(inventory_text.unreadable(self.inventory), ""):
            raise Refusal(f"{unreadable}. Nothing was changed.", NO_RUN)
        reading, writing = os.pipe()
        with TemporaryFile() as chatter, self._progress() as progress:
            process = subprocess.Popen(
                self._words(dry), env=self._environment(writing), pass_fds=(writing,),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=None if self.verbose else chatter, text=True, errors="replace",
            )  # fmt: skip
            os.close(writing)
            # The block of the process waits for it, however reading its progress ends.
            with _left_to(process), process:
                result: list[str] = []
                reader = Thread(target=lambda: result.append(_all(process.stdout)), daemon=True)
                reader.start()
                with open(reading, encoding="utf-8", errors="replace") as messages:
                    for line in messages:
                        progress.hear(decode(Object, line))
                code = process.wait()
                reader.join()
            progress.stop()
            console.out(*result[0].splitlines(), colour=True)
            if not result[0] and not progress.spoke:
                # A code of the inventory's own could be that of a run that went well.
                interrupted = code in (INTERRUPTED, -signal.SIGINT)
                raise Refusal(self._why(chatter, code), INTERRUPTED if interrupted else NO_RUN)
        return code

    def _progress(self) -> PlainProgress:
        drawn = sys.stderr.isatty() and not self.verbose and os.environ.get("TERM") != "dumb"
        return LiveProgress() if drawn else PlainProgress()

    def _words(self, dry: bool) -> list[str]:
        limits = [word for node in self.nodes for word in ("--limit", node)]
        end = "--dry" if dry else "-y"
        entry = places.ENTRIES / self.entry
        data = [word for one in self.data for word in ("--data", one)]
        return [sys.executable, *_PYINFRA, str(self.inventory), str(entry), end, *limits, *data]

    def _environment(self, pipe: int) -> dict[str, str]:
        own = {console.FRONT: str(pipe), console.WIDTH: str(console.width())}
        if console.coloured():
            own["FORCE_COLOR"] = "1"
        if self.as_json:
            own[console.JSON] = "1"
        if (password := self.password or remote.given_password) is not None:
            own[remote.SUDO_PASSWORD] = password
        return {**os.environ, **own, "PYINFRA_PROGRESS": "off"}

    def _why(self, chatter: IO[bytes], code: int) -> str:
        """The last that pyinfra said, where no line of ours was printed."""
        chatter.seek(0)
        said = chatter.read().decode("utf-8", "replace")
        lines = [line for line in map(str.strip, click.unstyle(said).splitlines()) if line]
        place = next((line for line in reversed(lines) if str(self.inventory.parent) in line), "")
        last = [line for line in lines[-1:] if not line.startswith(_STEP)]
        silent = inventory_text.ended(self.inventory, code)
        return "; ".join(dict.fromkeys([*([place] if place else []), *last])) or silent


def _all(stream: IO[str] | None) -> str:
    return stream.read() if stream else ""


@contextmanager
def _left_to(process: subprocess.Popen[str]) -> Iterator[None]:
    """Leave signals to the run: a terminal sends Ctrl-C to both, any other sender to us alone."""

    def hand_on(number: int, frame: object) -> None:
        del frame
        process.send_signal(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, hand_on),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
