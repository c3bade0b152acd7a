"""What stands in for pyinfra's own answers is what pyinfra would have answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyinfra
import pytest
from pyinfra.api import arguments, util

from b200kit.operations import pyinfra_cost


@pytest.mark.parametrize("file", [__file__, "of/no/frame.py", None])
@pytest.mark.parametrize("cli", [True, False])
def test_order_of_operations_is_pyinfras(
    file: str | None, cli: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyinfra, "is_cli", cli)
    state: Any = SimpleNamespace(current_deploy_filename=file, current_op_file_number=3)
    orders = (util.get_operation_order_from_stack, pyinfra_cost.order_of_operation)
    both = [order(state) for order in orders]
    assert both[0] == both[1]
    assert len(both[0]) > 1 or file != __file__


def test_places_are_those_that_pyinfra_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyinfra_cost._operation, "get_operation_order_from_stack", None)
    monkeypatch.setattr(arguments, "all_global_arguments", None)
    pyinfra_cost.lower.__wrapped__()
    assert pyinfra_cost._operation.get_operation_order_from_stack is pyinfra_cost.order_of_operation
    assert dict(arguments.all_global_arguments()) == dict(pyinfra_cost._global_arguments())
    assert "_sudo" in dict(arguments.all_global_arguments())
