"""An inventory as a run reads it, in a process of its own; nothing is connected to.

Whoever imports pyinfra's command line has all of Python's threads and sockets replaced (gevent's
monkey patches).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from pydantic import TypeAdapter
from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.context import ctx_state

from b200kit.node.lib import documents
from b200kit.operations import inventory_text

_P = ParamSpec("_P")
_T = TypeVar("_T")
_REFUSED = "refused"


class InventoryRefused(Exception):
    """An inventory that cannot be used; one line a problem."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(lines)
        self.lines = tuple(dict.fromkeys(lines))

    def __str__(self) -> str:
        return self.lines[0]


def asked(reader: Callable[Concatenate[Path, _P], _T]) -> Callable[Concatenate[Path, _P], _T]:
    """What *reader* answers about the inventory at a path, by that process.

    Other arguments are values of JSON; the answer crosses as one, of the type that *reader*
    declares. Raises InventoryRefused, as *reader* may.
    """

    @wraps(reader)
    def ask(path: Path, /, *given: _P.args, **named: _P.kwargs) -> _T:
        if not path.is_file():
            raise InventoryRefused([f"{path} is no file"])
        with TemporaryDirectory() as folder:
            answer = Path(folder) / "answer"
            asked = json.dumps([str(answer), reader.__module__, reader.__name__, given, named])
            # What is beside an inventory is found by its path on the command line, as in a run.
            words = [sys.executable, "-m", __name__, str(path)]
            done = subprocess.run(words, check=False, input=asked, text=True)
            if (refused := answer.with_name(_REFUSED)).is_file():
                lines = documents.decode(list[str], refused.read_text(), documents.LARGE)
                raise InventoryRefused(lines)
            if not answer.is_file():
                raise InventoryRefused([f"{path} could not be read (exit code {done.returncode})"])
            found: _T = _answer(reader).validate_json(answer.read_bytes())
        return found

    return ask


def _answer(reader: Callable[..., object]) -> TypeAdapter[Any]:
    kind: Any = get_type_hints(reader)["return"]
    return TypeAdapter(kind)


def hosts(path: Path) -> list[Host]:
    """The nodes with their data, as pyinfra reads them. Raises InventoryRefused."""
    from pyinfra_cli.inventory import make_inventory  # type: ignore[import-untyped]

    if lines := [*inventory_text.unreadable(path)]:
        raise InventoryRefused(lines)
    try:
        with ctx_state.use(State()):
            return list(make_inventory(str(path)))
    except SystemExit as error:
        raise InventoryRefused([inventory_text.ended(path, error.code)]) from None
    except Exception as error:
        # The files are the user's programs; pyinfra wraps what they raise.
        cause = getattr(error, "exception", error)
        raise InventoryRefused([f"{path}: {type(cause).__name__}: {cause}"]) from None


def host(path: Path, name: str) -> Host:
    """The node of a name. Raises InventoryRefused."""
    for one in hosts(path):
        if one.name == name:
            return one
    raise InventoryRefused([f"{path}: there is no node {name}"])


def main() -> None:
    """Write what the function named on stdin answers, or why it refuses."""
    answer, module, name, given, named = documents.decode(list[Any], sys.stdin.read())
    reader = getattr(import_module(module), name).__wrapped__
    try:
        found = reader(Path(sys.argv[1]), *given, **named)
    except InventoryRefused as error:
        Path(answer).with_name(_REFUSED).write_text(json.dumps(error.lines))
    else:
        Path(answer).write_bytes(_answer(reader).dump_json(found))


if __name__ == "__main__":
    # Not the classes of __main__: whoever catches them knows those of the module.
    from b200kit.operations import inventory_process

    inventory_process.main()
