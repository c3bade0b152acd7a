"""Makes the list of an engine version's flags and variables, from the engine itself.

It is one file without imports of ours, because the engine's own Python runs it, where that is:

    ssh n01 /opt/vllm/ID/bin/python - vllm < snapshot.py > NAME.yaml

It needs no GPU: vLLM's argument parser and its table of variables are read as they are, SGLang's
likewise. NAME is ENGINE-VERSION. TensorRT-LLM is read through click, and the fields of its
configuration file through pydantic.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import pathlib
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

Entry = dict[str, Any]
_VARIABLE = re.compile(r"\b(?:SGLANG|SGL)_[A-Z0-9_]*[A-Z0-9]\b")


def vllm() -> tuple[str, dict[str, Entry], list[str]]:
    """Version, flags and variables of the vLLM that this Python has."""
    platforms: Any = importlib.import_module("vllm.platforms")
    if platforms.current_platform.is_unspecified():
        # A machine without a GPU; which one it would be changes no flag.
        platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
    flexible = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    # The module that fills the parser has moved with nearly every version; the command has not.
    [command] = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()
    parser = command.subparser_init(flexible().add_subparsers(parser_class=flexible))
    flags = dict(_flags(parser))
    # It holds these to its lists of parsers only once the server is made.
    for flag, module, manager in (
        ("tool-call-parser", "vllm.tool_parsers", "ToolParserManager"),
        ("reasoning-parser", "vllm.reasoning", "ReasoningParserManager"),
    ):
        flags[flag]["choices"] = getattr(importlib.import_module(module), manager).list_registered()
    variables = importlib.import_module("vllm.envs").environment_variables
    return importlib.import_module("vllm").__version__, flags, sorted(variables)


def sglang() -> tuple[str, dict[str, Entry], list[str]]:
    """Version, flags and variables of the SGLang that this Python has."""
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return importlib.metadata.version("sglang"), dict(_flags(parser)), _named_in("sglang")


def _named_in(package: str) -> list[str]:
    """Variables that the sources of a package name: SGLang's own table omits some it reads."""
    folder = pathlib.Path(importlib.import_module(package).__path__[0])
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.py"))
    return sorted({name for text in texts for name in _VARIABLE.findall(text)})


def trtllm() -> tuple[str, dict[str, Entry], list[str]]:
    """Version and options of the TensorRT-LLM that this Python has; variables it lists none."""
    command = importlib.import_module("tensorrt_llm.commands.serve").serve
    flags = {
        long: _option(option)
        for option in command.params
        for long in [next((o[2:] for o in option.opts if o.startswith("--")), "")]
        if long
    }
    return importlib.metadata.version("tensorrt_llm"), flags, []


def trtllm_fields() -> dict[str, Entry]:
    """The fields of the file that `trtllm-serve --config` reads, parts by dots."""
    return _fields(importlib.import_module("tensorrt_llm.llmapi.llm_args").TorchLlmArgs)


def _fields(model: Any) -> dict[str, Entry]:
    """Each field of a pydantic model and of those within; of several ways the choices of all."""
    found: dict[str, Entry] = {}
    for name, entry in _every_field(model):
        choices = [*found.get(name, {}).get("choices", []), *entry.get("choices", [])]
        found[name] = entry | ({"choices": list(dict.fromkeys(choices))} if choices else {})
    return found


def _every_field(model: Any, within: str = "") -> Iterator[tuple[str, Entry]]:
    for name, field in model.model_fields.items():
        kinds = list(_kinds(field.annotation))
        models = [kind for kind in kinds if hasattr(kind, "model_fields")]
        for inner in models:
            yield from _every_field(inner, f"{within}{name}.")
        if not models:
            yield f"{within}{name}", _field(kinds)


def _kinds(annotation: Any) -> Iterator[Any]:
    """What an annotation allows, without None."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from _kinds(parts[0])
    elif origin is typing.Union or isinstance(annotation, types.UnionType):
        for part in parts:
            yield from _kinds(part)
    elif annotation is not type(None):
        yield annotation


def _field(kinds: list[Any]) -> Entry:
    names = {bool: "bool", int: "int", float: "float", str: "str"}
    literals = [kind for kind in kinds if typing.get_origin(kind) is typing.Literal]
    if literals and literals == kinds:
        choices = [choice for kind in literals for choice in typing.get_args(kind)]
        return {"type": "str", "choices": [str(choice) for choice in choices]}
    if str in kinds:
        return {"type": "str"}
    return {"type": names.get(kinds[0], "json") if len(kinds) == 1 else "json"}


def _option(option: Any) -> Entry:
    """An option of click."""
    kinds = {"integer": "int", "float": "float", "boolean": "bool", "choice": "str"}
    entry: Entry = {"type": "bool" if option.is_flag else kinds.get(option.type.name, "str")}
    choices = getattr(option.type, "choices", None)
    return entry | ({"choices": list(choices)} if choices else {})


def _flags(parser: argparse.ArgumentParser) -> Iterator[tuple[str, Entry]]:
    """Each long name without its dashes, and what its value may be."""
    deprecated: set[argparse.Action] = getattr(parser, "_deprecated", set())
    for action in parser._actions:
        longs = [o[2:] for o in action.option_strings if o.startswith("--")]
        if not longs or longs[0] == "help":
            continue
        entry = _entry(action, longs)
        if action in deprecated or _is_called_deprecated(action):
            entry["deprecated"] = True
        yield longs[0], entry


def _entry(action: argparse.Action, longs: list[str]) -> Entry:
    entry: Entry = {"type": _type(action)}
    if action.nargs in ("+", "*") or (isinstance(action.nargs, int) and action.nargs > 1):
        entry["list"] = True
    # vLLM names what is known as metavar where a plugin may know more.
    choices = action.choices or (action.metavar if isinstance(action.metavar, list) else None)
    if choices:
        entry["choices"] = [str(choice) for choice in choices if choice is not None]
    off = sorted(_off(action)) if entry["type"] == "bool" else []
    shorts = [o for o in action.option_strings if not o.startswith("--")]
    aliases = [name for name in longs[1:] if name not in off] + shorts
    return entry | ({"off": off} if off else {}) | ({"aliases": aliases} if aliases else {})


def _off(action: argparse.Action) -> set[str]:
    """The names that switch a flag off, also those that its help does not show."""
    off = getattr(action, "negative_option_strings", None)
    if off is None:
        off = [option for option in action.option_strings if option.startswith("--no-")]
    return {option[2:] for option in off}


def _is_called_deprecated(action: argparse.Action) -> bool:
    help_text = (action.help or "").lstrip("[(* ").lower()
    return type(action).__name__.startswith("Deprecated") or help_text.startswith("deprecated")


def _type(action: argparse.Action) -> str:
    """What a value must look like, found by giving the flag's own parser some."""
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return "bool"
    if action.nargs == "?" and action.const is True:
        return "bool-or-str"
    parse = action.type if callable(action.type) else str
    number = _parsed(parse, "1024")
    if isinstance(number, bool) or _parsed(parse, "no number") == "no number":
        return "bool-or-str" if isinstance(number, bool) else "str"
    if isinstance(_parsed(parse, '["a"]'), list):
        return "json"
    if isinstance(number, int):
        return "size" if isinstance(_parsed(parse, "1k"), int) else "int"
    return "float" if isinstance(number, float) else "json"


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except Exception:  # an engine's own parser refuses with whatever it likes
        return None


def document(engine: str) -> Iterator[str]:
    """The file, line by line: YAML with a flag a line; names of variables are running text."""
    readers: dict[str, Callable[[], tuple[str, dict[str, Entry], list[str]]]]
    readers = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}
    version, flags, variables = readers[engine]()
    date = datetime.datetime.now(datetime.timezone.utc).date()  # noqa: UP017 - Python 3.10
    yield f"# What {engine} {version} takes, asked of its own argument parser on {date} by"
    yield "# b200kit/catalog/engines/snapshot.py. Made, not edited."
    yield f"engine: {engine}"
    yield f'version: "{version.partition("+")[0]}"'
    yield "flags:"
    yield from (f"  {name}: {json.dumps(flags[name])}" for name in sorted(flags))
    yield "environment: >-"
    yield from textwrap.wrap(" ".join(variables), 98, initial_indent="  ", subsequent_indent="  ")
    if engine == "trtllm":
        fields = trtllm_fields()
        yield "fields:"
        yield from (f"  {name}: {json.dumps(fields[name])}" for name in sorted(fields))


if __name__ == "__main__":
    sys.stdout.write("\n".join(document(sys.argv[1])) + "\n")
