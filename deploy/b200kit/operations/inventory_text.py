"""What Python takes in an inventory's files, and nobody means: read as text, and nothing is run.

A node that stands twice in a list is one node with the data of both, a key that stands twice in a
mapping has the last value, and `key: value` with a colon sets nothing at all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def faults(inventory: Path) -> Iterator[str]:
    """A line for each such place, in the inventory and in its group data."""
    for path in (inventory, *sorted((inventory.parent / "group_data").glob("*.py"))):
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue  # pyinfra says so itself, or it is no file
        found = [*_unset(tree), *_twice_in_mappings(tree)]
        found += _twice_in_lists(tree) if path == inventory else ()
        yield from (f"{path}:{line}: {why}" for line, why in found)


def _unset(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Keys with a colon; in a class or a function it may be meant."""
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            name, said = ast.unparse(statement.target), ast.unparse(statement.annotation)
            yield statement.lineno, f'"{name}: {said}" sets nothing; write {name} = ...'


def _twice_in_mappings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from _twice([key for key in node.keys if key is not None])


def _twice_in_lists(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Nodes of a list that have the name of another."""
    for statement in tree.body:
        value = getattr(statement, "value", None)
        if isinstance(value, ast.List):
            firsts = (e.elts[0] if isinstance(e, ast.Tuple) and e.elts else e for e in value.elts)
            yield from _twice(list(firsts))


def _twice(names: list[ast.expr]) -> Iterator[tuple[int, str]]:
    seen = set()
    for name in names:
        if isinstance(name, ast.Constant):
            if name.value in seen:
                yield name.lineno, f"{name.value!r} is given twice"
            seen.add(name.value)
