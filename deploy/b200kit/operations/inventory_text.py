"""What Python takes in an inventory's files, and nobody means: read as text, and nothing is run.

A key that stands twice in a mapping has the last value, `key: value` with a colon sets nothing
at all, and `nodes = "n01", "n02"` are the nodes n, 0 and 1.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def unreadable(inventory: Path) -> Iterator[str]:
    """A line for each file, of inventory and group data, that Python does not take as UTF-8 text.

    pyinfra answers that by a traceback. A file that is not there is none of them.
    """
    for path in _files(inventory):
        try:
            # pyinfra reads UTF-8, whatever encoding the file itself declares.
            compile(path.read_bytes().decode(), str(path), "exec", dont_inherit=True)
        except FileNotFoundError:
            continue
        except UnicodeDecodeError as error:
            yield f"{path}: it is no UTF-8 text (byte {error.start}): save it as UTF-8"
        except SyntaxError as error:
            yield f"{path}:{error.lineno or 1}: {error.msg}"
        except (OSError, ValueError) as error:
            yield f"{path}: {getattr(error, 'strerror', None) or error}"


def ended(inventory: Path, code: object) -> str:
    """The line for an inventory that ended the program, such as by sys.exit, instead of nodes."""
    said = f" ({' '.join(str(code).split())})" if code not in (None, 0) else ""
    return f"{inventory}: it, or its group data, ended the program{said}: take sys.exit() out"


def _files(inventory: Path) -> Iterator[Path]:
    yield inventory
    yield from sorted((inventory.parent / "group_data").glob("*.py"))


def unlisted(inventory: Path) -> list[str]:
    """A line for each group that is no list: of a pair pyinfra takes the first, a name, for one.

    Its data is then no mapping, and pyinfra ends with a traceback when it reads any.
    """
    found: list[str] = []
    try:
        tree = ast.parse(inventory.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return found
    for statement in _executed(tree):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
            name, first = ast.unparse(statement.targets[0]), [*statement.value.elts, None][0]
            text = isinstance(first, ast.Constant) and isinstance(first.value, str)
            if text and not name.startswith("_"):
                why = f"{name} must be a list of nodes, in brackets"
                found.append(f"{inventory}:{statement.lineno}: {why}")
    return found


def faults(inventory: Path) -> Iterator[str]:
    """A line for each such place, in the inventory and in its group data."""
    for path in _files(inventory):
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue  # it is unreadable
        found = [*_unset(tree), *_twice_in_mappings(tree)]
        yield from (f"{path}:{line}: {why}" for line, why in found)


def _unset(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Keys with a colon or with two signs; in a class or a function it may be meant."""
    for statement in _executed(tree):
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            name, said = ast.unparse(statement.target), ast.unparse(statement)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Compare):
            name, said = ast.unparse(statement.value.left), ast.unparse(statement)
        else:
            continue
        yield statement.lineno, f'"{said}" sets nothing; write {name} = ...'


def _executed(block: ast.AST) -> Iterator[ast.AST]:
    """Statements that run when the file is read, those below an `if` included."""
    for below in ast.iter_child_nodes(block):
        if not isinstance(below, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield below
            yield from _executed(below)


def _twice_in_mappings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        seen = set()
        for key in node.keys if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant):
                if key.value in seen:
                    yield key.lineno, f"{key.value!r} is given twice"
                seen.add(key.value)
