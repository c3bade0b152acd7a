"""uv, the resolver of locks: unlike pip it resolves for another Python and glibc than the running.

Where packages come from is uv's own setting (its index variables); no lock and no file here names
a place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from uv import find_uv_bin

from b200kit.supply.program import SupplyRefused, run

_TIMEOUT_S = 600.0
_OPTIONS = (
    "--no-config", "--generate-hashes", "--no-emit-index-url", "--no-emit-find-links",
    "--no-annotate", "--no-header", "--quiet",
)  # fmt: skip
# How uv begins its lines.
_MARK = re.compile(r"^[^A-Za-z0-9_]*(error|cause|Caused by):\s*|^[^A-Za-z0-9_`\"']+")
_ASIDE = re.compile(r"(hint|warning):|No solution found|$")


@dataclass(frozen=True)
class Request:
    """What is resolved, and for which machines."""

    requirements: Sequence[str]
    python: str
    glibc: str
    constraints: Sequence[str] = ()
    overrides: Sequence[str] = ()


def resolve(request: Request) -> str:
    """Every package that is needed, pinned with its wheels' hashes; `SupplyRefused` if none fit."""
    with TemporaryDirectory() as folder:
        files = [
            _file(Path(folder, name), lines)
            for name, lines in (
                ("requirements", request.requirements),
                ("constraints", request.constraints),
                ("overrides", request.overrides),
            )
        ]
        wanted, constraints, overrides = map(str, files)
        target = (
            "--python-version", request.python,
            "--python-platform", f"x86_64-manylinux_{request.glibc.replace('.', '_')}",
            "--only-binary", ":all:",
        )  # fmt: skip
        given = (wanted, "--constraint", constraints, "--override", overrides)
        return _run((_program(), "pip", "compile", *given, *target, *_OPTIONS))


def placed(lock: Path, python: str, glibc: str) -> str:
    """Where the index has the wheels of a lock, sizes and hashes: a pylock.toml (PEP 751)."""
    target = (
        "--python-version", python,
        "--python-platform", f"x86_64-manylinux_{glibc.replace('.', '_')}",
        "--only-binary", ":all:", "--no-deps", "--no-config", "--quiet", "--no-header",
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        found = Path(folder, "pylock.toml")
        how = ("--format", "pylock.toml", "--output-file", str(found))
        _run((_program(), "pip", "compile", str(lock), *how, *target))
        return found.read_text(encoding="utf-8")


def _file(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _program() -> str:
    return str(find_uv_bin())


def _run(command: Sequence[str]) -> str:
    done = run("uv", command, _TIMEOUT_S, text=True)
    if done.returncode:
        raise SupplyRefused(_cause(done.stderr))
    return str(done.stdout)


def _cause(said: str) -> str:
    """What uv says, in one line: without its marks and its hints."""
    lines = (_MARK.sub("", line.strip()) for line in said.splitlines())
    return " ".join(line for line in lines if not _ASIDE.match(line)).rstrip(".") or "uv failed"
