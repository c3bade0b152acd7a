"""An inventory as a run reads it, in a process of its own; nothing is connected to.

Whoever imports pyinfra's command line has all of Python's threads and sockets replaced (gevent's
monkey patches).
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.context import ctx_state

_T = TypeVar("_T")


class InventoryRefused(Exception):
    """An inventory that cannot be used; one line a problem."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(lines)
        self.lines = tuple(dict.fromkeys(lines))

    def __str__(self) -> str:
        return self.lines[0]


def ask(reader: Callable[..., _T], path: Path, *arguments: object) -> _T:
    """What *reader*, a function of a module, answers about the inventory at *path*.

    Raises InventoryRefused, as *reader* may.
    """
    if not path.is_file():
        raise InventoryRefused([f"{path} is no file"])
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        asked = pickle.dumps((str(answer), reader.__module__, reader.__name__, path, arguments))
        # What is beside an inventory is found by its path on the command line, as in a run.
        words = [sys.executable, "-m", __name__, str(path)]
        done = subprocess.run(words, check=False, input=asked)
        if not answer.is_file():
            raise InventoryRefused([f"{path} could not be read (exit code {done.returncode})"])
        found: _T | InventoryRefused = pickle.loads(answer.read_bytes())  # noqa: S301 - by main()
    if isinstance(found, InventoryRefused):
        raise found
    return found


def hosts(path: Path) -> list[Host]:
    """The nodes with their data, as pyinfra reads them. Raises InventoryRefused."""
    from pyinfra_cli.inventory import make_inventory  # type: ignore[import-untyped]

    try:
        with ctx_state.use(State()):
            return list(make_inventory(str(path)))
    except Exception as error:
        # The files are the user's programs.
        raise InventoryRefused([f"{path}: {type(error).__name__}: {error}"]) from None


def host(path: Path, name: str) -> Host:
    """The node of a name. Raises InventoryRefused."""
    for one in hosts(path):
        if one.name == name:
            return one
    raise InventoryRefused([f"{path}: there is no node {name}"])


def main() -> None:
    """Write what the function named on stdin answers, or why it refuses."""
    # Written by ask(), above.
    answer, module, name, path, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301
    found: Any
    try:
        found = getattr(import_module(module), name)(path, *arguments)
    except InventoryRefused as error:
        found = error
    Path(answer).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    # Not the classes of __main__: whoever reads them knows those of the module.
    from b200kit.operations import inventory_process

    inventory_process.main()
