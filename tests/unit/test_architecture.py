"""The rules of the code base, held by reading it: who imports whom, and what says what it is."""

from __future__ import annotations

import ast
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from b200kit.inventory.spec import NodeSpec
from b200kit.run import zipapp
from tests.subtests import in_subtests

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "deploy" / "b200kit"

# A room imports only rooms of a lower level. Rooms that are not named belong to the one above them.
LEVELS = (
    ("node/lib",),
    ("node/state",),
    ("inventory/keys", "node/client", "node/placement", "node/weights"),
    ("engines", "node/facts", "sizing"),
    ("node/bandwidth", "node/host", "node/packages", "node/serving"),
    ("catalog", "node/checks", "node/latency", "node/status"),
    ("inventory", "node/acceptance", "node/fabric", "node/renewal"),
    ("node", "run"),
    ("converge", "node/agent", "node/maintenance", "store"),
    ("serving", "stages/support"),
    ("monitoring", "readiness", "records", "supply"),
    ("quality",),
    ("report", "site", "stages"),
    ("operations",),
    ("acceptance", "reprovision", "tuning"),
    ("rollout",),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
SPEAK_PYINFRA = {
    "b200.py",
    "burnin.py",
    "check.py",
    "ready.py",
    "remove.py",
    "reprovision.py",
    "find_gpu.py",
    "smoke.py",
    "tune.py",
    "b200kit/operations/connections.py",
    "b200kit/operations/connector.py",
    "b200kit/operations/entry.py",
    "b200kit/operations/group_data.py",
    "b200kit/operations/inventory_process.py",
    "b200kit/operations/mirror_needs.py",
    "b200kit/operations/site_problems.py",
    "b200kit/operations/preflight.py",
    "b200kit/operations/pyinfra_cost.py",
    "b200kit/operations/reboot.py",
    "b200kit/operations/recorder.py",
    "b200kit/operations/standings.py",
    "b200kit/operations/steps.py",
    "b200kit/reprovision/operations.py",
    "b200kit/rollout/operations.py",
    "b200kit/run/host_keys.py",
    "b200kit/run/jump.py",
    "b200kit/run/remote.py",
}
# All of these rooms is pure; elsewhere a module is whose docstring says "Pure".
PURE_ROOMS = (
    "node/checks", "node/state", "node/placement", "engines", "sizing", "inventory/keys",
)  # fmt: skip
# Modules that read or write something, or depend on when and where they run.
IMPURE_MODULES = {
    "asyncio", "http", "io", "multiprocessing", "os", "pathlib", "platform", "random", "secrets",
    "select", "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time",
    "urllib",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}
IMPURE_METHODS = {"now", "today", "utcnow", "read_text", "write_text", "read_bytes", "write_bytes"}


def sources(root: Path) -> dict[str, Path]:
    """Every Python file below a folder, by its path from there."""
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.py"))}


SOURCES = sources(LIBRARY)
DEPLOY = sources(ROOT / "deploy")


@cache
def tree(path: Path) -> ast.Module:
    """A parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file, but for types alone."""
    for node in ast.walk(_without_types(tree(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in names if module_file(name)]
            yield from modules or [node.module or ""]


def _without_types(module: ast.Module) -> ast.Module:
    """The module without its blocks `if TYPE_CHECKING:`."""
    kept = [
        node
        for node in module.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return ast.Module(body=kept, type_ignores=[])


@cache
def module_file(module: str) -> str | None:
    """The file of one of our modules, as in SOURCES; None for what is no module of ours."""
    if not module.startswith("b200kit."):
        return None
    stem = module.removeprefix("b200kit.").replace(".", "/")
    return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in SOURCES), None)


def room(name: str) -> str:
    """The room of a file: the deepest folder above it that has a level."""
    folder = name.rpartition("/")[0]
    while folder and folder not in LEVEL:
        folder = folder.rpartition("/")[0]
    return folder


def is_standard(module: str) -> bool:
    """Whether a module comes with Python."""
    return module.partition(".")[0] in sys.stdlib_module_names


def test_node_imports_only_the_standard_library_what_it_carries_and_itself() -> None:
    wrong = [
        f"{name}: {module}"
        for name, path in SOURCES.items()
        if name.startswith("node/")
        for module in imported(path)
        if not is_standard(module)
        and module not in ("b200kit", "pynvml", "yaml")
        and not module.startswith("b200kit.node.")
    ]
    assert wrong == []


# What reads JSON, YAML, TOML or pickles by itself, and why it may. All else is foreign: it goes
# through node/lib/documents.py, which bounds it and names its source.
BARE_READERS = {
    "b200kit/node/lib/documents.py": "it is that reader",
    "b200kit/node/lib/tables.py": "YAML of texts alone, of ours and of root's",
    "b200kit/catalog/shipped.py": "the data that come with b200kit",
    "b200kit/records/examples.py": "the examples that come with b200kit",
    "b200kit/supply/mirror/wheels.py": "TOML, which Python's own reader refuses when it is broken",
}
_READS = {
    "json": {"load", "loads", "JSONDecoder"},
    "yaml": {"load", "safe_load", "full_load", "unsafe_load", "load_all", "safe_load_all"},
    "tomllib": {"load", "loads"},
    "pickle": {"load", "loads", "Unpickler"},
}


def bare_readers(module: ast.Module) -> Iterator[str]:
    """Calls and imports of a parser of documents, `answer.json()` of an HTTP client included."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in _READS.get(owner, ()):
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in _READS:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        if isinstance(node, ast.Call) and not node.args and ast.unparse(node).endswith(".json()"):
            yield "json()"


@in_subtests(
    ("source", "found"),
    [
        ("json.loads(text)", ["json.loads"]),
        ("map(json.loads, lines)", ["json.loads"]),
        ("json.JSONDecoder().raw_decode(text)", ["json.JSONDecoder"]),
        ("from json import loads", ["json.loads"]),
        ("yaml.safe_load(text)", ["yaml.safe_load"]),
        ("session.get(url).json()", ["json()"]),
        ("json.dumps(value)", []),
        ("documents.load(kind, path)", []),
    ],
)
def test_bare_reader_is_found(source: str, found: list[str]) -> None:
    assert list(bare_readers(ast.parse(source))) == found


def test_foreign_documents_go_through_the_one_strict_reader() -> None:
    bare = {name for name, path in DEPLOY.items() if any(bare_readers(tree(path)))}
    assert bare == BARE_READERS.keys()


# Whose patterns have words of every script, and why.
WORDS_OF_EVERY_SCRIPT = {
    "b200kit/node/client/golden/ask.py": "an answer has words of every language",
    "b200kit/node/lib/error_line.py": "an exception's class in any program's output",
    "b200kit/node/lib/redact.py": "what takes more for a secret hides more",
    "b200kit/records/pseudonyms.py": "what takes more for a name hides more",
}


def digits_of_every_script(module: ast.Module) -> Iterator[str]:
    r"""Patterns with \d, and methods that take digits of every script or superscripts for some."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.search(r"\\[dD]", node.value):
                yield node.value
        elif isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isdecimal", "isnumeric"):
            yield node.attr


def test_digits_of_what_comes_from_outside_are_those_of_ascii() -> None:
    # "\uff11" is a digit for re, for str.isdigit() and for int(), and for no driver or registry.
    found = {name: [*digits_of_every_script(tree(path))] for name, path in DEPLOY.items()}
    assert {name: each for name, each in found.items() if each} == {
        "b200kit/node/lib/readings.py": ["isdigit"]  # of is_digits
    }


def test_words_of_what_comes_from_outside_are_those_of_ascii() -> None:
    texts = {
        name: [n.value for n in ast.walk(tree(path)) if isinstance(n, ast.Constant)]
        for name, path in DEPLOY.items()
    }
    wide = {name for name, every in texts.items() if any("\\w" in str(each) for each in every)}
    assert wide == WORDS_OF_EVERY_SCRIPT.keys()


def own_empty_values() -> set[str]:
    """Keys of an inventory that take 0, "", () or False as a value that is not their default."""
    found = set()
    for key, field in NodeSpec.model_fields.items():
        kind: Any = Annotated[field.annotation, *field.metadata, None]
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        # A switch that is off is said in both ways; one that decides by itself is not.
        switch = (False,) if field.get_default() is None else ()
        for value in (0, "", (), *switch):
            with suppress(ValidationError):
                if adapter.validate_python(value, strict=True) != field.get_default():
                    found.add(key)
    return found


def defaulted(module: ast.Module) -> Iterator[str]:
    """Keys of a spec that `spec.key or ...` takes for absent where they are 0 or empty."""
    for node in ast.walk(module):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            for value in node.values[:-1]:
                if isinstance(value, ast.Attribute) and ast.unparse(value.value).endswith("spec"):
                    yield value.attr


def test_a_zero_or_an_empty_list_of_an_inventory_is_taken_as_given() -> None:
    own = own_empty_values()
    assert own >= {"repositories", "fleet_weight", "expert_parallel"}
    assert [n for n, path in DEPLOY.items() if own & {*defaulted(tree(path))}] == []


Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def hidden(module: ast.Module) -> Iterator[str]:
    """Names that a function uses of its module and that a comprehension of it hides."""
    for scope in (node for node in ast.walk(module) if isinstance(node, Scope)):
        outside, inside = set[str](), set[str]()
        own = {each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg)}
        body = scope.body if isinstance(scope.body, list) else [scope.body]
        left: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset()) for node in body]
        while left:
            node, bound = left.pop()
            if isinstance(node, Comprehension):
                bound |= {name for each in node.generators for name in stored(each.target)}
                inside |= bound
            if isinstance(node, ast.Name) and node.id not in bound:
                (outside if isinstance(node.ctx, ast.Load) else own).add(node.id)
            if not isinstance(node, Scope):
                left += [(child, bound) for child in ast.iter_child_nodes(node)]
        yield from sorted((inside & outside) - own)


def stored(target: ast.expr) -> set[str]:
    """The names that an assignment to a target gives a value."""
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


@in_subtests(
    ("body", "found"),
    [
        ("a = [x for x in y]; x()", ["x"]),
        ("a = {x: z for x, z in y}\n return z", ["z"]),
        ("x = 1; a = [x for x in y]; x", []),
        ("a = [x for x in y]", []),
        ("x(); return lambda: [x for x in y]", []),
    ],
)
def test_name_that_a_comprehension_hides_is_found(body: str, found: list[str]) -> None:
    assert list(hidden(ast.parse(f"def f():\n {body}"))) == found


def test_no_comprehension_hides_a_name_that_its_function_uses() -> None:
    # Python 3.12.0 to 3.12.3 may take it for an unbound local one of the whole function.
    assert [f"{name}: {what}" for name, path in DEPLOY.items() for what in hidden(tree(path))] == []


def unknown_names(text: str) -> Iterator[str]:
    """What a program in a text takes from the library that is not there."""
    try:
        module = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return
    bound = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("b200kit"):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                try:
                    bound[alias.asname or alias.name] = pkgutil.resolve_name(name)
                except (ImportError, AttributeError):
                    yield name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = bound.get(node.value.id)
            if isinstance(owner, ModuleType) and not hasattr(owner, node.attr):
                yield f"{owner.__name__}.{node.attr}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from b200kit.node.client.http import HttpDeadlines", []),
        ("from b200kit.node.client.http import Deadline", ["b200kit.node.client.http.Deadline"]),
        ("from b200kit.gone import x", ["b200kit.gone.x"]),
        ("from b200kit.node.lib import url\nurl.gone()", ["b200kit.node.lib.url.gone"]),
        ("Words about b200kit.", []),
    ],
)
def test_what_is_gone_is_found_in_a_program_in_a_text(text: str, found: list[str]) -> None:
    assert list(unknown_names(text)) == found


def test_programs_in_texts_take_what_is_there() -> None:
    """No type checker reads them, and some run only on a simulated node."""
    gone = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for folder in ("deploy", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "from b200kit" in node.value
        for name in unknown_names(node.value)
    ]
    # The test of this rule names what is gone.
    assert [line for line in gone if not line.startswith("tests/unit/test_architecture.py")] == []


def test_rooms_import_downwards_only() -> None:
    wrong = []
    for name, path in SOURCES.items():
        here = room(name)
        for module in imported(path):
            target = module_file(module)
            there = room(target) if target else here
            if there != here and LEVEL[there] >= LEVEL[here]:
                wrong.append(f"{name} ({here}) imports {module} ({there})")
    assert wrong == []


def test_every_folder_belongs_to_a_room() -> None:
    assert [name for name in SOURCES if not room(name)] == ["__init__.py"]
    assert {room(name) for name in SOURCES} - {""} == set(LEVEL)


def test_a_module_does_not_import_itself_by_way_of_others() -> None:
    graph = {
        name: {file for module in imported(path) if (file := module_file(module))} - {name}
        for name, path in SOURCES.items()
    }
    while leaves := [name for name, needs in graph.items() if not needs & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert sorted(graph) == []


def test_only_the_listed_files_speak_pyinfra() -> None:
    speaking = {
        name
        for name, path in DEPLOY.items()
        if any(module.partition(".")[0] == "pyinfra" for module in imported(path))
    }
    assert speaking == SPEAK_PYINFRA


# Programs for those who work on the code: what they print is made of the code.
_PRINT_THEMSELVES = {"run/console.py", "cli/reference_pages.py", "catalog/engines/snapshot.py"}


def test_the_controller_writes_to_a_terminal_in_one_place() -> None:
    printing = {"print", "click.secho", "sys.stdout.write", "sys.stderr.write"}
    for name, path in DEPLOY.items():
        if "/node/" not in name and not name.endswith(tuple(_PRINT_THEMSELVES)):
            calls = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
            told = printing & {ast.unparse(call.func) for call in calls}
            assert not told, f"{name}: {told}: run/console.py does that, and escapes"


def test_the_product_imports_the_tests_nowhere() -> None:
    # `b200 lab` loads the simulator of a checkout by name, when it is asked for.
    wrong = [n for n, p in DEPLOY.items() if any(m.startswith("tests") for m in imported(p))]
    assert wrong == []


def says_pure(name: str) -> bool:
    """Whether a module promises to do nothing outside."""
    promise = re.search(r"\bPure\b(?! but)", ast.get_docstring(tree(SOURCES[name])) or "")
    return name.startswith(tuple(f"{pure}/" for pure in PURE_ROOMS)) or promise is not None


def impure(path: Path) -> Iterator[str]:
    """What a file imports or calls that reads, writes, or asks the time."""
    for module in imported(path):
        if module.partition(".")[0] in IMPURE_MODULES:
            yield f"imports {module}"
    for call in ast.walk(tree(path)):
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Name) and call.func.id in IMPURE_CALLS:
            yield f"line {call.lineno} calls {call.func.id}"
        elif isinstance(call.func, ast.Attribute) and call.func.attr in IMPURE_METHODS:
            yield f"line {call.lineno} calls {call.func.attr}"


def test_what_says_pure_does_nothing_outside() -> None:
    pure = [name for name in SOURCES if says_pure(name)]
    assert len(pure) > 150
    assert [f"{name}: {what}" for name in pure for what in impure(SOURCES[name])] == []


Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Defined]]:
    """Public functions and classes of a module, and public methods of its public classes."""
    for node in body:
        if not isinstance(node, Defined) or node.name.startswith("_"):
            continue
        yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from public(node.body, f"{node.name}.")


def test_modules_and_all_that_is_public_in_them_say_what_they_are() -> None:
    silent = [name for name, path in DEPLOY.items() if not ast.get_docstring(tree(path))]
    silent += [
        f"{name}: {what}"
        for name, path in DEPLOY.items()
        for what, node in public(tree(path).body)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def test_locks_say_what_to_install_and_not_where_from() -> None:
    # Where packages come from is a matter of each site's own configuration.
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text
        assert not re.search(r"^--?(index|extra|find|trusted|i |f )", text, re.MULTILINE)


def test_program_of_the_node_holds_only_what_the_node_needs() -> None:
    besides = {"__main__.py", "b200kit/__init__.py", "compiled.py", "pynvml.py"}
    names = set(zipapp.contents())
    carried = {name for name in names if name.startswith("yaml/") and name.endswith(".py")}
    assert "yaml/__init__.py" in carried
    assert {n for n in names - carried if not n.startswith("b200kit/node/")} == besides
    data = {
        "b200kit/node/acceptance/tests.json",
        "b200kit/node/checks/rows.json",
        "b200kit/node/client/texts.json",
        "b200kit/node/facts/nvml/since.json",
        "b200kit/node/state/advice.json",
        "b200kit/node/state/node-state.json",
    }
    assert {name for name in names if not name.endswith(".py")} == data


def test_program_of_the_node_is_the_same_bytes_every_time() -> None:
    first = zipapp.build()
    zipapp.build.cache_clear()
    assert zipapp.build() == first
