"""Imports run one way, so that core stays pure and the node program stays one small file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
# What each package may import besides the standard library and itself.
ALLOWED = {
    "core": (),
    "node": ("deploy", "deploy.core", "pynvml"),
    "report": ("jinja2",),
}


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            # `from deploy import x` names a module of the package.
            yield from (f"{module}.{a.name}" if module == "deploy" else module for a in node.names)


def is_within(module: str, package: str) -> bool:
    """Whether a module is the package or in it; the root package stands for itself alone."""
    return module == package or (package != "deploy" and module.startswith(f"{package}."))


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_it_may(package: str) -> None:
    allowed = (f"deploy.{package}", *ALLOWED[package])
    wrong = [
        f"{path.relative_to(DEPLOY)}: {module}"
        for path in sorted((DEPLOY / package).rglob("*.py"))
        for module in imported(path)
        if module.partition(".")[0] not in sys.stdlib_module_names
        and not any(is_within(module, name) for name in allowed)
    ]
    assert wrong == []


def test_stages_do_not_know_the_operations_that_run_them() -> None:
    above = ("deploy.operations", "deploy.preflight", "deploy.entry", "deploy.spool", "pyinfra")
    wrong = [
        f"{path.name}: {module}"
        for path in sorted((DEPLOY / "stages").glob("*.py"))
        for module in imported(path)
        if any(is_within(module, name) for name in above)
    ]
    assert wrong == []
