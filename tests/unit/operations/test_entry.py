"""What every entry file begins with."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from b200kit.operations.entry import spare_module_search


def test_modules_are_not_searched_for_an_entry_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b200.py").write_text("")
    looked: list[object] = []
    real = inspect.ismodule

    def noting(one: object) -> bool:
        looked.append(one)
        return real(one)

    monkeypatch.setattr(inspect, "ismodule", noting)
    code = compile("", "b200.py", "exec")
    assert inspect.getmodule(code, "b200.py") is None
    assert len(looked) > 100
    spare_module_search("b200.py")
    looked.clear()
    assert inspect.getmodule(code, "b200.py") is None
    assert looked == [code]
