"""`update-grub` of a simulated node, and what a boot takes from the file it writes.

A container has no boot loader. As on a real node, a drop-in does nothing until update-grub has
written grub.cfg, and what grub.cfg says is the kernel's command line from the next boot on.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCENARIO = Path("/etc/b200-lab/scenario.json")
ROOT = Path("/")
CONFIG = "boot/grub/grub.cfg"
#: grub-mkconfig sources these files; what they leave in two variables goes on the command line.
SOURCE = (
    'cd "$1" || exit 1; for f in etc/default/grub etc/default/grub.d/*.cfg; do '
    '[ ! -r "$f" ] || . "./$f"; done; '
    'printf "%s %s" "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"'
)
LINUX = re.compile(r"^\s*linux\s+\S+ *(.*)$", re.MULTILINE)


def words(root: Path = ROOT) -> list[str]:
    """What /etc/default/grub and grub.d add to the command line."""
    done = subprocess.run(
        ["sh", "-c", SOURCE, "sh", str(root)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(errno.EINVAL, done.stderr.strip() or "it cannot be read as shell")
    return done.stdout.split()


def releases(root: Path = ROOT) -> list[str]:
    """Kernels that have an image, the newest first as grub-mkconfig has them; or what runs."""
    found = [path.name.partition("-")[2] for path in (root / "boot").glob("vmlinuz-*")]
    return sorted(found, key=_numbers, reverse=True) or [platform.release()]


def _numbers(release: str) -> list[tuple[int, str]]:
    parts = re.split(r"[.+~-]", release)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def config(scenario: Mapping[str, Any], root: Path = ROOT) -> str:
    """The text of grub.cfg: the newest kernel, all of them in the submenu with recovery modes."""
    first, *fixed = scenario["kernel_cmdline"].split()
    image = first.partition("=")[2] or "/boot/vmlinuz"
    line, rescue = " ".join([*fixed, *words(root)]), " ".join([*fixed, "single"])
    kernels = releases(root)
    below = "".join(
        _entry(f"Linux {kernel}", f"gnulinux-{kernel}-advanced", f"{image}-{kernel} {line}", kernel)
        + _entry(
            f"Linux {kernel} (recovery mode)",
            f"gnulinux-{kernel}-recovery",
            f"{image}-{kernel} {rescue}",
            kernel,
        )
        for kernel in kernels
    )
    newest = f"{image}-{kernels[0]} {line}"
    return (
        'set default="0"\n'
        + _entry("Debian GNU/Linux", "gnulinux-simple", newest, kernels[0])
        + "submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced' {\n"
        + f"{below}}}\n"
    )


def _entry(title: str, name: str, linux: str, kernel: str) -> str:
    return (
        f"menuentry '{title}' --class debian $menuentry_id_option '{name}' {{\n"
        f"\tlinux\t{linux}\n\tinitrd\t/boot/initrd.img-{kernel}\n}}\n"
    )


def cmdline(scenario: Mapping[str, Any], root: Path = ROOT) -> str:
    """The kernel command line this boot has."""
    path = root / CONFIG
    written: str = scenario["kernel_cmdline"]
    if not path.is_file():
        return written
    found = LINUX.search(path.read_text(encoding="utf-8"))
    return f"{written.split()[0]} {found[1]}" if found else written


def main() -> int:
    """Write grub.cfg beside itself and move it there; 1 where there is no room."""
    target = ROOT / CONFIG
    fresh = target.with_suffix(".cfg.new")
    print("Generating grub configuration file ...", file=sys.stderr)
    try:
        text = config(json.loads(SCENARIO.read_text(encoding="utf-8")))
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, target)
    except OSError as error:
        print(f"/usr/sbin/grub-mkconfig: {fresh}: {error.strerror}", file=sys.stderr)
        return 1
    print("done", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
