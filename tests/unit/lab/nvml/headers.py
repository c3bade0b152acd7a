"""What NVIDIA's own nvml.h says of all that this project uses, one header a driver branch.

Renew it with `.venv/bin/python -m tests.unit.lab.nvml.headers > tests/data/nvml.yaml`: pip
downloads the packages below and gcc measures. A header's branch is that of NVML's change log
(docs.nvidia.com/deploy/nvml-api/change-log.html), whose additions for the branch it is the first to
have. nvidia-ml-py, whose releases are named after branches, agrees: 13.580.65 calls what the header
of 580 has, 12.575.51 what that of 575 has, and so on for 555 to 615.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.unit.lab.nvml import abi

PACKAGES = {
    525: "nvidia-nvml-dev-cu12==12.0.140",
    535: "nvidia-nvml-dev-cu12==12.2.140",
    550: "nvidia-nvml-dev-cu12==12.4.127",
    560: "nvidia-nvml-dev-cu12==12.6.77",
    570: "nvidia-nvml-dev-cu12==12.8.90",
    575: "nvidia-nvml-dev-cu12==12.9.79",
    580: "nvidia-nvml-dev==13.0.87",
    590: "nvidia-nvml-dev==13.1.115",
    595: "nvidia-nvml-dev==13.2.86",
    610: "nvidia-nvml-dev==13.3.29",
    615: "nvidia-nvml-dev==13.4.92",
}
FAMILIES = re.compile(
    r"\b(NVML_ERROR_\w+|NVML_GPU_RECOVERY_ACTION_\w+"
    r"|NVML_GPU_FABRIC_(?:STATE|HEALTH_SUMMARY|HEALTH_MASK_SHIFT)_[A-Z]\w+"
    r"|NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_\w+"
    r"|NVML_P2P_CAPS_INDEX_(?:READ|WRITE|NVLINK|ATOMICS|PROP)|nvmlClocks(?:Event|Throttle)Reason[HS]w\w+)\b"
)
"""Constants whose values our tables have as plain numbers."""
HEAD = """\
# What nvml.h has of all that this project uses, each with the driver branch of the first header
# with it. Structures: size, version word, members as [offset, size]; constants: [value, branch].
# Made by: .venv/bin/python -m tests.unit.lab.nvml.headers > tests/data/nvml.yaml (see there)
"""


def fetch(package: str, folder: Path) -> tuple[str, str]:
    """The nvml.h of a package, and the SHA-256 of its wheel."""
    folder.mkdir()
    options = ["-qq", "--no-deps", "--only-binary=:all:", f"--dest={folder}"]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/nvml.h")]
        return archive.read(name).decode("utf-8"), hashlib.sha256(wheel.read_bytes()).hexdigest()


def measure(header: str, lines: Iterable[str], folder: Path) -> dict[str, list[int]]:
    """The numbers that a C program with this header prints, by the first word of their line."""
    (folder / "nvml.h").write_text(header, encoding="utf-8")
    includes = '#include <stddef.h>\n#include <stdio.h>\n#include "nvml.h"\n'
    source, program, body = folder / "ask.c", folder / "ask", "\n".join(lines)
    source.write_text(f"{includes}int main(void) {{ {body} return 0; }}\n", encoding="utf-8")
    subprocess.run(["gcc", "-w", "-o", program, source], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in printed.splitlines())
    return {name: [int(number) for number in numbers] for name, *numbers in rows}


def prints(name: str, *expressions: str) -> str:
    """C that prints a name and numbers."""
    values = ", ".join(f"(long long)({expression})" for expression in expressions)
    return f'printf("{name}{" %lld" * len(expressions)}\\n", {values});'


def first(headers: dict[int, str], pattern: str) -> int | None:
    """The branch of the first header that has a name; None where a newer one has it no more."""
    having = [branch for branch, header in headers.items() if re.search(pattern, header)]
    return having[0] if having == [b for b in headers if having and b >= having[0]] else None


def functions(headers: dict[int, str]) -> dict[str, int | None]:
    """The C functions that the node program calls through nvidia-ml-py."""
    called = {one for name in abi.called_by_the_node_program() for one in abi.symbols(name)}
    return {name: first(headers, rf"\bDECLDIR\s+{name}\s*\(") for name in sorted(called)}


def structs(headers: dict[int, str], folder: Path) -> dict[str, dict[str, Any]]:
    """The structures of the stand-in, as the newest header has them."""
    known: dict[str, dict[str, Any]] = {}
    for name in abi.STRUCTS:
        members = {one: (f"offsetof({name}, {one})", f"sizeof((({name} *)0)->{one})")
                   for one in abi.fields_of(name)}  # fmt: skip
        lines = [prints(f".{one}", *numbers) for one, numbers in members.items()]
        lines += [prints("size", f"sizeof({name})")]
        if name in abi.VERSIONS:
            lines += [prints("version", abi.version_macro(name))]
        numbers = measure(headers[max(headers)], lines, folder)
        known[name] = {
            "driver": first(headers, rf"\b{name}\b"),
            **{key: numbers[key][0] for key in ("size", "version") if key in numbers},
            "members": {one: numbers[f".{one}"] for one in members},
        }
    return known


def constants(headers: dict[int, str], folder: Path) -> dict[str, list[int | None]]:
    """The constants that the node program, its tables and the stand-in use."""
    newest = headers[max(headers)]
    used = abi.used_by_the_node_program("NVML_") - {"NVMLError"} | set(FAMILIES.findall(newest))
    names = sorted(used | set(abi.ENUMS.values()) | set(abi.field_ids()))
    numbers = measure(newest, [prints(name, name) for name in names], folder)
    return {name: [numbers[name][0], first(headers, rf"\b{name}\b")] for name in names}


def changed(
    headers: dict[int, str], document: dict[str, Any], folder: Path
) -> dict[str, list[int]]:
    """The sizes and constants that are not the same in all headers, with all their values."""
    names = [*document["structs"], *document["constants"]]
    values: dict[str, set[int]] = {name: set() for name in names}
    for header in headers.values():
        here = [name for name in names if re.search(rf"\b{name}\b", header)]
        ask = {n: f"sizeof({n})" if n in document["structs"] else n for n in here}
        for name, (value,) in measure(header, map(prints, ask, ask.values()), folder).items():
            values[name].add(value)
    return {name: sorted(known) for name, known in values.items() if len(known) > 1}


def text(document: dict[str, dict[Any, Any]]) -> str:
    """The data, a line an entry."""
    lines = [HEAD.rstrip()]
    for section, entries in document.items():
        lines += [f"{section}:", *(f"  {name}: {json.dumps(e)}" for name, e in entries.items())]
    return "\n".join(lines)


def main() -> None:
    """Print the data."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        fetched = {branch: fetch(name, folder / str(branch)) for branch, name in PACKAGES.items()}
        headers = {branch: header for branch, (header, _) in fetched.items()}
        document: dict[str, dict[Any, Any]] = {
            "headers": {
                branch: {"package": PACKAGES[branch], "sha256": digest}
                for branch, (_, digest) in fetched.items()
            },
            "functions": functions(headers),
            "structs": structs(headers, folder),
            "constants": constants(headers, folder),
        }
        document["changed"] = changed(headers, document, folder)
    print(text(document))


if __name__ == "__main__":
    main()
