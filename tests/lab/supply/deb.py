"""One Debian package out of a folder of files, the same bytes every time."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAINTAINER = "b200kit lab <lab@example.invalid>"
#: Time stamp of every packaged file (2026-01-01 UTC): packages must not differ by when they were
#: built.
EPOCH = 1767225600

UNITS_CHANGED = """\
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
"""


@dataclass(frozen=True)
class Package:
    """What goes into one .deb; `files` are path -> content, `tree` a folder of more.

    In `tree` the words of `words` stand as @WORD@; its folder DEBIAN holds maintainer scripts.
    `enable` units are enabled on installation and not started.
    """

    name: str
    version: str
    summary: str
    depends: tuple[str, ...] = ()
    relations: Mapping[str, str] = field(default_factory=dict)
    tree: Path | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    enable: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        """Name of the .deb file."""
        return f"{self.name}_{self.version}_amd64.deb"


def control(package: Package) -> str:
    """The control file's text."""
    fields = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": "amd64",
        "Maintainer": MAINTAINER,
        "Section": "misc",
        "Priority": "optional",
        **({"Depends": ", ".join(package.depends)} if package.depends else {}),
        **package.relations,
        "Description": f"simulation: {package.summary}\n"
        " Stands in for the vendor's package of this name on b200kit's simulated nodes.",
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items())


def _fill(package: Package, root: Path) -> None:
    if package.tree is not None:
        shutil.copytree(package.tree, root, dirs_exist_ok=True)
        for path in (path for path in root.rglob("*") if path.is_file()):
            text = path.read_text(encoding="utf-8")
            for word, value in package.words.items():
                text = text.replace(f"@{word}@", value)
            path.write_text(text, encoding="utf-8")
    for name, content in package.files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    for name, target_name in package.links.items():
        (root / name).symlink_to(target_name)


def _scripts(package: Package, root: Path) -> None:
    debian = root / "DEBIAN"
    debian.mkdir(exist_ok=True)
    (debian / "control").write_text(control(package), encoding="utf-8")
    paths = [path.relative_to(root).as_posix() for path in root.rglob("*")]
    if any(".so." in path for path in paths):
        (debian / "triggers").write_text("activate-noawait ldconfig\n", encoding="utf-8")
    if any(path.startswith("usr/lib/systemd/system/") for path in paths):
        enable = f"deb-systemd-helper enable {' '.join(package.enable)} >/dev/null || true\n"
        script = f"#!/bin/sh\nset -e\n{enable if package.enable else ''}{UNITS_CHANGED}"
        for name in ("postinst", "postrm"):
            keep = script if name == "postinst" else script.replace(enable, "")
            (debian / name).write_text(keep, encoding="utf-8")
            (debian / name).chmod(0o755)


def _same_times(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        if path.is_dir() or (path.is_file() and os.access(path, os.X_OK)):
            path.chmod(0o755)
        elif not path.is_symlink():
            path.chmod(0o644)
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)


def build(package: Package, outdir: Path) -> Path:
    """Write the .deb into `outdir` and return its path; needs dpkg-deb."""
    with tempfile.TemporaryDirectory(prefix="b200-deb-") as scratch:
        root = Path(scratch) / "root"
        root.mkdir()
        _fill(package, root)
        _scripts(package, root)
        _same_times(root)
        target = outdir / package.filename
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), str(target)],
            check=True,
            capture_output=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
        )
    return target
