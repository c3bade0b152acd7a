"""`containerd-cdi`: switch CDI on in /etc/containerd/config.toml, and change nothing else in it.

The lines go into the CRI plugin's own section and not into a drop-in file: before containerd 2.1 an
imported file *replaces* the section (containerd#5837), and the owner's registries and runtimes with
it. Nothing here writes TOML: the text is edited and containerd itself is asked what it makes of the
result. It must differ from before in CDI's two settings alone.

Document on stdin: {"markers": [paths]}. Prints {"changed": [keys]}. Exit status: 0, or 1 with one
line when the file is left as it is.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from b200kit.node.facts import containers
from b200kit.node.facts.docker import PATH
from b200kit.node.lib import documents, user_file
from b200kit.node.lib.user_file import FileRefused

SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
# Name of the CRI plugin in a file of that version (containerd docs/PLUGINS.md).
_SECTION = {"2": "io.containerd.grpc.v1.cri", "3": "io.containerd.cri.v1.runtime"}
_OURS = re.compile(r"^\s*(enable_cdi|cdi_spec_dirs|imports)\s*=")


def main(args: list[str]) -> int:
    """Switch CDI on, print what changed."""
    del args
    document = documents.request()
    try:
        changed = switch_on(containers.CONTAINERD_CONFIG, document.get("markers", []))
    except FileRefused as refused:
        print(user_file.message(refused), file=sys.stderr)
        return 1
    print(json.dumps({"changed": changed}))
    return 0


def switch_on(path: Path, markers: list[str]) -> list[str]:
    """Switch CDI on; the keys that changed, [] when it is on. Raises Refused."""
    program = shutil.which("containerd", path=PATH)
    if program is None:
        raise FileRefused(f"{path}: containerd is not installed")
    text = user_file.read(path)
    before = _dump(program, path, None)
    settings = containers.cri_settings(before)
    if settings is None:
        raise FileRefused(
            f"{path}: it disables the CRI plugin (disabled_plugins); take it out of there"
        )
    desired = _desired(settings)
    if not desired:
        return []
    version = _version(text, before, path)
    content = edited(text or f"version = {version}\n", _SECTION[version], desired)
    _verify(program, path, content, before, _hint(version, desired))
    user_file.replace(path, content, markers, [])
    return sorted(desired)


def _desired(settings: dict[str, object]) -> dict[str, str]:
    """Settings to be made, as TOML: what is missing of CDI being on and looking in both places."""
    desired = {} if settings["cdi"] else {"enable_cdi": "true"}
    dirs = settings["spec_dirs"]
    own = [str(folder) for folder in dirs] if isinstance(dirs, list) else []
    missing = [folder for folder in SPEC_DIRS if folder not in own]
    if SPEC_DIRS[1] in missing:
        desired["cdi_spec_dirs"] = json.dumps(own + missing)
    return desired


def _version(text: str | None, dumped: str, path: Path) -> str:
    """Version of the file's format; a new file gets containerd's own."""
    source = dumped if text is None else text.split("\n[", 1)[0]
    found = re.search(r"^\s*version\s*=\s*([0-9]+)", source, re.MULTILINE)
    version = found[1] if found else "1"
    if version not in _SECTION:
        raise FileRefused(
            f"{path}: its format is version {version}; "
            "make it version 2 or newer (`containerd config migrate`)"
        )
    return version


def edited(text: str, section: str, desired: dict[str, str]) -> str:
    """*text* with the settings in the section: its own lines changed, the others right below it."""
    header = re.compile(rf"""^\s*\[\s*plugins\s*\.\s*["']{re.escape(section)}["']\s*\]\s*(#.*)?$""")
    lines, result, open_, left = text.splitlines(), [], False, dict(desired)
    for line in lines:
        if line.lstrip().startswith("["):
            open_ = bool(header.match(line))
        key = line.partition("=")[0].strip()
        if open_ and key in desired:
            indent = line[: len(line) - len(line.lstrip())]
            line = f"{indent}{key} = {left.pop(key)}"
        result.append(line)
    return "\n".join(_with_rest(result, header, section, left)) + "\n"


def _with_rest(
    lines: list[str], header: re.Pattern[str], section: str, left: dict[str, str]
) -> list[str]:
    settings = [f"{key} = {value}" for key, value in sorted(left.items())]
    at = next((number for number, line in enumerate(lines) if header.match(line)), None)
    if not settings:
        return lines
    if at is None:
        return [*lines, "", f'[plugins."{section}"]', *(f"  {line}" for line in settings)]
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())] + "  "
    return [*lines[: at + 1], *(indent + line for line in settings), *lines[at + 1 :]]


def _verify(program: str, path: Path, content: str, before: str, hint: str) -> None:
    """Raises Refused unless containerd reads the new text as the old one with CDI on."""
    # Beside the file, as imports may be relative to it; no *.toml, which they may name.
    folder = path.parent if path.parent.is_dir() else None
    with tempfile.NamedTemporaryFile(dir=folder, prefix="b200kit.", suffix=".trial") as trial:
        trial.write(content.encode())
        trial.flush()
        after = _dump(program, path, Path(trial.name), f"what it would become; {hint}")
    settings = containers.cri_settings(after)
    if settings is None or _desired(settings) or _others(after) != _others(before):
        raise FileRefused(f"{path}: CDI cannot be switched on without changing more; {hint}")


def _hint(version: str, desired: dict[str, str]) -> str:
    lines = ", ".join(f"{key} = {value}" for key, value in sorted(desired.items()))
    return f'set {lines} in [plugins."{_SECTION[version]}"] where that is defined'


def _others(dumped: str) -> list[str]:
    """All but what is meant to change; containerd's list of files it read names the trial."""
    return [line for line in dumped.splitlines() if not _OURS.match(line)]


def _dump(program: str, path: Path, trial: Path | None, what: str = "it") -> str:
    try:
        return containers.dump(program, trial)
    except OSError as error:
        output = str(error).rpartition("TOML: ")[2]
        raise FileRefused(f"{path}: containerd refuses {what}: {output}") from None
