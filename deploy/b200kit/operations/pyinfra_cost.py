"""What pyinfra (3.10) computes again for each host and operation, computed once or more cheaply.

For the order of operations it has `inspect` describe the whole stack, with a search of all modules
for the file of each frame; for the global arguments it evaluates the annotations of their class.
With 29 operations that was 22 of 235 ms of CPU a node (a profile of 100 nodes in memory). The
answers are pyinfra's own, which tests/unit/operations/test_pyinfra_cost.py compares.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from importlib import import_module
from types import FrameType

import pyinfra
from pyinfra.api import arguments
from pyinfra.api.state import State
from pyinfra.api.util import PYINFRA_INSTALL_DIR

# Of that name pyinfra.api has a function, too.
_operation = import_module("pyinfra.api.operation")


@cache
def lower() -> None:
    """Put what is below in the place of pyinfra's own.

    What was imported by now stays, so the collector of cycles need not walk it again and again.
    """
    gc.freeze()
    vars(_operation)["get_operation_order_from_stack"] = order_of_operation
    vars(arguments)["all_global_arguments"] = _global_arguments


_global_arguments = cache(arguments.all_global_arguments)


def order_of_operation(state: State) -> list[int | None]:
    """Line numbers of the stack from the entry file on, without pyinfra's own frames.

    pyinfra sorts operations by them, so that all hosts run them in the order of the file.
    """
    stack: list[tuple[str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        stack.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    stack.reverse()
    names = [name for name, _ in stack]
    file = state.current_deploy_filename
    first = 0 if not file else names.index(file) if file in names else len(names)
    lines: list[int | None] = [state.current_op_file_number] if pyinfra.is_cli else []
    return lines + [
        line for name, line in stack[first:] if not name.startswith(PYINFRA_INSTALL_DIR)
    ]
