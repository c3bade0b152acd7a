"""The rules of the code base, held by reading it: who imports whom, and how large it grows."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from b200kit.run import zipapp

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 50

SOURCES = {path.relative_to(ROOT).as_posix(): path for path in sorted(DEPLOY.rglob("*.py"))}
LAB = {p.relative_to(ROOT).as_posix(): p for p in sorted((ROOT / "tests" / "lab").rglob("*.py"))}

# What each package may import besides the standard library and itself.
ALLOWED = {
    "core": (),
    "node": ("deploy", "deploy.core", "pynvml"),
    "report": ("deploy.core", "jinja2"),
    "engines": ("deploy.core", "yaml"),
    "hardware": ("yaml",),
}
SPEAK_PYINFRA = {
    "deploy/b200.py",
    "deploy/check.py",
    "deploy/smoke.py",
    "deploy/tune.py",
    "b200kit/operations/entry.py",
    "b200kit/operations/steps.py",
    "b200kit/run/host_keys.py",
    "b200kit/operations/preflight.py",
    "b200kit/operations/reboot.py",
    "b200kit/run/remote.py",
    "deploy/reprovision.py",
    "b200kit/reprovision/operations.py",
    "b200kit/operations/recorder.py",
}
# Modules that read or write something, or depend on when and where they run.
IMPURE_MODULES = {
    "asyncio", "http", "io", "multiprocessing", "os", "pathlib", "platform", "random", "secrets",
    "select", "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time",
    "urllib",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}
IMPURE_METHODS = {"now", "today", "utcnow", "read_text", "write_text", "read_bytes", "write_bytes"}


@cache
def tree(path: Path) -> ast.Module:
    """A parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            # `from deploy import x` may name a module of the package.
            yield from (f"{module}.{a.name}" if module == "deploy" else module for a in node.names)


def is_within(module: str, package: str) -> bool:
    """Whether a module is the package or in it; the root package stands for itself alone."""
    return module == package or (package != "deploy" and module.startswith(f"{package}."))


def is_standard(module: str) -> bool:
    """Whether a module comes with Python."""
    return module.partition(".")[0] in sys.stdlib_module_names


def below(package: str) -> dict[str, Path]:
    """The files of a package of deploy."""
    return {name: p for name, p in SOURCES.items() if name.startswith(f"deploy/{package}/")}


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_it_may(package: str) -> None:
    allowed = (f"deploy.{package}", *ALLOWED[package])
    files = below(package)
    assert files
    wrong = [
        f"{name}: {module}"
        for name, path in files.items()
        for module in imported(path)
        if not is_standard(module) and not any(is_within(module, name) for name in allowed)
    ]
    assert wrong == []


def test_only_the_listed_files_speak_pyinfra() -> None:
    speaking = {
        name
        for name, path in SOURCES.items()
        if any(is_within(module, "pyinfra") for module in imported(path))
    }
    assert speaking == SPEAK_PYINFRA


def test_stages_do_not_know_the_operations_that_run_them() -> None:
    above = ("operations", "preflight", "entry", "spool", "session", "verdict", "observation")
    wrong = [
        f"{name}: {module}"
        for name, path in below("stages").items()
        for module in imported(path)
        if module in {f"deploy.{part}" for part in above}
    ]
    assert wrong == []


def test_deploy_imports_the_tests_nowhere() -> None:
    # `b200 lab` loads the simulator of a checkout by name, when it is asked for.
    wrong = [n for n, p in SOURCES.items() if any(is_within(m, "tests") for m in imported(p))]
    assert wrong == []


def test_core_has_no_module_that_does_anything_outside() -> None:
    wrong = [
        f"{name}: {module}"
        for name, path in below("core").items()
        for module in imported(path)
        if module.partition(".")[0] in IMPURE_MODULES
    ]
    assert wrong == []


def test_core_calls_nothing_that_reads_writes_or_asks_the_time() -> None:
    wrong = [
        f"{name}:{call.lineno}"
        for name, path in below("core").items()
        for call in ast.walk(tree(path))
        if isinstance(call, ast.Call)
        and (
            (isinstance(call.func, ast.Name) and call.func.id in IMPURE_CALLS)
            or (isinstance(call.func, ast.Attribute) and call.func.attr in IMPURE_METHODS)
        )
    ]
    assert wrong == []


Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Defined]]:
    """Public functions and classes of a module, and public methods of its public classes."""
    for node in body:
        if not isinstance(node, Defined) or node.name.startswith("_"):
            continue
        yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from public(node.body, f"{node.name}.")


@pytest.mark.parametrize("name", SOURCES)
def test_module_and_all_that_is_public_in_it_say_what_they_are(name: str) -> None:
    module = tree(SOURCES[name])
    assert ast.get_docstring(module), f"{name} has no docstring"
    silent = [what for what, node in public(module.body) if not ast.get_docstring(node)]
    assert silent == []


@pytest.mark.parametrize("name", [*SOURCES, *LAB])
def test_file_and_its_functions_stay_small(name: str) -> None:
    path = ROOT / name
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_A_FILE
    long = [
        f"{node.name}: {length} lines"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []


@cache
def test_locks_say_what_to_install_and_not_where_from() -> None:
    # Where packages come from is a matter of each site's own configuration.
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text
        assert not re.search(r"^--?(index|extra|find|trusted|i |f )", text, re.MULTILINE)


def test_program_of_the_node_holds_only_what_the_node_needs() -> None:
    names = set(zipapp.contents())
    python = {name for name in names if name.endswith(".py")}
    assert {name for name in names if not name.startswith(("deploy/core/", "b200kit/node/"))} == {
        "__main__.py",
        "b200kit/__init__.py",
        "pynvml.py",
    }
    assert names - python == {"b200kit/catalog/node-state.schema.json"}


def test_program_of_the_node_is_the_same_bytes_every_time() -> None:
    first = zipapp.build()
    zipapp.build.cache_clear()
    assert zipapp.build() == first
