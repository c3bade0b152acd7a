"""Why the kernel did not take a driver module, from a boot's log.

The kernel's own lines, and those of modprobe and systemd, who get the error number.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from b200kit.node.facts import xid
from b200kit.node.lib.readings import command

_MAX, _MOST = 200, 40

SECURE_BOOT = (
    "Secure Boot refuses it: enroll the key that DKMS signs with (mokutil --import), "
    "or switch Secure Boot off"
)
# Most specific first. What the kernel says is in kernel/module/signing.c, main.c and version.c,
# what modprobe and systemd make of the error number is errno's text (EKEYREJECTED, ENOKEY).
_TELLING = (
    (
        re.compile(
            r"Key was rejected by service|Required key not available|"
            r"Loading of .* is rejected|unsigned module loading is restricted"
        ),
        SECURE_BOOT,
    ),
    (
        re.compile(
            r"nvidia.*(version magic|disagrees about version of symbol|Unknown symbol)|"
            r"could not insert 'nvidia.*(Exec format error|Invalid argument)"
        ),
        "it was built for another kernel: rebuild it with `dkms autoinstall`",
    ),
    (
        re.compile(r"NVRM: .*(already bound to nouveau|nouveau, )|nouveau .*(DRM|bios): "),
        "nouveau took the GPUs first: blacklist it and update the initramfs",
    ),
    (
        re.compile(r"NVRM: .*(No NVIDIA |None of the NVIDIA|not supported|probe routine)"),
        "it found no GPU that it can drive: look at the PCI bus",
    ),
    (re.compile(r"NVRM: (?!loading ).*"), ""),
    (re.compile(r"(Failed to (find|insert)|could not insert|not found).*nvidia"), ""),
    (re.compile(r"nvidia: module verification failed"), "the module is not signed"),
)


def relevant(lines: Sequence[str]) -> list[str]:
    """The lines that may show why, each once, in order."""
    found = (line.strip() for line in lines if any(p.search(line) for p, _ in _TELLING))
    return list(dict.fromkeys(found))


def refusal(lines: Sequence[str]) -> str:
    """The most specific line with what it means; empty when no line shows a cause."""
    for pattern, meaning in _TELLING:
        for line in lines:
            if pattern.search(line):
                output = f'the kernel log says "{line.strip()[:_MAX]}"'
                return f"{output}; {meaning}" if meaning else output
    return ""


def lines() -> list[str]:
    """The relevant lines of the journal; of the kernel's buffer where there is no journal."""
    try:
        output = command(["journalctl", "-b", "-o", "cat", "--no-pager"]).splitlines()
    except OSError:
        output = [str(entry) for entry in xid.kernel_log()]
    return relevant(output)[-_MOST:]


def main(args: list[str]) -> int:
    """Print the lines; 0 also when there is none, 1 when no log can be read."""
    del args
    try:
        for line in lines():
            print(line)
    except OSError as error:
        print(f"b200kit: the log cannot be read: {error}", file=sys.stderr)
        return 1
    return 0
