"""vLLM's own argument parser over command lines and their configuration files.

    PYTHON_OF_THE_ENGINE vllm_judge.py COMMANDS

COMMANDS is a JSON file {name: {"argv": ["vllm", "serve", ...], "config": {...}}}. A JSON line each
is printed, {"name", "said"}: what vLLM objects to, empty where it takes the line. Beyond the parser
its check of parsed arguments is run, and parsers of tools and thoughts are looked up by name; what
needs the model or a GPU is not.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ENVIRON = {"VLLM_LOGGING_LEVEL": "CRITICAL", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def judge(parser: Any, validate: Callable[[Any], None], command: dict[str, Any]) -> str:
    """What vLLM objects to in one command line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replica.yaml"
        # JSON is YAML.
        path.write_text(json.dumps(command["config"]), encoding="utf-8")
        words = [str(path) if word == command["path"] else word for word in command["argv"][1:]]
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            try:
                validate(parser.parse_args(words))
            except SystemExit:
                return said.getvalue().strip() or "it ended without a word"
            except Exception as error:
                return f"{type(error).__name__}: {error}"
    return ""


def unknown(args: Any) -> Iterator[str]:
    """Parsers that vLLM looks up by name when its server starts, and would not find."""
    launcher = importlib.import_module("vllm.entrypoints.launchers.launcher")
    for name, manager in (
        (args.tool_call_parser, launcher.ToolParserManager),
        (args.reasoning_parser, launcher.ReasoningParserManager),
    ):
        if name and name not in manager.list_registered():
            yield f"no parser {name}"


def main(path: str) -> None:
    """Judge every command line of a file."""
    os.environ.update(ENVIRON)
    parser = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    [serve] = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()
    serve.subparser_init(parser.add_subparsers(dest="subparser"))

    def validate(args: Any) -> None:
        serve.validate(args)
        if wrong := list(unknown(args)):
            raise ValueError("; ".join(wrong))

    for name, command in json.loads(Path(path).read_text(encoding="utf-8")).items():
        said = judge(parser, validate, command)
        sys.stdout.write(json.dumps({"name": name, "said": said}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
